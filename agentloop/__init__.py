"""agentloop: a question about local files in, a pack of verified evidence out.

    from agentloop import compress_sync, make_request

    outcome = compress_sync(make_request("Why did the build fail?", ["build.log"]))
    print(outcome.released["payload"]["evidence"])

Names are imported when they are first used, so that `import agentloop` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentloop.api import compress, compress_sync, make_request
    from agentloop.config import Caps, Policy
    from agentloop.errors import AgentloopError
    from agentloop.pack import Pack
    from agentloop.pipeline import Environment, Outcome
    from agentloop.request import CompressRequest, InputRef, TaskParams, TaskType

__version__ = "0.1.0"

_HOME = {
    "compress": "agentloop.api",
    "compress_sync": "agentloop.api",
    "make_request": "agentloop.api",
    "Caps": "agentloop.config",
    "Policy": "agentloop.config",
    "AgentloopError": "agentloop.errors",
    "Pack": "agentloop.pack",
    "Environment": "agentloop.pipeline",
    "Outcome": "agentloop.pipeline",
    "CompressRequest": "agentloop.request",
    "InputRef": "agentloop.request",
    "TaskParams": "agentloop.request",
    "TaskType": "agentloop.request",
}

__all__ = [
    "AgentloopError",
    "Caps",
    "CompressRequest",
    "Environment",
    "InputRef",
    "Outcome",
    "Pack",
    "Policy",
    "TaskParams",
    "TaskType",
    "compress",
    "compress_sync",
    "make_request",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'agentloop' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
