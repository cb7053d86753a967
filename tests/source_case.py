"""Short forms for tests of discovery."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from agentloop.budget import Ledger
from agentloop.clock import SystemClock
from agentloop.config import Caps, Policy
from agentloop.errors import AgentloopError
from agentloop.request import CompressRequest, InputRef
from agentloop.sources import discover
from agentloop.types import Corpus


def find(
    *paths: Path | str,
    type: str = "directory",
    caps: Caps | None = None,
    policy: Policy | None = None,
    stdin: bytes | None = None,
    ledger: Ledger | None = None,
    **ref: Any,
) -> Corpus:
    """Discover these inputs, all of one type."""
    refs = tuple(InputRef(type=type, uri=str(path), **ref) for path in paths)
    request = CompressRequest(query="q", input_refs=refs)
    stream = None if stdin is None else io.BytesIO(stdin)
    return discover(
        request, caps or Caps(), policy or Policy(), ledger or Ledger(SystemClock()), stdin=stream
    )


def failure(*paths: Path | str, **options: Any) -> AgentloopError:
    """The error of a discovery that must fail."""
    try:
        find(*paths, **options)
    except AgentloopError as exc:
        return exc
    raise AssertionError("discovery gave a corpus")


def write(root: Path, **files: str | bytes) -> Path:
    """Write files by relative path; returns the root."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return root


def left_out(corpus: Corpus) -> dict[str, str]:
    """Path -> reason of everything that was left out."""
    return {left.path: str(left.reason) for left in corpus.excluded}


def paths(corpus: Corpus) -> list[str]:
    """The paths of the files found, in order."""
    return [file.path for file in corpus.files]
