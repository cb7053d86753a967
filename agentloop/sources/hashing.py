"""`agentloop hash`: the hash that a caller may declare for an input."""

from __future__ import annotations

import os

from agentloop.budget import Ledger
from agentloop.clock import SystemClock
from agentloop.config import Caps, Policy
from agentloop.request import CompressRequest, InputRef, InputType
from agentloop.sources.discover import discover
from agentloop.sources.opening import Refused, open_file, open_parent
from agentloop.sources.report import refusal
from agentloop.sources.streams import hash_stream
from agentloop.sources.uri import absolute_path
from agentloop.types import SkipReason


def hash_path(path: str, caps: Caps) -> str:
    """`sha256:…` of the file at the absolute `path`, or the corpus hash of the folder.

    Raises:
        AgentloopError: INPUT_DISCOVERY_FAILED, as `discover`.
    """
    plain = absolute_path(path, "in1")
    try:
        parent = open_parent(plain)
    except Refused as exc:
        raise refusal("in1", plain, exc) from None
    try:
        fd, status = open_file(os.path.basename(plain), parent)
        try:
            return hash_stream(fd, status)
        finally:
            os.close(fd)
    except Refused as exc:
        # a folder opens, but it is no regular file; so do devices, which discovery refuses by name
        if exc.reason is not SkipReason.SPECIAL_FILE:
            raise refusal("in1", plain, exc) from None
    finally:
        os.close(parent)
    request = CompressRequest(query="hash", input_refs=(InputRef(type=InputType.DIRECTORY, uri=path),))
    return discover(request, caps, Policy(), Ledger(SystemClock())).inputs[0].content_hash
