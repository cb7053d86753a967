"""One request's retrieval: the first pass, the loop's searches and reads, and the ranking of all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentloop import tokens
from agentloop.budget import Ledger
from agentloop.config import Caps
from agentloop.errors import Stage, WarningCode
from agentloop.index.lexical import FieldWeights, LexicalIndex, Term
from agentloop.index.symbols import SymbolParser
from agentloop.request import CompressRequest, Strategy
from agentloop.retrieval import exact, frames, question, snippet
from agentloop.retrieval.chunkmap import ChunkMap
from agentloop.retrieval.fusion import fuse, ranks
from agentloop.retrieval.question import Question
from agentloop.types import Candidate, Chunk, Corpus, Hit, Passage, Ranking, ReadResult, SearchResult

TOP = 8
POOL = 300
WEIGHTS = FieldWeights(body=1.0, name=0.5, path=0.5)


@dataclass(slots=True)
class _Memory:
    """What the request has found so far."""

    lists: dict[str, tuple[float, Sequence[int]]] = field(default_factory=dict)
    searches: int = 0


class RetrievalSession:
    """Implements `types.Searcher` over the chunks of one request."""

    def __init__(
        self,
        corpus: Corpus,
        chunks: Sequence[Chunk],
        request: CompressRequest,
        ledger: Ledger,
        caps: Caps,
        parser: SymbolParser,
    ) -> None:
        self._corpus = corpus
        self._chunks = chunks
        self._request = request
        self._ledger = ledger
        self._caps = caps
        self._parser = parser
        self._where = ChunkMap(chunks)
        self._paths = frames.PathIndex(corpus)
        self.index = LexicalIndex(corpus, chunks)
        self.question = question.read(request.question)
        self._memory = _Memory()
        ledger.add(Stage.INDEXING, chunks=len(chunks))

    def first_pass(self) -> None:
        """Run the request's strategies on its question."""
        wanted = self._request.strategies
        for strategy in (Strategy.GIT_DIFF_HISTORY, Strategy.EMBEDDINGS):
            if strategy in wanted:
                self._ledger.warn(
                    WarningCode.STRATEGY_UNAVAILABLE,
                    f"The strategy {strategy} is not available here; the others were used.",
                    Stage.RETRIEVAL,
                )
        found = self._find(self.question, wanted)
        self._memory.lists.update({name: (1.0, chunks) for name, chunks in found.items()})

    def search(self, query: str) -> SearchResult:
        """The top passages for a query; near hits, named as such, where nothing matches as asked."""
        asked = question.read(query)
        found = self._find(asked, (Strategy.BM25, Strategy.RIPGREP))
        scores = fuse({name: (1.0, chunks) for name, chunks in found.items()})
        order = sorted(scores, key=lambda n: (-scores[n], n))[:TOP]
        self._memory.searches += 1
        self._memory.lists[f"search {self._memory.searches}"] = (0.5, order)
        return SearchResult(tuple(self._passage(n, scores[n], asked) for n in order))

    def read(self, ref: str) -> ReadResult:
        """The text of a chunk with its neighbours' refs.

        Raises:
            KeyError: no chunk of this request has that ref.
        """
        number = int(ref[1:]) if ref[:1] == "c" and ref[1:].isdecimal() and ref[1:].isascii() else -1
        if not 0 <= number < len(self._chunks):
            raise KeyError(ref)
        chunk = self._chunks[number]
        text = self._corpus.text(chunk)
        before, after = self._where.beside(number, -1), self._where.beside(number, 1)
        return ReadResult(
            ref,
            self._scope(chunk),
            self._corpus.files[chunk.file].path,
            chunk.line_start,
            chunk.line_end,
            text[: snippet.READ_CHARS],
            len(text) > snippet.READ_CHARS,
            "" if before is None else f"c{before}",
            "" if after is None else f"c{after}",
        )

    def rank(self) -> Ranking:
        """All that was found, fused, best first, within `retrieved_chunk_budget`."""
        scores = fuse(self._memory.lists)
        by_list = ranks(self._memory.lists)
        order = sorted(scores, key=lambda n: (-scores[n], n))
        best = scores[order[0]] if order else 1.0
        spent, kept = 0, []
        sizes = tokens.count_all([self._corpus.text(self._chunks[n]) for n in order])
        for number, size in zip(order, sizes, strict=True):
            if spent + size > self._request.constraints.retrieved_chunk_budget:
                break
            spent += size
            kept.append(Candidate(number, scores[number] / best, by_list[number]))
        return Ranking(
            tuple(kept),
            len(self._chunks),
            len(order),
            len(order),
            spent,
            tuple(self._memory.lists),
            self.question.terms,
        )

    def _find(self, asked: Question, strategies: Sequence[Strategy]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        if Strategy.BM25 in strategies:
            found["bm25"] = [hit.chunk for hit in self._lexical(asked)]
        if Strategy.RIPGREP in strategies:
            literals = [*asked.identifiers, *asked.quoted]
            scores: dict[int, float] = {}
            for one in exact.scan(self._corpus, self._chunks, self._where, literals):
                for number, count in one.chunks.items():
                    weight = (1.0 + (number in one.whole)) / len(one.chunks)
                    scores[number] = scores.get(number, 0.0) + weight * min(count, 5)
            found["ripgrep"] = sorted(scores, key=lambda n: (-scores[n], n))[:POOL]
        if Strategy.STACK_TRACE_PATH in strategies:
            texts = [self._request.task_params.stack_trace or "", asked.text]
            placed = frames.located(texts, self._paths)
            at = [self._where.at_line(file.index, frame.line) for frame, file in placed]
            found["stack_trace_path"] = list(dict.fromkeys(n for n in at if n is not None))
        return {name: chunks for name, chunks in found.items() if chunks}

    def _lexical(self, asked: Question) -> list[Hit]:
        terms = []
        for word in asked.words:
            forms = [(word.text, 1.0)]
            forms += [(form, 0.8) for form, _ in self.index.variants(word.text, asked.language)]
            terms.append(Term(tuple(forms), word.weight))
        return self.index.search(terms, POOL, WEIGHTS)

    def _scope(self, chunk: Chunk) -> str:
        file = self._corpus.files[chunk.file]
        if file.derived is not None and chunk.first_item >= 0:
            return file.derived.items[chunk.first_item].scope
        return ""

    def _passage(self, number: int, score: float, asked: Question) -> Passage:
        chunk = self._chunks[number]
        text = self._corpus.text(chunk)
        start, end = snippet.centred(text, asked.terms)
        first = chunk.line_start
        last = chunk.line_end
        if self._corpus.files[chunk.file].derived is None:
            first = chunk.line_start + text.count("\n", 0, start)
            last = first + text.count("\n", start, max(start, end - 1))
        return Passage(
            f"c{number}",
            self._scope(chunk),
            self._corpus.files[chunk.file].path,
            first,
            last,
            score,
            text[start:end],
        )
