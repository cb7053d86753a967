"""Logs in a request: the failure that they report, beside what the question itself found."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agentloop.budget import Ledger
from agentloop.request import CompressRequest, InputRole, TaskType
from agentloop.types import Corpus, Draft, FileKind, SourceFile

if TYPE_CHECKING:
    from agentloop.logs.analysis import LogAnalysis

LEADING = 3  # drafts of the failure itself that come before what the question found
_ABOUT_FAILURES = (TaskType.SUMMARIZE_LOGS, TaskType.DEBUG, TaskType.PROPOSE_PATCH)
_FAILURE = re.compile(
    r"\b(?:fail\w*|error\w*|crash\w*|broken?|break\w*|abort\w*|panic\w*|exception\w*|traceback|red|wrong"
    r"|die[sd]?|dying|root cause|cause[sd]?|stopp?ed|killed|timed? ?out"
    r"|błąd\w*|błęd\w*|awari\w*|nie działa)\b",
    re.IGNORECASE,
)
# Quoted text, and words with a digit, an inner capital, or a mark that names have.
_NAMED = re.compile(
    r"[\"'`]([^\"'`]{2,80})[\"'`]|\b(\w{0,60}(?:\d\w*|[a-z][A-Z]\w*|[_./:@-]\w[\w./:@-]{0,60}))", re.UNICODE
)


def log_files(corpus: Corpus, role: InputRole) -> list[SourceFile]:
    """The logs among inputs of a role, each content once: a log may be named and lie in a folder too."""
    inputs = {i.input_id for i in corpus.inputs if i.role is role}
    logs: dict[str, SourceFile] = {}
    for file in corpus.files:
        if file.kind is FileKind.LOG and file.input_id in inputs:
            logs.setdefault(file.content_hash, file)
    return list(logs.values())


def asks_for_failure(question: str) -> bool:
    """Whether a question is about something that went wrong."""
    return _FAILURE.search(question) is not None


def failure_drafts(
    corpus: Corpus,
    request: CompressRequest,
    ledger: Ledger,
    seen: Callable[[LogAnalysis], None] | None = None,
) -> list[Draft]:
    """What the logs say of their failures, best first; nothing where the request asks for something else.

    Args:
        seen: is given the analysis of each log.
    """
    logs = log_files(corpus, InputRole.PRIMARY)
    if not logs or not (request.task_type in _ABOUT_FAILURES or asks_for_failure(request.question)):
        return []
    from agentloop.logs.drafts import log_drafts

    baseline = log_files(corpus, InputRole.BASELINE)
    return log_drafts(corpus, logs, request, ledger, baseline_files=baseline, seen=seen)


def beside_failures(found: Sequence[Draft], question: str) -> list[Draft]:
    """What retrieval adds to the failures of the logs: claims with a name or a quotation of the question.

    The other words of a question about a failure ("build", "failed", "cause") are on any line of a log.
    """
    named = [word.lower() for match in _NAMED.finditer(question) for word in match.groups() if word]
    return [draft for draft in found if any(word in draft.claim.lower() for word in named)][:LEADING]


def distinct(drafts: Sequence[Draft], corpus: Corpus) -> list[Draft]:
    """`drafts` without those whose first place lies inside that of an earlier one, or of its twin."""
    kept: list[Draft] = []
    taken = _Taken(corpus)
    for draft in drafts:
        if not taken.holds(draft):
            taken.add(draft)
            kept.append(draft)
    return kept


def led_by(first: Sequence[Draft], rest: Sequence[Draft], corpus: Corpus) -> list[Draft]:
    """All of `first`, then those of `rest` whose first place lies inside none of theirs."""
    taken = _Taken(corpus)
    for draft in first:
        taken.add(draft)
    return [*first, *(draft for draft in rest if not taken.holds(draft))]


_End = tuple[int, int]


class _Taken:
    """Spans that drafts cite first, by content: a file and its twin count as one.

    Text that was derived is compared by items and characters: all items of a compressed file, or of a
    member of an archive, share the bytes of its header.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._spans: dict[str, list[tuple[_End, _End]]] = {}

    def _of(self, draft: Draft) -> list[tuple[_End, _End]]:
        return self._spans.setdefault(self._corpus.files[draft.places[0].file].content_hash, [])

    def _ends(self, draft: Draft) -> tuple[_End, _End]:
        place = draft.places[0]
        derived = self._corpus.files[place.file].derived
        if derived is None or place.first_item < 0:
            return (0, place.byte_start), (0, place.byte_end)
        before = sum(derived.size(n) + 1 for n in range(place.first_item, place.last_item))
        return (place.first_item, place.char_start), (place.last_item, place.char_end - before)

    def holds(self, draft: Draft) -> bool:
        start, end = self._ends(draft)
        return any(a <= start and end <= b for a, b in self._of(draft))

    def add(self, draft: Draft) -> None:
        self._of(draft).append(self._ends(draft))
