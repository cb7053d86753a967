"""One request's retrieval: the first pass, the loop's searches and reads, and the ranking of all of it."""

from __future__ import annotations

from collections.abc import Sequence

from agentloop import tokens
from agentloop.budget import Ledger
from agentloop.chunks import Chunks
from agentloop.config import Caps
from agentloop.errors import Stage, WarningCode
from agentloop.index import words
from agentloop.index.lexical import LexicalIndex
from agentloop.index.symbols import SymbolParser
from agentloop.request import CompressRequest, Strategy
from agentloop.retrieval import question, snippet
from agentloop.retrieval.conversation import Conversation
from agentloop.retrieval.dedup import collapse
from agentloop.retrieval.focus import span_of, symbol_for
from agentloop.retrieval.merge import CODE_WEIGHT, LEADING, SEARCH_WEIGHT, Searched, add, merge, trusts
from agentloop.retrieval.near import near_hits
from agentloop.retrieval.retriever import Retrieved, Retriever
from agentloop.retrieval.semantic import Meaning, Semantics
from agentloop.retrieval.tables import Tables
from agentloop.searcher import Passage, ReadResult, SearchResult
from agentloop.types import Candidate, Chunk, Corpus, FileKind, Ranking

TOP = 8
"""Passages of one search."""
MAX_CANDIDATES = 200
FOCUSED = 16
"""Candidates whose files are parsed to find the definition that they are about."""
EXPECTED = 44
"""The first candidates: claims are made of about so many (`compress.claims`)."""
_LOOP = (Strategy.BM25, Strategy.RIPGREP)


class RetrievalSession:
    """Implements `searcher.Searcher` over the chunks of one request."""

    def __init__(
        self,
        corpus: Corpus,
        chunks: Chunks,
        request: CompressRequest,
        ledger: Ledger,
        caps: Caps,
        parser: SymbolParser,
        index: LexicalIndex | None = None,
        semantics: Semantics | None = None,
        tables: Tables | None = None,
    ) -> None:
        """Build the index, unless one over these very chunks is given.

        Args:
            semantics: the operator's models for the lane `embeddings` and for reranking.
            tables: over this corpus and index, if some are kept.

        Raises:
            AgentloopError: INDEX_BUILD_FAILED.
        """
        self._corpus = corpus
        self._chunks = chunks
        self._request = request
        self._ledger = ledger
        self._parser = parser
        self.retriever = Retriever(corpus, chunks, parser, ledger, index, tables)
        self._meaning = Meaning(
            semantics or Semantics(), corpus, chunks, self.retriever.text, self.retriever.terms, ledger
        )
        self._conversation = Conversation(corpus, chunks)
        self._first: Retrieved | None = None
        self._searches: list[Retrieved] = []
        ledger.add(Stage.INDEXING, chunks=len(chunks))

    def first_pass(self) -> None:
        """Run the request's strategies on its question."""
        request, params = self._request, self._request.task_params
        missing = [] if self._meaning.embeds else [Strategy.EMBEDDINGS]
        if not any(info.commit for info in self._corpus.inputs):  # what it finds, tasks add as evidence
            missing.append(Strategy.GIT_DIFF_HISTORY)
        for strategy in missing:
            if strategy in (params.retrieval_strategies or ()):
                self._ledger.warn(
                    WarningCode.STRATEGY_UNAVAILABLE,
                    f"The strategy {strategy} is not available here; the others were used.",
                    Stage.RETRIEVAL,
                )
        if len(request.question) > question.MAX_CHARS:
            self._ledger.warn(
                WarningCode.QUESTION_TRUNCATED,
                f"Of the question's {len(request.question)} characters the first and the last "
                f"{question.MAX_CHARS // 2} were used to search.",
                Stage.RETRIEVAL,
            )
        asked = question.read(request.question)
        self._first = self.retriever.retrieve(
            asked, request.strategies, params.stack_trace or "", params.failing_tests
        )
        self._first = self.retriever.with_documentation(self._first)
        if Strategy.EMBEDDINGS in request.strategies:
            self._first = self._meaning.widened(self._first, request.question)
        self._expect([number for number, _ in self._first.scored[:EXPECTED]])

    def _expect(self, numbers: Sequence[int]) -> None:
        """Have the files of these chunks parsed, for their definitions will be asked for."""
        of = self._chunks.files
        files = dict.fromkeys(of[number] for number in numbers)
        self._parser.ahead(self._corpus.files[file] for file in files)

    def search(self, query: str) -> SearchResult:
        """The top passages for a query; near hits, named as such, where nothing matches as asked."""
        language = self._first.question.language if self._first is not None else "english"
        found = self.retriever.retrieve(question.read(query, language), _LOOP)
        near = ""
        if not found.scored:
            near, found = near_hits(self.retriever, found)
        elif "bm25" not in found.lists and not found.question.regex:
            near = "fragment"  # the exact string stands only inside longer words
        self._searches.append(found)
        return SearchResult(tuple(self._passage(n, score, found) for n, score in found.scored[:TOP]), near)

    def read(self, ref: str) -> ReadResult:
        """The text of a chunk with its neighbours' refs.

        Raises:
            KeyError: no chunk of this request has that ref.
        """
        number = int(ref[1:]) if ref[:1] == "c" and ref[1:].isdecimal() and ref[1:].isascii() else -1
        if not 0 <= number < len(self._chunks):
            raise KeyError(ref)
        chunk = self._chunks[number]
        text = self.retriever.text(number)
        before, after = self.retriever.where.beside(number, -1), self.retriever.where.beside(number, 1)
        return ReadResult(
            ref=ref,
            scope=self._scope(chunk),
            path=self.path_of(number),
            line_start=chunk.line_start,
            line_end=chunk.line_end,
            text=text[: snippet.READ_CHARS],
            truncated=len(text) > snippet.READ_CHARS,
            before="" if before is None else f"c{before}",
            after="" if after is None else f"c{after}",
        )

    def rank(self) -> Ranking:
        """All that was found, fused, reranked, duplicates collapsed, within `retrieved_chunk_budget`."""
        if self._first is None:
            self.first_pass()
        first = self._first
        assert first is not None  # noqa: S101 - first_pass has set it
        scored = self._meaning.reranked(self._fused(first), self._request.question)
        kept, spent = self._within_budget([n for n, _ in scored[:MAX_CANDIDATES]])
        self._expect(kept[:EXPECTED])
        by_rank = first.ranks
        scores = dict(scored)
        candidates = [self._candidate(n, scores[n], by_rank.get(n, {}), first) for n in kept]
        candidates = [
            self._focused(candidate, first) if place < FOCUSED else candidate
            for place, candidate in enumerate(candidates)
        ]
        collapsed = tuple(collapse(candidates, self._corpus, self._chunks))
        collapsed = tuple(self._conversation.runs(collapsed))
        return self._ranking(collapsed, first, len(scored), len(kept), spent)

    def _fused(self, first: Retrieved) -> list[tuple[int, float]]:
        """The first pass and the loop's searches in one order; turns with their neighbours."""
        asked = frozenset(term for word in words.words(first.question.text) for term in words.terms(word))
        scores = self._merged(first, asked) if self._searches else dict(first.scored)
        scores = self._conversation.smoothed(scores, asked)
        top = max(scores.values(), default=1.0) or 1.0
        return sorted(((n, score / top) for n, score in scores.items()), key=lambda pair: (-pair[1], pair[0]))

    def _merged(self, first: Retrieved, asked: frozenset[str]) -> dict[int, float]:
        index = self.retriever.index
        first_chunks = [n for n, _ in first.scored]
        searches = [
            Searched(frozenset(f.question.terms), [n for n, _ in f.scored[:TOP]]) for f in self._searches
        ]
        trust = trusts(
            first_chunks,
            searches,
            asked,
            self.retriever.terms,
            lambda word: index.idf(index.df(word)) if index.df(word) else 0.0,
        )
        head = first_chunks[:LEADING]
        code = sum(self._corpus.files[self._chunks.files[n]].kind is FileKind.CODE for n in head)
        scores = merge(first_chunks, searches, trust, CODE_WEIGHT if 2 * code > len(head) else SEARCH_WEIGHT)
        added = add(dict(first.scored), [dict(f.scored) for f in self._searches], trust)
        scores.update({n: score for n, score in added.items() if self._conversation.turn(n) is not None})
        return scores

    def _within_budget(self, order: Sequence[int]) -> tuple[list[int], int]:
        budget = self._request.constraints.retrieved_chunk_budget
        spent = 0
        kept: list[int] = []
        for number, size in zip(
            order, tokens.count_all([self.retriever.text(n) for n in order]), strict=True
        ):
            if spent + size > budget and kept:
                self._ledger.warn(
                    WarningCode.RETRIEVAL_BUDGET_REACHED,
                    f"Retrieval kept {len(kept)} of {len(order)} chunks: retrieved_chunk_budget={budget}.",
                    Stage.RETRIEVAL,
                )
                break
            spent += size
            kept.append(number)
        if spent > budget:
            self._ledger.warn(
                WarningCode.RETRIEVAL_BUDGET_REACHED,
                f"The best chunk alone has {spent} tokens, over retrieved_chunk_budget={budget}; it is kept.",
                Stage.RETRIEVAL,
            )
        self._ledger.add(Stage.RETRIEVAL, chunks=len(kept), tokens=spent)
        return kept, spent

    def _candidate(self, number: int, score: float, by_list: dict[str, int], first: Retrieved) -> Candidate:
        held = self.retriever.terms(number)
        terms = tuple(a.word for a in first.query.asked if not a.forms.isdisjoint(held))
        by_list = dict(by_list)
        for found in self._searches:
            for rank, (other, _) in enumerate(found.scored[:TOP], 1):
                if other == number:
                    by_list["loop"] = min(rank, by_list.get("loop", rank))
        return Candidate(number, round(score, 6), by_list, terms=terms)

    def _focused(self, candidate: Candidate, first: Retrieved) -> Candidate:
        """A candidate with the definition that it is about."""
        chunk = self._chunks[candidate.chunk]
        file = self._corpus.files[chunk.file]
        if file.kind is not FileKind.CODE:
            return candidate
        symbols = self._parser.symbols(file)
        symbol = symbol_for(chunk, symbols, self._corpus, first.query, first.question.names)
        if symbol is None:
            return candidate
        return Candidate(
            candidate.chunk, candidate.score, candidate.ranks, (span_of(symbol),), symbol, candidate.terms
        )

    def _ranking(
        self, candidates: tuple[Candidate, ...], first: Retrieved, found: int, reranked: int, spent: int
    ) -> Ranking:
        held = {term for candidate in candidates for term in candidate.terms}
        total = first.query.total
        covered = sum(a.weight for a in first.query.asked if a.word in held)
        used = tuple(first.lists)
        top = [len([s for s in c.ranks if s in used]) / len(used) for c in candidates[:10]] if used else []
        return Ranking(
            candidates=candidates,
            considered=len(self._chunks),
            retrieved=found,
            reranked=reranked,
            retrieved_tokens=spent,
            strategies=tuple(s for s in self._request.strategies if s in used) or used,
            terms=first.question.terms,
            foreign=first.query.foreign,
            term_coverage=covered / total if total else 0.0,
            strategy_agreement=sum(top) / len(top) if top else 0.0,
        )

    def path_of(self, number: int) -> str:
        """The path of a chunk's file."""
        return self._corpus.files[self._chunks.files[number]].path

    def _scope(self, chunk: Chunk) -> str:
        """The input, and for records their thread or container: `in1`, `in1: ops`."""
        file = self._corpus.files[chunk.file]
        thread = ""
        if file.derived is not None and chunk.first_item >= 0:
            thread = file.derived.items[chunk.first_item].scope
        return f"{file.input_id}: {thread}" if thread else file.input_id

    def _passage(self, number: int, score: float, found: Retrieved) -> Passage:
        chunk = self._chunks[number]
        text = self.retriever.text(number)
        start, end = snippet.centred(text, found.question.terms)
        first, last = chunk.line_start, chunk.line_end
        if self._corpus.files[chunk.file].derived is None:
            first = chunk.line_start + text.count("\n", 0, start)
            last = first + text.count("\n", start, max(start, end - 1))
        return Passage(
            f"c{number}", self._scope(chunk), self.path_of(number), first, last, score, text[start:end]
        )
