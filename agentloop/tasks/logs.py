"""Logs in a request: the failure that they report, beside what the question itself found."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentloop.budget import Ledger
from agentloop.logs import log_drafts
from agentloop.request import CompressRequest, InputRole, TaskType
from agentloop.types import Corpus, Draft, FileKind, SourceFile

LEADING = 3  # drafts of the failure itself that come before what the question found
_FAILURE = re.compile(
    r"\b(?:fail\w*|error\w*|crash\w*|broken?|break\w*|abort\w*|panic\w*|exception\w*|traceback|red|wrong"
    r"|die[sd]?|dying|root cause|cause[sd]?|stopp?ed|killed|timed? ?out"
    r"|błąd\w*|błęd\w*|awari\w*|nie działa)\b",
    re.IGNORECASE,
)


def log_files(corpus: Corpus, role: InputRole) -> list[SourceFile]:
    """The logs among inputs of a role."""
    inputs = {i.input_id for i in corpus.inputs if i.role is role}
    return [f for f in corpus.files if f.kind is FileKind.LOG and f.input_id in inputs]


def asks_for_failure(question: str) -> bool:
    """Whether a question is about something that went wrong."""
    return _FAILURE.search(question) is not None


def with_log_failures(
    found: Sequence[Draft], corpus: Corpus, request: CompressRequest, ledger: Ledger
) -> list[Draft]:
    """The drafts of the question, joined by those of the logs' own failures where the request wants them.

    `summarize_logs` is led by the failures; another task by its first few, if the question asks what
    failed, and then by what the question found.
    """
    summarise = request.task_type is TaskType.SUMMARIZE_LOGS
    logs = log_files(corpus, InputRole.PRIMARY)
    if not logs or not (summarise or asks_for_failure(request.question)):
        return list(found)
    baselines = log_files(corpus, InputRole.BASELINE)
    failures = log_drafts(corpus, logs, request, ledger, baseline_files=baselines)
    lead = len(failures) if summarise else LEADING
    return distinct([*failures[:lead], *found, *failures[lead:]])


def distinct(drafts: Sequence[Draft]) -> list[Draft]:
    """`drafts` without those whose first place lies inside the first place of an earlier one."""
    kept: list[Draft] = []
    taken: dict[int, list[tuple[int, int]]] = {}
    for draft in drafts:
        place = draft.places[0]
        spans = taken.setdefault(place.file, [])
        if any(start <= place.byte_start and place.byte_end <= end for start, end in spans):
            continue
        spans.append((place.byte_start, place.byte_end))
        kept.append(draft)
    return kept
