"""`recent_change` items, and recency as a signal: commits and uncommitted edits that touch the evidence.

An item cites the lines as they are in the input now, so that it verifies without git, and beside them the
lines that stood there before, in the parent commit, which verification reads as objects. A file that a
commit deleted is cited in that parent alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from agentloop.compress.region import place_of, span_region
from agentloop.request import CompressRequest, Strategy, TaskType
from agentloop.sources.git import (
    CommitChange,
    FileChange,
    HistoryLimits,
    Hunk,
    RecentChanges,
    Touched,
    recent_changes,
)
from agentloop.tasks.model import with_history
from agentloop.tasks.old_versions import OldVersions
from agentloop.types import Corpus, Draft, Place, SourceFile, Span

MOST = 3
LOOKED_AT = 12  # drafts, best first, whose files count
UNDATED = HistoryLimits(max_commits=30)  # without `changed_since`
RELEVANCE = 0.5
CONFIDENCE = 0.6  # that the lines changed is certain; that it matters is not
SUBJECT_CHARS = 100
OLD_LINES = 40  # of what stood there before
NEWER = 0.15  # relevance that the newest change gives where the request asks for recent ones
_SHORT_ID = 10
_ASKS = re.compile(
    r"\b(?:recent\w*|latest|newest|last (?:change|commit|week|month|days?|release)|new(?:ly)? \w+ed"
    r"|changed|introduced|regress\w*|since \S+|broke\b|removed|deleted|stopped working"
    r"|ostatni\w*|niedawn\w*|zmieni\w*|usuni\w*)\b",
    re.IGNORECASE,
)
_REMOVED = re.compile(r"\b(?:remov|delet|dropp|usuni)\w*", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z_]\w{2,}")


@dataclass(frozen=True, slots=True)
class _Change:
    """A touched span of a file that the evidence cites."""

    file: int
    span: Touched
    inside: bool  # it lies in lines that the evidence cites


class Recent:
    """The recent changes that a request asks for, read once.

    Nothing unless the request names `git_diff_history` or `changed_since`; debug and patch requests do so by
    themselves, and look at changes on their own too.
    """

    def __init__(self, corpus: Corpus, request: CompressRequest) -> None:
        self._corpus = corpus
        self._question = request.question
        self._since = request.task_params.changed_since or ""
        own = request.task_type in (TaskType.DEBUG, TaskType.PROPOSE_PATCH)
        named = Strategy.GIT_DIFF_HISTORY in request.strategies
        repository = any(info.commit for info in corpus.inputs)
        self._asked = repository and (named or (bool(self._since) and not own))
        self._by_age = self._asked and not own

    @cached_property
    def _changes(self) -> RecentChanges:
        """Raises AgentloopError: REQUEST_INVALID; `changed_since` names no commit of a repository."""
        return recent_changes(self._corpus, since=self._since, limits=None if self._since else UNDATED)

    def reranked(self, found: Sequence[Draft]) -> list[Draft]:
        """`found` with what changed lately raised, where `changed_since` or the question asks for it.

        The newest change gives its whole weight, each one before it half a place less: 1, 1/2, 1/3, …
        """
        if not self._by_age or not (self._since or _ASKS.search(self._question)):
            return list(found)
        order = {c.commit: n for n, c in enumerate(self._changes.commits, 1) if c.parent}
        ranked = []
        for at, draft in enumerate(found):
            newest = min((self._age(draft.places[0], order)), default=0)
            ranked.append((-(draft.relevance + (NEWER / newest if newest else 0.0)), at, draft))
        ranked.sort(key=lambda entry: entry[:2])
        return [draft for _, _, draft in ranked]

    def _age(self, place: Place, order: dict[str, int]) -> Iterator[int]:
        """Ranks of the changes that touch a place; uncommitted edits count as the newest."""
        for span in self._changes.files.get(place.file, ()):
            if span.line_start <= place.line_end and place.line_start <= span.line_end:
                rank = order.get(span.commit.commit, 0) if span.commit.commit else 1
                if rank:
                    yield rank

    def drafts(self, found: Sequence[Draft]) -> tuple[list[Draft], tuple[SourceFile, ...]]:
        """The newest changes of lines that drafts cite, then of their files, and the versions that they cite.

        At most `MOST`, one a change and file; files that were deleted come where the question names them.
        """
        if not self._asked:
            return [], ()
        old = OldVersions(self._corpus)
        made = [draft for change in self._best(found) if (draft := self._draft(change, old))]
        made += list(self._deleted(old))[: max(0, MOST - len(made)) or 1]
        return made[: MOST + 1], old.files

    def _best(self, found: Sequence[Draft]) -> list[_Change]:
        cited: dict[int, list[Place]] = {}
        for draft in found[:LOOKED_AT]:
            cited.setdefault(draft.places[0].file, []).append(draft.places[0])
        ranked: dict[tuple[int, str], tuple[tuple[bool, int, int], _Change]] = {}
        for order, (file, places) in enumerate(cited.items()):
            for span in self._changes.files.get(file, ()):
                if span.commit.commit and not span.commit.parent:
                    continue  # the first commit of a history is no change
                inside = any(p.line_start <= span.line_end and span.line_start <= p.line_end for p in places)
                key = (not inside, -span.commit.seconds, order)
                held = ranked.get((file, span.commit.commit))
                if held is None or key < held[0]:
                    ranked[file, span.commit.commit] = (key, _Change(file, span, inside))
        best = sorted(ranked.items(), key=lambda entry: (entry[1][0], entry[0]))[:MOST]
        return [change for _, (_, change) in best]

    def _draft(self, change: _Change, old: OldVersions) -> Draft | None:
        file, span = self._corpus.files[change.file], change.span
        lines = _span(file, span.line_start, span.line_end)
        if file.derived is not None or lines is None:
            return None
        region = span_region(self._corpus, change.file, lines)
        places = [place_of(self._corpus, region, 0, len(region.lines) - 1)]
        before = self._before(file, span, old)
        places += [] if before is None else [before]
        what = _what(span.commit, "Changed")
        touched = "lines that the evidence cites" if change.inside else "the file that the evidence cites"
        removed = "; lines before it were removed" if span.removed_only else ""
        named = span.commit.commit and span.commit.subject
        subject = f": {span.commit.subject[:SUBJECT_CHARS]}" if named else ""
        return Draft(
            kind="recent_change",
            claim=f"{what}, {touched}{removed}{subject}",
            places=tuple(places),
            relevance=RELEVANCE,
            confidence=CONFIDENCE,
            derived_claim=f"{what}, {touched}{removed}",
        )

    def _before(self, file: SourceFile, span: Touched, old: OldVersions) -> Place | None:
        """The lines that the change replaced or removed, as the parent commit has them."""
        change = next((c for c in span.commit.files if c.path == file.path), None)
        hunk = None if change is None else _hunk(file, span, change)
        if change is None or hunk is None or not hunk.removed:
            return None
        last = hunk.old_start + min(len(hunk.removed), OLD_LINES) - 1
        return self._old_place(old, file.input_id, span.commit, change, hunk.old_start, last)

    def _old_place(
        self, old: OldVersions, input_id: str, commit: CommitChange, change: FileChange, first: int, last: int
    ) -> Place | None:
        version = old.version(input_id, commit.parent, change)
        lines = None if version is None else _span(version, first, last)
        if version is None or lines is None:
            return None
        corpus = with_history(self._corpus, old.files)
        region = span_region(corpus, version.index, lines)
        return place_of(corpus, region, 0, len(region.lines) - 1)

    def _deleted(self, old: OldVersions) -> Iterator[Draft]:
        """Files that recent commits deleted, where the question names them or asks for what was removed."""
        asked = _REMOVED.search(self._question) is not None
        words = {word.lower() for word in _WORD.findall(self._question)}
        repositories = [info.input_id for info in self._corpus.inputs if info.commit]
        present = {file.path for file in self._corpus.files}
        for commit in self._changes.commits:
            for change in commit.files if len(repositories) == 1 and commit.parent else ():
                named = not words.isdisjoint(w.lower() for w in _WORD.findall(change.path))
                if change.kind != "deleted" or change.path in present or not (named or asked):
                    continue
                place = self._old_place(old, repositories[0], commit, change, 1, OLD_LINES)
                if place is not None:
                    what = _what(commit, "Deleted")
                    yield Draft(
                        kind="recent_change",
                        claim=f"{what}, the file as it was before: {commit.subject[:SUBJECT_CHARS]}",
                        places=(place,),
                        relevance=RELEVANCE,
                        confidence=CONFIDENCE,
                        derived_claim=f"{what}, the file as it was before",
                    )


def _what(commit: CommitChange, done: str) -> str:
    name = commit.commit[:_SHORT_ID]
    return f"{done} in {name} ({commit.time[:10]})" if name else f"{done} by uncommitted edits"


def _hunk(file: SourceFile, span: Touched, change: FileChange) -> Hunk | None:
    """The hunk of a commit that left a span: by its text, since later commits may have moved it."""
    if span.removed_only:
        bare = [hunk for hunk in change.hunks if not hunk.added]
        return min(bare, key=lambda hunk: abs(hunk.new_start - span.line_start), default=None)
    lines = _span(file, span.line_start, span.line_end)
    text = file.content.read(lines.byte_start, lines.byte_end).decode("utf-8", "replace") if lines else ""
    fitting = [h for h in change.hunks if h.added and text in "\n".join(h.added)]
    return min(fitting, key=lambda hunk: abs(hunk.new_start - span.line_start), default=None)


def _span(file: SourceFile, first: int, last: int) -> Span | None:
    """The bytes of lines `first..last`, without the last line's end; None where the file has none of them."""
    data = file.content.read(0, file.size)
    start = 0
    for _ in range(first - 1):
        at = data.find(b"\n", start)
        if at < 0:
            break
        start = at + 1
    end = start
    for _ in range(last - first + 1):
        at = data.find(b"\n", end)
        end = len(data) if at < 0 else at + 1
        if at < 0:
            break
    stop = end - 1 if data[end - 1 : end] == b"\n" else end
    if start >= stop:
        return None
    return Span(start, stop, first, first + data.count(b"\n", start, stop))
