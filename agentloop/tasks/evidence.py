"""The evidence of a request, best first: what its question found, joined by what its task adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentloop.budget import Ledger
from agentloop.chunks import Chunks
from agentloop.compress import Details, draft_claims
from agentloop.index.symbols import SymbolParser
from agentloop.request import CompressRequest, TaskType
from agentloop.tasks.log_details import LogSummaries
from agentloop.tasks.logs import (
    LEADING,
    asks_for_failure,
    beside_failures,
    distinct,
    failure_drafts,
    led_by,
)
from agentloop.tasks.model import TaskEvidence, with_history
from agentloop.tasks.recent import Recent
from agentloop.types import Corpus, Draft, FileKind, Ranking

if TYPE_CHECKING:
    from agentloop.loop import LoopResult
    from agentloop.tasks.model_claims import AnswerDrafts

BEFORE_CHANGES = 6  # drafts: in debug the first causes and the failures themselves


def task_evidence(
    ranking: Ranking,
    corpus: Corpus,
    chunks: Chunks,
    request: CompressRequest,
    parser: SymbolParser,
    ledger: Ledger,
    looped: LoopResult | None,
) -> TaskEvidence:
    """The drafts of a request before packing, and the fields of its task.

    `summarize_logs` is led by the failures of the logs; `rag_compress` by their first few, if the question
    asks what failed; `debug_with_local_context` by the likely causes.
    """
    claimed: list[Draft] = []
    answer: AnswerDrafts = []
    if looped is not None:
        from agentloop.tasks.model_claims import model_drafts

        claimed, answer = model_drafts(looped, corpus, chunks, ledger)
    found = _found(ranking, corpus, chunks, request, parser, ledger)
    summaries = LogSummaries()
    failures = failure_drafts(
        corpus, request, ledger, lambda log: summaries.add(log, log.reading.file.path), found
    )
    if request.task_type in (TaskType.DEBUG, TaskType.PROPOSE_PATCH):
        from agentloop.tasks.debug.evidence import debug_evidence

        evidence = debug_evidence(found, failures, corpus, chunks, request, parser)
        evidence = _with_changes(evidence, corpus, request)
        return replace(evidence, drafts=_led(claimed, evidence, corpus), answer=answer)
    if request.task_type is TaskType.INSPECT_REPO:
        from agentloop.tasks.inspect.evidence import inspect_evidence

        evidence = inspect_evidence(found, corpus, chunks, request, parser)
        evidence = _with_changes(evidence, corpus, request)
        return replace(evidence, drafts=_led(claimed, evidence, corpus), answer=answer)
    if request.task_type is TaskType.SUMMARIZE_LOGS and failures and asks_for_failure(request.question):
        found = beside_failures(found, request.question)
    details: Details | None = None
    if request.task_type is TaskType.SUMMARIZE_LOGS:
        logs = summaries.details(request)
        details = (lambda _: logs) if logs else None
    lead = len(failures) if request.task_type is TaskType.SUMMARIZE_LOGS else LEADING
    drafts = distinct([*failures[:lead], *found, *failures[lead:]], corpus)
    evidence = _with_changes(TaskEvidence(drafts, details), corpus, request)
    return replace(evidence, drafts=_led(claimed, evidence, corpus), answer=answer)


def _found(
    ranking: Ranking,
    corpus: Corpus,
    chunks: Chunks,
    request: CompressRequest,
    parser: SymbolParser,
    ledger: Ledger,
) -> list[Draft]:
    """What the question found, within its `time_window`, and in the order of time where it asks for that."""
    if not any(file.kind in (FileKind.RECORDS, FileKind.LOG) for file in corpus.files):
        return draft_claims(ranking, corpus, chunks, request, parser, ledger)
    from agentloop.tasks.when import candidates_within, in_order_of_time, only_within

    window = request.task_params.time_window
    ranking = candidates_within(ranking, corpus, chunks, window)
    found = draft_claims(ranking, corpus, chunks, request, parser, ledger)
    return in_order_of_time(only_within(found, corpus, window), corpus, request.question)


def _led(claimed: Sequence[Draft], evidence: TaskEvidence, corpus: Corpus) -> list[Draft]:
    return led_by(claimed, evidence.drafts, with_history(corpus, evidence.history))


def _with_changes(evidence: TaskEvidence, corpus: Corpus, request: CompressRequest) -> TaskEvidence:
    """The evidence, with recent changes to what the best of it shows right after that."""
    recent = Recent(corpus, request)
    drafts = recent.reranked(evidence.drafts)
    changes, history = recent.drafts(drafts)
    return replace(
        evidence, drafts=[*drafts[:BEFORE_CHANGES], *changes, *drafts[BEFORE_CHANGES:]], history=history
    )
