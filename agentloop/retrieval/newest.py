"""The older `completion` mode: the newest items within the budget, no index and no question."""

from __future__ import annotations

from collections.abc import Sequence

from agentloop import tokens
from agentloop.budget import Ledger
from agentloop.errors import Stage
from agentloop.request import CompressRequest
from agentloop.types import Candidate, Chunk, Corpus, Ranking

MAX_CHUNKS = 2_000


def newest(corpus: Corpus, chunks: Sequence[Chunk], request: CompressRequest, ledger: Ledger) -> Ranking:
    """The newest chunks first: by record time, then by file time, then the later in a file first."""
    order = sorted(range(len(chunks)), key=lambda n: _age(corpus, chunks[n], n), reverse=True)[:MAX_CHUNKS]
    spent, kept = 0, []
    for number, size in zip(order, tokens.count_all([corpus.text(chunks[n]) for n in order]), strict=True):
        if spent + size > request.constraints.retrieved_chunk_budget:
            break
        spent += size
        kept.append(number)
    ledger.add(Stage.RETRIEVAL, chunks=len(kept), tokens=spent)
    candidates = tuple(Candidate(number, 1.0 / rank, {"newest": rank}) for rank, number in enumerate(kept, 1))
    return Ranking(candidates, len(chunks), len(kept), 0, spent, ("newest",))


def _age(corpus: Corpus, chunk: Chunk, number: int) -> tuple[str, int, int]:
    file = corpus.files[chunk.file]
    stamp = ""
    if file.derived is not None and chunk.last_item >= 0:
        stamp = file.derived.items[chunk.last_item].timestamp
    return stamp, file.modified_ns, number
