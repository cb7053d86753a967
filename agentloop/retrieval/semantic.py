"""Optional meaning beside words: a lane of embeddings, and a reranker that is a model. Both are off unless
the operator names a profile, and neither can fail a request: trouble is a warning, and the words decide.

On a CPU a vector costs 0.05 to 0.5 seconds, so only the best lexical candidates are embedded; vectors are
kept by the hash of their text and never leave this machine.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import mul
from typing import Protocol, TypeAlias

from agentloop.budget import Ledger
from agentloop.cache import Cache, NoCache, embedding_key, rerank_key, text_hash
from agentloop.config import Policy
from agentloop.errors import Stage, WarningCode
from agentloop.retrieval.fusion import fuse
from agentloop.retrieval.retriever import Retrieved
from agentloop.types import Chunk, Corpus, FileKind

LANE = "embeddings"
LISTED = 50
"""Places of the dense order that count as found by the lane."""
COVERING = 5
"""The best lexical chunks that are asked how much of the question they hold."""
FOREIGN = 0.5
"""Where the words find less of the question than this share, a small corpus is embedded whole:"""
SMALL = 3
"""one of at most so many times as many chunks as candidates (600 by default)."""
LEAST_LEXICAL = 0.1
"""The weight that the lexical order keeps where it holds no word of the question."""
RERANK_SHARE = 0.5
"""A reranker's score and the rules' score count the same."""

Vector: TypeAlias = "array[float]"


class SemanticError(Exception):
    """An endpoint gave no usable vectors or scores; the message holds no text of an input."""


class Embedder(Protocol):
    """Texts to vectors. Implementations may block: they are called off the event loop."""

    @property
    def name(self) -> str:
        """The model's name, as cache keys carry it."""
        ...

    @property
    def version(self) -> str:
        """What else shapes a vector: the model's version and what is put before a text."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    @property
    def batch(self) -> int:
        """Texts of one call."""
        ...

    @property
    def candidates(self) -> int:
        """Lexical candidates that are embedded; 0: every chunk of the corpus."""
        ...

    @property
    def seconds(self) -> float:
        """What the lane of one request may take."""
        ...

    def embed(self, texts: Sequence[str], *, query: bool, timeout: float) -> list[list[float]]:
        """One vector a text, of `dimensions` finite numbers, within `timeout` seconds.

        Raises:
            SemanticError: there are none.
        """
        ...


class TextReranker(Protocol):
    """A model that scores texts against a query. Implementations may block."""

    @property
    def name(self) -> str:
        """The model's name, as cache keys carry it."""
        ...

    @property
    def version(self) -> str:
        """What else shapes a score."""
        ...

    @property
    def candidates(self) -> int:
        """How many of the best candidates are scored."""
        ...

    @property
    def seconds(self) -> float:
        """What reranking may take."""
        ...

    def score(self, query: str, texts: Sequence[str], *, timeout: float) -> list[float]:
        """One finite score a text, on any scale, higher for better.

        Raises:
            SemanticError: there are none.
        """
        ...


@dataclass(frozen=True, slots=True)
class Semantics:
    """The models of one request, where their results are kept, and when (`clock.monotonic`) time is over."""

    embedder: Embedder | None = None
    reranker: TextReranker | None = None
    cache: Cache = field(default_factory=NoCache)
    policy: Policy = field(default_factory=Policy)
    deadline: float = math.inf

    def keeps(self, file_kind: FileKind) -> bool:
        """Whether what was computed of such a file may be cached: a person's records need a policy."""
        return file_kind is not FileKind.RECORDS or self.policy.cache_records


class Meaning:
    """The two models over the chunks of one request."""

    def __init__(
        self,
        semantics: Semantics,
        corpus: Corpus,
        chunks: Sequence[Chunk],
        text: Callable[[int], str],
        terms: Callable[[int], frozenset[str]],
        ledger: Ledger,
    ) -> None:
        self._with = semantics
        self._corpus = corpus
        self._chunks = chunks
        self._text = text
        self._terms = terms
        self._ledger = ledger

    @property
    def embeds(self) -> bool:
        """Whether there is a model for the lane."""
        return self._with.embedder is not None

    def widened(self, first: Retrieved, asked: str) -> Retrieved:
        """A first pass with the lane fused in; as it was, with a warning, where the endpoint fails.

        Args:
            asked: the question as it was put.
        """
        embedder = self._with.embedder
        if embedder is None:
            return first
        lexical = [n for n, _ in first.scored]
        share = first.query.share(frozenset().union(*map(self._terms, lexical[:COVERING])))
        most = embedder.candidates * (1 if share >= FOREIGN else SMALL)
        every = len(self._chunks) <= most or not most
        numbers = range(len(self._chunks)) if every else sorted(lexical[: embedder.candidates])
        try:
            dense = self._dense(embedder, numbers, asked) if numbers else []
        except SemanticError as error:
            self._ledger.warn(
                WarningCode.STRATEGY_UNAVAILABLE,
                f"The strategy {LANE} is not available here: {error}; the others were used.",
                Stage.RETRIEVAL,
            )
            return first
        if not dense:
            return first
        # where the words of the question are not found (another language), meaning decides
        fused = fuse({"lexical": (max(LEAST_LEXICAL, share), lexical), LANE: (1.0, dense)})
        order = sorted(fused, key=lambda n: (-fused[n], n))
        return replace(
            first,
            scored=tuple(_rescored(order, [score for _, score in first.scored], fused)),
            lists={**first.lists, LANE: dense[:LISTED]},
        )

    def _dense(self, embedder: Embedder, numbers: Sequence[int], asked: str) -> list[int]:
        """Chunks by the cosine to the question, best first, ties by chunk id."""
        ends = min(self._ledger.clock.monotonic() + embedder.seconds, self._with.deadline)
        [query] = self._call(embedder, [asked], ends, query=True)
        vectors = dict(self._vectors(embedder, numbers, ends))
        cosine = {n: round(sum(map(mul, query, vectors[n])), 6) for n in numbers}
        return sorted(numbers, key=lambda n: (-cosine[n], n))

    def _vectors(
        self, embedder: Embedder, numbers: Sequence[int], ends: float
    ) -> Iterator[tuple[int, Vector]]:
        """A unit vector a chunk: kept ones, then those of the endpoint, equal texts once."""
        missing: dict[str, list[int]] = {}
        kept = 0
        for number in numbers:
            data = self._with.cache.get(self._key(embedder, number)) if self._keeps(number) else None
            if data is not None and len(data) == embedder.dimensions * 4:
                kept += 1
                yield number, array("f", data)
            else:
                missing.setdefault(self._text(number), []).append(number)
        texts = list(missing)
        for start in range(0, len(texts), embedder.batch):
            batch = texts[start : start + embedder.batch]
            for text, vector in zip(batch, self._call(embedder, batch, ends, query=False), strict=True):
                for number in missing[text]:
                    if self._keeps(number):
                        self._with.cache.put(self._key(embedder, number), vector.tobytes())
                    yield number, vector
        self._ledger.add(Stage.RETRIEVAL, vectors_kept=kept, vectors_computed=len(texts))

    def _call(self, embedder: Embedder, texts: Sequence[str], ends: float, *, query: bool) -> list[Vector]:
        left = ends - self._ledger.clock.monotonic()
        if left <= 0:
            raise SemanticError("its time was over before every candidate had a vector")
        return [_unit(v) for v in embedder.embed(texts, query=query, timeout=left)]

    def _key(self, embedder: Embedder, number: int) -> str:
        model = f"{embedder.name}@{embedder.version}"
        digest = text_hash(self._text(number))
        return embedding_key(self._with.policy.namespace, digest, model, embedder.dimensions, "l2-f32")

    def _keeps(self, number: int) -> bool:
        return self._with.keeps(self._corpus.files[self._chunks[number].file].kind)

    def reranked(self, scored: Sequence[tuple[int, float]], asked: str) -> list[tuple[int, float]]:
        """The best candidates in the order of both scores; as they were, with a warning, on failure."""
        reranker = self._with.reranker
        if reranker is None or not scored:
            return list(scored)
        best = list(scored[: reranker.candidates])
        try:
            given = self._scores(reranker, [n for n, _ in best], asked)
        except SemanticError as error:
            self._ledger.warn(
                WarningCode.RERANK_FAILED,
                f"The reranker {reranker.name} was not used: {error}; the order is that of the rules.",
                Stage.RERANKING,
            )
            return list(scored)
        low, high = min(given), max(given)
        spread = (high - low) or 1.0
        blended = {
            n: (1 - RERANK_SHARE) * score + RERANK_SHARE * (value - low) / spread
            for (n, score), value in zip(best, given, strict=True)
        }
        order = sorted(blended, key=lambda n: (-round(blended[n], 6), n))
        return [*_rescored(order, [score for _, score in best], blended), *scored[len(best) :]]

    def _scores(self, reranker: TextReranker, numbers: Sequence[int], asked: str) -> list[float]:
        texts = [self._text(n) for n in numbers]
        retrieval = text_hash(asked, *texts)
        space, keeps = self._with.policy.namespace, all(self._keeps(n) for n in numbers)
        key = rerank_key(space, retrieval, reranker.name, reranker.version, reranker.candidates)
        data = self._with.cache.get(key) if keeps else None
        if data is not None and len(data) == 8 * len(numbers):
            return list(array("d", data))
        left = min(reranker.seconds, self._with.deadline - self._ledger.clock.monotonic())
        if left <= 0:
            raise SemanticError("the request's time was over")
        given = reranker.score(asked, texts, timeout=left)
        if keeps:
            self._with.cache.put(key, array("d", given).tobytes())
        return given


def _rescored(
    order: Sequence[int], scores: Sequence[float], fallback: Mapping[int, float]
) -> list[tuple[int, float]]:
    """A new order with the old scores by place, so that relevance and confidence keep their scale.

    Beyond the old scores the last one falls on with `fallback`, so that no chunk ties with one before it;
    without any old scores `fallback` alone gives them, its best as 1.
    """
    ordered = sorted(scores, reverse=True)
    last = ordered[-1] if ordered else 1.0
    beyond = order[len(ordered) :]
    top = fallback[order[max(0, len(ordered) - 1)]] if order else 1.0
    tail = [last * fallback[n] / (top or 1.0) for n in beyond]
    return list(zip(order, [*ordered, *tail], strict=True))


def _unit(vector: Sequence[float]) -> Vector:
    """A vector scaled to length one, in the 32 bits in which it is kept."""
    length = math.sqrt(sum(map(mul, vector, vector))) or 1.0
    return array("f", [value / length for value in vector])
