"""The drafts of a request's evidence, best first: what every task does, then what its own task adds."""

from __future__ import annotations

from agentloop.budget import Ledger
from agentloop.compress import draft_claims
from agentloop.index.symbols import SymbolParser
from agentloop.request import CompressRequest
from agentloop.tasks.logs import with_log_failures
from agentloop.types import Chunk, Corpus, Draft, Ranking


def task_evidence(
    ranking: Ranking,
    corpus: Corpus,
    chunks: list[Chunk],
    request: CompressRequest,
    parser: SymbolParser,
    ledger: Ledger,
) -> list[Draft]:
    """The evidence of a request before packing, best first."""
    found = draft_claims(ranking, corpus, chunks, request, parser, ledger)
    return with_log_failures(found, corpus, request, ledger)
