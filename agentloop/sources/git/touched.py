"""Which lines of the present files recent commits wrote: a blame of the history that was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentloop.sources.git.diff import FileChange
from agentloop.sources.git.history import CommitChange, History


@dataclass(frozen=True, slots=True)
class Touched:
    """Lines of a file as HEAD has it, 1-based and inclusive, and the commit that wrote them last.

    Where a commit only removed lines, `line_start..line_end` is the line that now stands there, and
    `removed_only` is set. Lines past the end of the file stand for its last line.
    """

    line_start: int
    line_end: int
    commit: CommitChange
    removed_only: bool = False


def touched_lines(found: History) -> Mapping[str, tuple[Touched, ...]]:
    """For each path that the history changed and HEAD still has: its touched lines, in order.

    A rename is a deletion and an addition, as in the history. Merges bring no lines of their own.
    """
    files: dict[str, list[Touched]] = {}
    for commit in reversed(found.commits):  # oldest first, so that later commits move and replace lines
        for change in commit.files:
            if change.kind == "deleted":
                files.pop(change.path, None)
            else:
                files[change.path] = after_change(files.get(change.path, ()), change, commit)
    return {path: tuple(spans) for path, spans in sorted(files.items()) if spans}


def _place(span: Touched) -> tuple[int, int]:
    return (span.line_start, span.line_end)


def after_change(spans: Sequence[Touched], change: FileChange, commit: CommitChange) -> list[Touched]:
    """The touched lines after a change, in order: those it kept, moved, and those it wrote."""
    kept = list(spans)
    for hunk in reversed(change.hunks):  # from the end, so that old positions stay true
        first, last = hunk.old_start, hunk.old_start + len(hunk.removed) - 1
        shift = len(hunk.added) - len(hunk.removed)
        moved: list[Touched] = []
        for span in kept:
            before = _cut(span, span.line_start, min(span.line_end, first - 1), 0)
            behind = _cut(span, max(span.line_start, last + 1), span.line_end, shift)
            moved += [part for part in (before, behind) if part is not None]
        kept = moved
    written = [
        Touched(
            max(hunk.new_start, 1),
            max(hunk.new_start + len(hunk.added) - 1, hunk.new_start, 1),
            commit,
            removed_only=not hunk.added,
        )
        for hunk in change.hunks
    ]
    return sorted(kept + written, key=_place)


def _cut(span: Touched, first: int, last: int, shift: int) -> Touched | None:
    if first > last:
        return None
    return Touched(max(1, first + shift), max(1, last + shift), span.commit, span.removed_only)
