"""Logs in a request: the failure that they report, beside what the question itself found."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agentloop.budget import Ledger
from agentloop.request import CompressRequest, InputRole, TaskType
from agentloop.types import Corpus, Draft, FileKind, SourceFile, Trait

if TYPE_CHECKING:
    from agentloop.logs.analysis import LogAnalysis

LEADING = 3  # drafts of the failure itself that come before what the question found
_NEAR = 6  # drafts of what the question found that say which logs it is about
_ABOUT_FAILURES = (TaskType.SUMMARIZE_LOGS, TaskType.DEBUG, TaskType.PROPOSE_PATCH)
_FAILURE = re.compile(
    r"\b(?:fail\w*|error\w*|crash\w*|broken?|break\w*|abort\w*|panic\w*|exception\w*|traceback|red|wrong"
    r"|die[sd]?|dying|root cause|cause[sd]?|stopp?ed|killed|timed? ?out"
    r"|błąd\w*|błęd\w*|awari\w*|nie działa)\b",
    re.IGNORECASE,
)
_LOGS = re.compile(r"\b(?:logs?|logi|log(?:u|i|ów|ach|iem))\b", re.IGNORECASE)
_ASIDE = frozenset({Trait.TEST, Trait.EXAMPLE, Trait.VENDORED, Trait.DOCS, Trait.GENERATED})
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
    found: Sequence[Draft] = (),
) -> list[Draft]:
    """What the logs say of their failures, best first; nothing where the request asks for something else.

    Args:
        seen: is given the analysis of each log.
        found: what the question found, best first. Of a question about anything, a log that merely lies
            among code counts only where this or the question itself leads to it.
    """
    logs = log_files(corpus, InputRole.PRIMARY)
    if request.task_type not in _ABOUT_FAILURES:
        if not asks_for_failure(request.question):
            return []
        logs = meant_logs(logs, corpus, request.question, found)
    if not logs:
        return []
    from agentloop.logs.drafts import log_drafts

    baseline = log_files(corpus, InputRole.BASELINE)
    return log_drafts(corpus, logs, request, ledger, baseline_files=baseline, seen=seen)


def meant_logs(
    logs: Sequence[SourceFile], corpus: Corpus, question: str, found: Sequence[Draft]
) -> list[SourceFile]:
    """Those of `logs` that a question about a failure is about.

    A log given as an input of its own, or in a folder with no more other files than logs, is there to be
    asked about. A log among code and documents is one file of many: the question speaks of logs or names
    it, or it is among the first that the question found. Test data, examples and the like must be named
    or come first: their failures are made up.
    """
    folders = {i.input_id for i in corpus.inputs if i.is_dir}
    others = Counter(f.input_id for f in corpus.files if f.kind is not FileKind.LOG)
    own = Counter(f.input_id for f in corpus.files if f.kind is FileKind.LOG)
    asked = question.lower()
    spoken = _LOGS.search(question) is not None
    first = [corpus.files[draft.places[0].file].content_hash for draft in found[:_NEAR]]
    meant = []
    for file in logs:
        at_home = file.input_id not in folders or own[file.input_id] >= others[file.input_id]
        aside = bool(file.traits & _ASIDE)
        near = first[:1] if aside else first
        if (
            at_home
            or file.path.rpartition("/")[2].lower() in asked
            or file.content_hash in near
            or (spoken and not aside)
        ):
            meant.append(file)
    return meant


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
