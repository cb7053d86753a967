"""What a commit changed: files by comparing trees, lines by comparing blobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from agentloop.sources.git.packs import TooLargeError
from agentloop.sources.git.store import GitStore, TreeEntry

_MAX_MATCHED_LINES = 4000  # SequenceMatcher is quadratic; a larger change is one hunk
_MAX_DEPTH = 200


@dataclass(frozen=True, slots=True)
class Hunk:
    """Changed lines: 1-based starts in the old and the new file, and the lines without their ends.

    A count of 0 means that nothing was there: the start is then the line before which the change is.
    """

    old_start: int
    new_start: int
    removed: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of a commit. `old` and `new` are blob ids, "" where the file isn't there."""

    path: str
    old: str
    new: str
    hunks: tuple[Hunk, ...] = ()
    left_out: str = ""  # why there are no hunks: binary, too_large, missing

    @property
    def kind(self) -> str:
        """`added`, `deleted` or `modified`."""
        return "modified" if self.old and self.new else "added" if self.new else "deleted"


def changed_files(
    store: GitStore, old: str, new: str, paths: Sequence[bytes] = (), prefix: bytes = b"", depth: int = 0
) -> Iterator[tuple[bytes, str, str]]:
    """Path, old and new blob id of each regular file that differs between two trees ("" for no tree).

    `paths` are files or folders to look at, all where empty.

    Raises:
        KeyError: a tree is missing.
    """
    if old == new or depth > _MAX_DEPTH:
        return
    before = {entry.name: entry for entry in store.tree(old)} if old else {}
    after = {entry.name: entry for entry in store.tree(new)} if new else {}
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        path = prefix + name
        if was == now or not _wanted(path, paths):
            continue
        yield from changed_files(store, _tree(was), _tree(now), paths, path + b"/", depth + 1)
        was_file, now_file = _file(was), _file(now)
        if was_file != now_file:
            yield path, was_file, now_file


def _wanted(path: bytes, paths: Sequence[bytes]) -> bool:
    """Whether `path` is, lies in, or leads to one of `paths`."""
    if not paths:
        return True
    return any(
        path == wanted or path.startswith(wanted + b"/") or wanted.startswith(path + b"/") for wanted in paths
    )


def _tree(entry: TreeEntry | None) -> str:
    return entry.oid if entry is not None and entry.is_tree else ""


def _file(entry: TreeEntry | None) -> str:
    return entry.oid if entry is not None and entry.is_file else ""


def file_change(store: GitStore, path: str, old: str, new: str, limit: int) -> FileChange:
    """The changed lines of a file; blobs over `limit` bytes are not read."""
    try:
        before = store.blob(old, limit) if old else b""
        after = store.blob(new, limit) if new else b""
    except TooLargeError:
        return FileChange(path, old, new, left_out="too_large")
    except (KeyError, ValueError):
        return FileChange(path, old, new, left_out="missing")
    if b"\0" in before[:8000] or b"\0" in after[:8000]:
        return FileChange(path, old, new, left_out="binary")
    return FileChange(path, old, new, tuple(hunks(lines_of(before), lines_of(after))))


def lines_of(data: bytes) -> list[bytes]:
    """The lines of a file without their `\\n`; a last line need not end in one."""
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def hunks(before: list[bytes], after: list[bytes]) -> Iterator[Hunk]:
    """Changed runs of lines, in order, without context."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if not old or not new or len(old) + len(new) > _MAX_MATCHED_LINES:
        if old or new:
            yield Hunk(start + 1, start + 1, _text(old), _text(new))
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield Hunk(start + i1 + 1, start + j1 + 1, _text(old[i1:i2]), _text(new[j1:j2]))


def _text(lines: list[bytes]) -> tuple[str, ...]:
    return tuple(line.decode("utf-8", "replace") for line in lines)
