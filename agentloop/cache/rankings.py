"""The retrieval and rerank layers of the cache: what a question found, for the same question asked otherwise.

A request that differs only in what becomes of the evidence (another pack budget, another confidentiality)
starts at compression. Kept under the specification's rerank key, which holds its retrieval key; the
value is the deduplicated ranking with what the tool loop did. Only the built-in planner's, which is
deterministic, and never of conversations unless policy allows it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from agentloop.cache import Cache, NoCache, dedup_key, rerank_key, retrieval_key, text_hash, value_hash
from agentloop.cache.packs import HASTY_STOPS, NOT_KEPT, code_version, corpus_id, lasting
from agentloop.environment import Environment
from agentloop.errors import Stage, WarningCode
from agentloop.request import CompressRequest
from agentloop.types import Chunk, Corpus, FileKind, Memory, Ranking

if TYPE_CHECKING:
    from agentloop.budget import Ledger
    from agentloop.loop import LoopResult

STAGES = (Stage.INDEXING, Stage.RETRIEVAL, Stage.LOOP, Stage.RERANKING)
LEAST_CHUNKS = 2000
"""Below, retrieval takes less time than a look into the cache is worth."""


class RankCache:
    """The kept ranking of one request over one corpus, if there may be one."""

    def __init__(
        self, request: CompressRequest, env: Environment, corpus: Corpus, chunks: Sequence[Chunk]
    ) -> None:
        self._cache: Cache = env.cache
        self._corpus = corpus
        self._records = env.policy.cache_records
        self._chunks = len(chunks)
        self._warned = 0
        self._key = _key(request, env, corpus, chunks) if _may_keep(request, env, corpus, chunks) else ""

    def find(self, ledger: Ledger) -> tuple[Ranking, LoopResult | None] | None:
        """The ranking and the loop behind it; the warnings and counters of both are told again."""
        self._warned = len(ledger.warnings)
        data = self._cache.get(self._key) if self._key else None
        if data is None:
            return None
        ranking, looped, warnings, counters = adapter().validate_json(data)
        for warning in warnings:
            ledger.warn(*warning)
        for stage, counted in counters.items():
            ledger.add(Stage(stage), **counted)
        ledger.add(Stage.RERANKING, reused=1)
        return ranking, looped

    def keep(
        self, ranking: Ranking, looped: LoopResult | None, ledger: Ledger, chunks: Sequence[Chunk]
    ) -> None:
        """Keep a ranking, unless a limit of time shaped it, or windows of a huge log were made for it."""
        warnings = tuple(ledger.warnings[self._warned :])
        hasty = looped is not None and (looped.failure or looped.stop_reason in HASTY_STOPS)
        if not self._key or hasty or len(chunks) != self._chunks or any(w[0] in NOT_KEPT for w in warnings):
            return
        if not self._records and self._shows_records(ranking, looped, chunks):
            return
        counters = {str(s): dict(ledger.counters[s]) for s in STAGES if s in ledger.counters}
        self._cache.put(self._key, adapter().dump_json((ranking, looped, warnings, counters)))

    def _shows_records(self, ranking: Ranking, looped: LoopResult | None, chunks: Sequence[Chunk]) -> bool:
        """Whether text of conversations is in what would be kept: candidates, or what the loop was shown."""
        shown = {n for c in ranking.candidates for n in (c.chunk, *c.duplicates, *c.joined)}
        shown |= {int(ref[1:]) for ref in (looped.seen if looped is not None else ())}
        return any(self._corpus.files[chunks[n].file].kind is FileKind.RECORDS for n in shown)


def _may_keep(request: CompressRequest, env: Environment, corpus: Corpus, chunks: Sequence[Chunk]) -> bool:
    plain = env.model is None and env.embedder is None and env.reranker is None
    return (
        plain
        and lasting(request)
        and not isinstance(env.cache, NoCache)
        and len(chunks) >= LEAST_CHUNKS
        and all(isinstance(file.content, Memory) for file in corpus.files)
    )


def _key(request: CompressRequest, env: Environment, corpus: Corpus, chunks: Sequence[Chunk]) -> str:
    """`dedup:v1:…` over `rerank:v1:…` over `retrieval:v1:…`: all that shapes a ranking."""
    space, version = env.policy.namespace, code_version()
    asked = request.model_dump(
        mode="json", exclude={"idempotency_key", "execution_profile", "input_refs", "constraints"}
    )
    retrieval = retrieval_key(
        space,
        corpus_hash=corpus_id(corpus),
        query_hash=value_hash(asked),
        strategy_set_hash=value_hash([str(s) for s in request.strategies]),
        retrieval_budget=request.constraints.retrieved_chunk_budget,
        index_versions_hash=value_hash([version, asdict(env.caps), len(chunks)]),
    )
    rerank = rerank_key(space, text_hash(retrieval), "rules", version, 0)
    return dedup_key(space, text_hash(rerank), version)


@functools.cache
def adapter() -> Any:
    """Reads and writes what is kept; made once a process, which takes 10 ms."""
    from pydantic import TypeAdapter

    from agentloop.loop import LoopResult

    warnings = tuple[tuple[WarningCode, str, Stage], ...]
    return TypeAdapter(tuple[Ranking, LoopResult | None, warnings, dict[str, dict[str, int]]])
