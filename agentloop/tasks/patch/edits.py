"""Edits that a model proposes, and the unified diff that they make of recorded file contents.

A model replaces exact text: `old` must stand exactly once in the file as it was hashed. That is what
models of every size get right most often, and what can't be applied in the wrong place.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from agentloop.request import PatchStyle
from agentloop.types import SourceFile

MAX_EDITS = 32
MINIMAL_LINES = 60  # changed lines that `patch_style: minimal` allows
CONTEXT_LINES = 3
_FENCE = re.compile(r"^```[a-z]*\s*|\s*```$")


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `old`, which stands once in `path`, by `new`."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """A model's reply: its edits and what it says of them."""

    edits: tuple[Edit, ...]
    rationale: str
    risks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Patch:
    """Edits that apply: the diff, and the new text of each changed file by path."""

    diff: str
    files: Mapping[str, str]
    added: int
    removed: int


class PatchError(Exception):
    """Why a reply is no patch, in a sentence that the model can act on."""


def parse_proposal(text: str) -> Proposal:
    """The proposal in a reply.

    Raises:
        PatchError: the reply is not the JSON that was asked for.
    """
    try:
        data = json.loads(_FENCE.sub("", text.strip()))
    except (ValueError, RecursionError):
        raise PatchError("The reply is not one JSON object.") from None
    entries = data.get("edits") if isinstance(data, dict) else None
    if not isinstance(entries, list) or not entries:
        raise PatchError('The reply has no list "edits" with at least one edit.')
    if len(entries) > MAX_EDITS:
        raise PatchError(f"{len(entries)} edits are too many; at most {MAX_EDITS}.")
    edits = []
    for entry in entries:
        fields = [entry.get(k) for k in ("path", "old", "new")] if isinstance(entry, dict) else [None]
        if not all(isinstance(f, str) for f in fields):
            raise PatchError('Each edit needs the strings "path", "old" and "new".')
        edits.append(Edit(*[str(f) for f in fields]))
    risks = data.get("risks") if isinstance(data.get("risks"), list) else []
    return Proposal(
        tuple(edits), str(data.get("rationale", ""))[:600], tuple(str(r)[:200] for r in risks[:4])
    )


def make_patch(
    edits: Sequence[Edit],
    files: Mapping[str, SourceFile],
    allowed_paths: Sequence[str],
    style: PatchStyle,
) -> Patch:
    """The diff of edits against recorded contents.

    Raises:
        PatchError: a path that is not allowed or not read, text that doesn't stand there exactly once, an
            edit that changes nothing, or more lines than `minimal` allows.
    """
    changed: dict[str, str] = {}
    original: dict[str, str] = {}
    for edit in edits:
        if not allowed(edit.path, allowed_paths):
            raise PatchError(f"{edit.path} is not under allowed_paths {list(allowed_paths)}.")
        if edit.path not in files:
            raise PatchError(f"{edit.path} is not a file of the input.")
        if edit.path not in changed:
            file = files[edit.path]
            original[edit.path] = _text(file)
            changed[edit.path] = original[edit.path]
        changed[edit.path] = _replace_once(changed[edit.path], edit)
    diff, added, removed = "", 0, 0
    for path in sorted(changed):
        one = _diff(path, original[path], changed[path])
        if not one:
            raise PatchError(f"The edits leave {path} as it was.")
        diff += one
        lines = one.splitlines()[2:]
        added += sum(line.startswith("+") for line in lines)
        removed += sum(line.startswith("-") for line in lines)
    if style is PatchStyle.MINIMAL and added + removed > MINIMAL_LINES:
        raise PatchError(f"{added + removed} changed lines are not minimal; at most {MINIMAL_LINES}.")
    return Patch(diff, changed, added, removed)


def allowed(path: str, allowed_paths: Sequence[str]) -> bool:
    """Whether a path is a file, in a folder or of a glob of `allowed_paths`; any path where none is given."""
    if path.startswith("/") or ".." in path.split("/"):
        return False
    rules = [p.strip("/").removeprefix("./") for p in allowed_paths]
    return not rules or any(
        path == r or path.startswith(r + "/") or r in ("", ".") or fnmatchcase(path, r) for r in rules
    )


def _text(file: SourceFile) -> str:
    try:
        return file.content.read(0, file.content.size).decode("utf-8")
    except UnicodeDecodeError:
        raise PatchError(f"{file.path} is not UTF-8 text; it can't be patched here.") from None


def _replace_once(text: str, edit: Edit) -> str:
    count = text.count(edit.old) if edit.old else 0
    if count != 1:
        where = "is empty" if not edit.old else f"stands {count} times"
        raise PatchError(f'"old" {where} in {edit.path}; copy text that stands there exactly once.')
    return text.replace(edit.old, edit.new)


def _diff(path: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(_lines(before), _lines(after), f"a/{path}", f"b/{path}", n=CONTEXT_LINES)
    out = ""
    for line in lines:
        out += line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
    return out


def _lines(text: str) -> list[str]:
    """Lines that end at `\\n` alone, as git counts them."""
    return [line + "\n" for line in text.split("\n")[:-1]] + (
        [text.rsplit("\n", maxsplit=1)[-1]] if not text.endswith("\n") else []
    )


def schema() -> dict[str, Any]:
    """The reply's JSON Schema: flat enough for llama.cpp."""
    text = {"type": "string"}
    edit = {
        "type": "object",
        "properties": {"path": text, "old": text, "new": text},
        "required": ["path", "old", "new"],
    }
    return {
        "type": "object",
        "properties": {
            "edits": {"type": "array", "items": edit},
            "rationale": text,
            "risks": {"type": "array", "items": text},
        },
        "required": ["edits", "rationale", "risks"],
    }
