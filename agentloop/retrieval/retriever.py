"""One question through the strategies, fusion and reranking. Stateless between questions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from agentloop.budget import Ledger
from agentloop.chunks import Chunks
from agentloop.errors import Stage, WarningCode
from agentloop.index.lexical import FieldWeights, LexicalIndex
from agentloop.index.symbols import SymbolParser
from agentloop.request import Strategy
from agentloop.retrieval import exact, frames, regex
from agentloop.retrieval.chunkmap import ChunkMap
from agentloop.retrieval.definitions import DefinitionFinder, Linked
from agentloop.retrieval.fusion import fuse, ranks
from agentloop.retrieval.merge import LEADING
from agentloop.retrieval.question import Question
from agentloop.retrieval.rerank import Found, Reranker, term_set
from agentloop.retrieval.tables import Tables
from agentloop.retrieval.terms import Query, build
from agentloop.retrieval.view import in_view
from agentloop.types import Corpus, FileKind, Memory

POOL = 400
"""Chunks that BM25 gives to the reranker."""
RERANKED = 600
"""Chunks that are reranked: the best of all strategies by reciprocal rank."""
WEIGHTS = FieldWeights(body=1.0, name=1.0, path=2.0)
MAX_LITERALS = 12
GROWN = 0.5
"""A window found in a gap of a huge log counts for this, plus its literals' share, of the best BM25."""
_NUMBERED = re.compile(r"(?<![\w.])(?=\w*\d)\w[\w.:-]{2,60}\w")


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What one question found: chunks with scores best first, ranks by strategy, and how it was asked."""

    question: Question
    query: Query
    scored: tuple[tuple[int, float], ...]
    lists: dict[str, list[int]]
    linked: Linked

    @property
    def ranks(self) -> dict[int, dict[str, int]]:
        """Each chunk's rank by strategy."""
        return ranks({name: (1.0, chunks) for name, chunks in self.lists.items()})


class Retriever:
    """The strategies over one corpus. Safe to call again and again; nothing is remembered but caches."""

    def __init__(
        self,
        corpus: Corpus,
        chunks: Chunks,
        parser: SymbolParser,
        ledger: Ledger,
        index: LexicalIndex | None = None,
        tables: Tables | None = None,
    ) -> None:
        """Build the index, unless one over these very chunks is given; so for the tables."""
        self._ledger = ledger
        self._corpus = corpus
        self._chunks = chunks
        self.index = index or LexicalIndex(corpus, chunks)
        self._tables = tables = tables or Tables(corpus, chunks, self.index)
        self.where = ChunkMap(chunks, tables.rows)
        self._scanned: dict[str, exact.Found] = {}
        self.text = lru_cache(maxsize=4096)(self._text)
        self._definitions = DefinitionFinder(corpus, chunks, self.where, parser, tables)
        self.terms = lru_cache(maxsize=8192)(lambda number: term_set(self.text(number)))
        self._reranker = Reranker(corpus, chunks, self.terms, tables)
        self._gaps = any(not isinstance(file.content, Memory) for file in corpus.files)

    def _text(self, number: int) -> str:
        """The text of a chunk, as `Corpus.text` has it, without a chunk made for it."""
        file = self._corpus.files[self._chunks.files[number]]
        if file.derived is not None:
            return self._corpus.text(self._chunks[number])
        return file.content.read(*self.where.span(number)).decode("utf-8", "replace")

    def retrieve(
        self, question: Question, strategies: Sequence[Strategy], trace: str = "", failing: Sequence[str] = ()
    ) -> Retrieved:
        """Run the strategies on a question.

        Args:
            trace: a stack trace given beside the question.
            failing: names of failing tests; each also names what it tests.
        """
        spoken = self._tables.languages
        languages = tuple(dict.fromkeys([question.language, *spoken, "english"]))
        # code speaks English, whatever the prose beside it does
        foreign = [tongue for tongue in spoken or ("english",) if tongue != question.language]
        query = build(question, self.index, languages, foreign)
        names = tuple(dict.fromkeys([*question.names, *failing]))
        if Strategy.TREE_SITTER in strategies:
            self._definitions.expect(names)
        found, lists = Found(), {}
        mentions: Counter[int] = Counter()
        if Strategy.RIPGREP in strategies:
            found.exact, mentions = self._exact(question, failing)
        if Strategy.BM25 in strategies and not (question.regex and found.exact):
            hits = self.index.search(query.terms, POOL, WEIGHTS)
            found.lexical = {hit.chunk: hit.score for hit in hits}
            lists["bm25"] = [hit.chunk for hit in hits]
        best = max(found.lexical.values(), default=1.0)
        for number, share in found.exact.items():
            if self.where.grown(number):  # the index has never seen it: what it holds is in no indexed chunk
                found.lexical[number] = best * (GROWN + share)
        lists["ripgrep"] = _best(found.exact)
        linked = Linked()
        if Strategy.TREE_SITTER in strategies and names:
            linked = self._definitions.find(names, mentions, lists.get("bm25", ()))
            for definition in reversed(linked.definitions):
                strength = max(definition.strength, found.definitions.get(definition.chunk, 0.0))
                found.definitions[definition.chunk] = strength
            found.linked = frozenset([*linked.callers, *linked.callees])
            lists["tree_sitter"] = linked.chunks
        if Strategy.STACK_TRACE_PATH in strategies:
            found.framed = self._framed([trace, question.text])
            lists["stack_trace_path"] = list(found.framed)
        lists = {name: chunks for name, chunks in lists.items() if chunks}
        fused = fuse({name: (1.0, chunks) for name, chunks in lists.items()})
        pool = sorted(fused, key=lambda n: (-fused[n], n))[:RERANKED]
        scored = self._reranker.order(found, pool, question, query) if pool else []
        return Retrieved(question, query, tuple(scored), lists, linked)

    def with_documentation(self, found: Retrieved) -> Retrieved:
        """What was found, with the best of the documentation in view where code leads."""
        head = [self._chunks.files[number] for number, _ in found.scored[:LEADING]]
        if 2 * sum(self._corpus.files[file].kind is FileKind.CODE for file in head) <= len(head):
            return found
        scored = in_view(found.scored, found.question, found.query, self._told, self.terms, self.text)
        return replace(found, scored=tuple(scored))

    def _told(self, number: int) -> bool:
        """Whether a chunk is of a page of documentation, and no list of changes or copy."""
        file = self._corpus.files[self._chunks.files[number]]
        return file.kind is FileKind.PROSE and self._reranker.is_current(file)

    def _exact(self, question: Question, failing: Sequence[str]) -> tuple[dict[int, float], Counter[int]]:
        """Share of the question's literals that a chunk holds, rarer ones more; and mentions by file."""
        literals = [*question.quoted, *question.identifiers, *[path for path, _ in question.paths], *failing]
        if self._gaps:
            literals += _NUMBERED.findall(question.text)  # ids, codes, times: the index may lack them
        literals = [literal for literal in dict.fromkeys(literals) if len(literal) >= 2][:MAX_LITERALS]
        scores: dict[int, float] = {}
        mentions: Counter[int] = Counter()
        if question.regex:
            return self._by_regex(question.regex), mentions
        if not literals:
            return scores, mentions
        new = [literal for literal in literals if literal not in self._scanned]
        if new:  # the loop's searches share most of their literals with the question
            tables = self._tables
            scanned = exact.scan(self._corpus, self._chunks, self.where, new, tables.sieve, tables.groups)
            self._scanned.update({one.literal: one for one in scanned})
        of = self._chunks.files
        for one in (self._scanned[literal] for literal in literals):
            weight = self.index.idf(max(1, len(one.chunks)))
            for number, count in one.chunks.items():
                mentions[of[number]] += count
                whole = 1.0 if number in one.whole else 0.5
                scores[number] = scores.get(number, 0.0) + weight * whole
        highest = max(scores.values(), default=0.0) or 1.0
        return {number: score / highest for number, score in scores.items()}, mentions

    def _by_regex(self, pattern: str) -> dict[int, float]:
        """Chunks that match the question's regular expression, those with most matches best."""
        try:
            counts = regex.matches(self._corpus, self._chunks, self.where, pattern)
        except regex.RegexUnavailable as exc:
            self._ledger.warn(WarningCode.STRATEGY_UNAVAILABLE, str(exc), Stage.RETRIEVAL)
            return {}
        most = max(counts.values(), default=1)
        return {number: 0.5 + 0.5 * count / most for number, count in counts.items()}

    def _framed(self, texts: Sequence[str]) -> dict[int, float]:
        """Chunks of the frames of the question, and of the traces in logs; the innermost weighs most."""
        found: dict[int, float] = {}
        traces = [self.text(n) for n in self._tables.traces]
        for source, share in ((texts, 1.0), (traces, 0.5)):
            for frame, file in frames.located(source, self._tables.paths):
                number = self.where.at_line(file.index, frame.line) if frame.line else None
                if number is not None and file.kind is not FileKind.LOG:
                    found.setdefault(number, share / (1.0 + 0.25 * frame.depth))
        return found


def _best(scores: dict[int, float]) -> list[int]:
    return sorted(scores, key=lambda n: (-scores[n], n))[:POOL]
