"""Checking a saved pack against the files as they are now: `ok`, `stale` or `invalid` for each ref."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentloop.compress.refs import digest, enclosed, text_digest
from agentloop.config import Caps
from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.pack import MAX_REF_LINES, SHORT_HASH_DIGITS, shown_place
from agentloop.types import Derived

_LEAST = len("sha256:") + SHORT_HASH_DIGITS


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of one ref. `status` is `ok`, `stale` (the file changed or is gone) or `invalid`."""

    evidence_id: str
    place: str
    status: str
    reason: str = ""

    def to_json(self) -> dict[str, str]:
        """As JSON values, without an empty reason."""
        told = {"evidence_id": self.evidence_id, "place": self.place, "status": self.status}
        return {**told, "reason": self.reason} if self.reason else told


def verify_saved(pack: Any, paths: Sequence[str], caps: Caps) -> list[Checked]:
    """Check every ref of a saved pack, released or artifact.

    Args:
        pack: the decoded JSON.
        paths: the inputs in the order of the request: `in1` is the first.

    Raises:
        AgentloopError: RAG_SCHEMA_INVALID, the JSON is no pack; INPUT_DISCOVERY_FAILED, a path is missing.
    """
    items = _items(pack)
    for path in paths:
        if not os.path.lexists(path):
            raise AgentloopError(
                ErrorCode.INPUT_DISCOVERY_FAILED,
                f"{path} does not exist; give the pack's inputs in the order of the request.",
                Stage.DISCOVERY,
                {"path": path, "reason": "missing"},
            )
    reader = _Reader(paths, caps)
    checked = []
    for item in items:
        refs = item.get("source_refs")
        for ref in refs if isinstance(refs, list) and refs else [refs or {}]:
            status, reason = reader.check(ref)
            place = shown_place(ref) if isinstance(ref, dict) else "?"
            checked.append(Checked(str(item.get("id", "")), place, status, reason))
    return checked


def _items(pack: Any) -> list[dict[str, Any]]:
    try:
        items = pack["payload"]["evidence"]
    except (TypeError, KeyError, IndexError):
        items = None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise AgentloopError(
            ErrorCode.RAG_SCHEMA_INVALID,
            "The JSON is no evidence pack: it has no payload.evidence.",
            Stage.VALIDATION,
        )
    return items


class _Reader:
    """Reads the inputs, each file once."""

    def __init__(self, paths: Sequence[str], caps: Caps) -> None:
        self._roots = [Path(os.path.abspath(path)) for path in paths]
        self._caps = caps
        self._data: dict[Path, bytes | None] = {}
        self._texts: dict[tuple[str, ...], Derived] = {}  # by content, extractor, version and member

    def check(self, ref: Any) -> tuple[str, str]:
        """Status and reason of one ref."""
        fault = _form(ref)
        if fault:
            return "invalid", fault
        data, reason = self._bytes(ref)
        if data is None:
            return ("invalid" if reason.startswith("!") else "stale"), reason.lstrip("!")
        if not _same(data, ref["content_hash"]):
            if _span_holds(data, ref):
                return "stale", "the file changed, the cited span did not"
            return "stale", "the file changed" + self._other(ref)
        return self._span(data, ref)

    def _bytes(self, ref: dict[str, Any]) -> tuple[bytes | None, str]:
        root = self._root(ref["input_id"])
        if root is None:
            return None, f"!{ref['input_id']} is not among the inputs given"
        if ref.get("commit"):
            return self._blob(root, ref)
        if ref.get("path") is None:
            return None, "the pack carries no path, so the file can't be found"
        parts = str(ref["path"]).split("/")
        if root.is_dir():
            if ref["path"].startswith("/") or ".." in parts:
                return None, "!the path leaves its input"
            file = root.joinpath(*parts)
        else:
            file = root
        data = self._read(file, root)
        return data, "" if data is not None else "the file is gone or can't be read"

    def _root(self, input_id: str) -> Path | None:
        digits = input_id.removeprefix("in")
        if not digits.isdigit() or not 1 <= int(digits) <= len(self._roots):
            return None
        return self._roots[int(digits) - 1]

    def _other(self, ref: dict[str, Any]) -> str:
        """For an input that is one file: a word about its name, where the ref names another one."""
        root = self._root(ref["input_id"])
        if root is None or root.is_dir() or not ref.get("path") or ref["path"] == root.name:
            return ""
        return f", or {root.name} is not the input that held {ref['path']}"

    def _read(self, file: Path, root: Path) -> bytes | None:
        if file not in self._data:
            self._data[file] = _plain_bytes(file, root, self._caps.max_log_bytes)
        return self._data[file]

    def _blob(self, root: Path, ref: dict[str, Any]) -> tuple[bytes | None, str]:
        """Content of a commit, read as objects: git itself is never run in an input."""
        from agentloop.sources.git import blob_at, open_store

        with open_store(str(root)) as store:
            if isinstance(store, str):
                return None, store
            try:
                return blob_at(store, str(ref["commit"]), str(ref.get("path")), self._caps.max_log_bytes), ""
            except (KeyError, ValueError, OSError):
                return None, "its commit or path is not in the repository"

    def _span(self, data: bytes, ref: dict[str, Any]) -> tuple[str, str]:
        a, b = ref["byte_start"], ref["byte_end"]
        if not 0 <= a < b <= len(data):
            return "invalid", "its bytes are outside the file"
        if not _same(data[a:b], ref["chunk_hash"]):
            return "invalid", "the span does not hash to its chunk_hash"
        lines = (data.count(b"\n", 0, a) + 1, data.count(b"\n", 0, b - 1) + 1)
        if lines != (ref["line_start"], ref["line_end"]):
            return "invalid", f"its bytes are lines {lines[0]}-{lines[1]}"
        if lines[1] - lines[0] >= MAX_REF_LINES and not ref.get("derived"):
            return "invalid", f"it spans more than {MAX_REF_LINES} lines"
        return self._derived(data, ref) if ref.get("derived") else ("ok", "")

    def _derived(self, data: bytes, ref: dict[str, Any]) -> tuple[str, str]:
        """Derived text is extracted again from the same bytes, once for all refs to them."""
        span = ref["derived"]
        try:
            derived = self._extracted(data, ref["content_hash"], span)
            if span.get("member") is not None:
                first, last = 0, len(derived.items) - 1
            else:
                first, last = enclosed(derived, ref["byte_start"], ref["byte_end"])
            whole = derived.joined(first, last)
            text = whole[span["char_start"] : span["char_end"]]
        except (KeyError, TypeError, ValueError, AgentloopError):
            return "invalid", "its text can't be extracted again"
        if not text or not text_digest(text).startswith(str(span["text_hash"])):
            return "invalid", "its text, extracted again, is another"
        if span.get("line_start") is not None:
            line = whole.count("\n", 0, span["char_start"]) + 1
            end = line + text.count("\n", 0, len(text) - 1)
            if (line, end) != (span["line_start"], span.get("line_end", line)):
                return "invalid", f"its text is lines {line}-{end} of what was packed"
        return "ok", ""

    def _extracted(self, data: bytes, content_hash: str, span: dict[str, Any]) -> Derived:
        from agentloop.sources import extract
        from agentloop.sources.archives import member_text

        member, extractor, version = span.get("member"), span["extractor"], span["version"]
        key = (content_hash, str(extractor), str(version), *([str(member)] if member is not None else []))
        if key not in self._texts:
            if member is not None:
                self._texts[key] = member_text(data, member, extractor, version, self._caps)
            else:
                self._texts[key] = extract(extractor, version, data)
        return self._texts[key]


def _form(ref: Any) -> str:
    """What a ref lacks to be checked."""
    if not isinstance(ref, dict):
        return "it is no object"
    for name in ("line_start", "line_end", "byte_start", "byte_end"):
        if not isinstance(ref.get(name), int) or isinstance(ref[name], bool):
            return f"it has no {name}"
    for name in ("input_id", "content_hash", "chunk_hash"):
        if not isinstance(ref.get(name), str):
            return f"it has no {name}"
    if any(len(ref[name]) < _LEAST for name in ("content_hash", "chunk_hash")):
        return "a hash has fewer than 16 digits"
    return ""


def _same(data: bytes, stated: str) -> bool:
    return digest(data).startswith(stated)


def _span_holds(data: bytes, ref: dict[str, Any]) -> bool:
    a, b = ref["byte_start"], ref["byte_end"]
    return 0 <= a < b <= len(data) and _same(data[a:b], ref["chunk_hash"])


def _plain_bytes(file: Path, root: Path, most: int) -> bytes | None:
    """A regular file's bytes; None for anything else, also where a link stands in the way."""
    import stat

    try:
        real = Path(os.path.realpath(file))
        if real != file and not real.is_relative_to(os.path.realpath(root)):
            return None
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        return opened.read()
