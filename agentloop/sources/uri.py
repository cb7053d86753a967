"""From an input's URI to an absolute path, without touching the file system.

Accepted are absolute paths and `file:///…`; everything that could name another place than it seems to
(relative and dot segments, encoded or doubly encoded separators, hosts, other schemes, `~`, NUL, backslash)
is refused before anything is opened.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from agentloop.errors import AgentloopError, ErrorCode, Stage

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DECODINGS = 3  # what a careless later layer might undo: single, double and triple percent encoding


def path_error(input_id: str, reason: str, message: str) -> AgentloopError:
    """INPUT_DISCOVERY_FAILED for one input; `reason` is the machine-readable part."""
    return AgentloopError(
        ErrorCode.INPUT_DISCOVERY_FAILED,
        f"{input_id}: {message}",
        Stage.DISCOVERY,
        {"input_id": input_id, "reason": reason},
    )


def _refuse(input_id: str, why: str) -> AgentloopError:
    return path_error(
        input_id, "path_not_allowed", f"{why}. Name a local file or folder by its absolute path."
    )


def absolute_path(uri: str, input_id: str) -> str:
    """The absolute path that `uri` names, without `.` segments and doubled slashes.

    Raises:
        AgentloopError: INPUT_DISCOVERY_FAILED with `details.reason` `path_not_allowed`.
    """
    path = _decoded(uri, input_id)
    if "\0" in path or "\\" in path:
        raise _refuse(input_id, "the path holds a NUL or a backslash")
    if path.startswith("~"):
        raise _refuse(input_id, "`~` is not expanded")
    if not path.startswith("/"):
        raise _refuse(input_id, "the path is not absolute")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise _refuse(input_id, "the path holds `..`")
    if parts and parts[0].startswith("~"):
        raise _refuse(input_id, "`~` is not expanded")
    if _hides_escape(path):
        raise _refuse(input_id, "the path holds an encoded dot segment, slash, NUL or backslash")
    return "/" + "/".join(parts)


def _decoded(uri: str, input_id: str) -> str:
    """The path part of a `file:` URI, percent-decoded once; a plain path as it is."""
    scheme = _SCHEME.match(uri)
    if scheme is None:
        if uri.startswith("//"):
            raise _refuse(input_id, "the path begins with `//`, which may name a host")
        return uri
    if scheme[0].lower() != "file:":
        raise _refuse(input_id, f"`{scheme[0]}` is no scheme for inputs; only `file:///` is")
    rest = uri[scheme.end() :]
    if rest.startswith("//"):
        rest = rest[2:]
        if not rest.startswith("/"):
            raise _refuse(input_id, "a `file:` URI may not name a host")
    if rest.startswith("//"):
        raise _refuse(input_id, "a `file:` URI may not name a host")
    if _hides_escape(rest):
        raise _refuse(input_id, "the path holds an encoded dot segment, slash, NUL or backslash")
    return unquote(rest, errors="surrogateescape")


def _hides_escape(path: str) -> bool:
    """Whether decoding `path`, even repeatedly, brings up a separator, a NUL or a dot segment."""
    for _ in range(_DECODINGS):
        decoded = unquote(path, errors="surrogateescape")
        if decoded == path:
            return False
        grew = any(decoded.count(char) > path.count(char) for char in "/\\\0")
        if grew or ".." in decoded.split("/"):
            return True
        path = decoded
    return unquote(path, errors="surrogateescape") != path
