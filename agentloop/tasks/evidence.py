"""The evidence of a request, best first: what its question found, joined by what its task adds."""

from __future__ import annotations

from agentloop.budget import Ledger
from agentloop.compress import draft_claims
from agentloop.index.symbols import SymbolParser
from agentloop.request import CompressRequest, TaskType
from agentloop.tasks.debug.evidence import debug_evidence
from agentloop.tasks.logs import LEADING, distinct, failure_drafts
from agentloop.tasks.model import TaskEvidence
from agentloop.types import Chunk, Corpus, Ranking


def task_evidence(
    ranking: Ranking,
    corpus: Corpus,
    chunks: list[Chunk],
    request: CompressRequest,
    parser: SymbolParser,
    ledger: Ledger,
) -> TaskEvidence:
    """The drafts of a request before packing, and the fields of its task.

    `summarize_logs` is led by the failures of the logs; `rag_compress` by their first few, if the question
    asks what failed; `debug_with_local_context` by the likely causes.
    """
    found = draft_claims(ranking, corpus, chunks, request, parser, ledger)
    failures = failure_drafts(corpus, request, ledger)
    if request.task_type is TaskType.DEBUG:
        return debug_evidence(found, failures, corpus, chunks, request, parser)
    lead = len(failures) if request.task_type is TaskType.SUMMARIZE_LOGS else LEADING
    return TaskEvidence(distinct([*failures[:lead], *found, *failures[lead:]], corpus))
