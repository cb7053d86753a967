"""What each task makes of a ranking: the drafts of its evidence, best first."""

from __future__ import annotations

from agentloop.budget import Ledger
from agentloop.compress import draft_claims
from agentloop.index.symbols import SymbolParser
from agentloop.loop import LoopResult
from agentloop.request import CompressRequest, TaskType
from agentloop.tasks.logs import log_evidence
from agentloop.types import Chunk, Corpus, Draft, Ranking


def drafts_for(
    ranking: Ranking,
    corpus: Corpus,
    chunks: list[Chunk],
    request: CompressRequest,
    parser: SymbolParser,
    ledger: Ledger,
    looped: LoopResult | None,
) -> list[Draft]:
    """The evidence of a request before packing, best first."""
    found = draft_claims(ranking, corpus, chunks, request, parser, ledger)
    if request.task_type is TaskType.SUMMARIZE_LOGS:
        return log_evidence(found, corpus, request, ledger)
    return found
