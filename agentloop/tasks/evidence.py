"""The evidence of a request, best first: what its question found, joined by what its task adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentloop.budget import Ledger
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
from agentloop.tasks.model import TaskEvidence
from agentloop.tasks.recent import recent_drafts
from agentloop.types import Chunk, Corpus, Draft, Ranking

if TYPE_CHECKING:
    from agentloop.loop import LoopResult
    from agentloop.tasks.model_claims import AnswerDrafts

BEFORE_CHANGES = 6  # drafts: in debug the first causes and the failures themselves


def task_evidence(
    ranking: Ranking,
    corpus: Corpus,
    chunks: list[Chunk],
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
    found = draft_claims(ranking, corpus, chunks, request, parser, ledger)
    summaries = LogSummaries()
    failures = failure_drafts(corpus, request, ledger, lambda log: summaries.add(log, log.reading.file.path))
    if request.task_type in (TaskType.DEBUG, TaskType.PROPOSE_PATCH):
        from agentloop.tasks.debug.evidence import debug_evidence

        evidence = debug_evidence(found, failures, corpus, chunks, request, parser)
        evidence = replace(evidence, drafts=_with_changes(evidence.drafts, corpus, request))
        return replace(evidence, drafts=led_by(claimed, evidence.drafts, corpus), answer=answer)
    if request.task_type is TaskType.INSPECT_REPO:
        from agentloop.tasks.inspect.evidence import inspect_evidence

        evidence = inspect_evidence(found, corpus, chunks, request, parser)
        evidence = replace(evidence, drafts=_with_changes(evidence.drafts, corpus, request))
        return replace(evidence, drafts=led_by(claimed, evidence.drafts, corpus), answer=answer)
    if request.task_type is TaskType.SUMMARIZE_LOGS and failures and asks_for_failure(request.question):
        found = beside_failures(found, request.question)
    details: Details | None = None
    if request.task_type is TaskType.SUMMARIZE_LOGS:
        logs = summaries.details(request)
        details = (lambda _: logs) if logs else None
    lead = len(failures) if request.task_type is TaskType.SUMMARIZE_LOGS else LEADING
    drafts = distinct([*failures[:lead], *found, *failures[lead:]], corpus)
    drafts = _with_changes(drafts, corpus, request)
    return TaskEvidence(led_by(claimed, drafts, corpus), details, answer=answer)


def _with_changes(drafts: Sequence[Draft], corpus: Corpus, request: CompressRequest) -> list[Draft]:
    """`drafts`, with recent changes to what the best of them show right after those."""
    changes = recent_drafts(drafts, corpus, request)
    return [*drafts[:BEFORE_CHANGES], *changes, *drafts[BEFORE_CHANGES:]]
