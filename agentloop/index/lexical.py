"""In-memory BM25 over the chunks of one request, on tantivy. The index stores no text.

Three fields: `body`, the chunk's text with the parts of its camelCase identifiers; `name`, the definitions
or headings in it; `path`, the words of its path. Words are indexed as they are: forms that share a stem
are looked up when a question is asked (`variants`), in whichever language it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise

import tantivy

from agentloop.chunks import Chunks
from agentloop.index.build import IndexBuild, Known, build_errors, empty_index
from agentloop.index.groups import MOST_GROUPS, grouped, regrouped
from agentloop.index.language import stemmer
from agentloop.index.polish import readings
from agentloop.index.words import fold
from agentloop.types import Corpus, Hit

MAX_VARIANTS = 12  # inflected forms of one word; the commonest come first
_SCAN = 200  # words of the index that are looked at for one stem
_TIE_ROOM = 64


@dataclass(frozen=True, slots=True)
class Term:
    """One thing that a query asks for, in the ways in which a text may write it.

    Args:
        forms: single words as the index has them, each with its share (1 for the word as asked). Their
            matches add up, as those of one word would.
        weight: how much the term counts in the query.
        phrases: words side by side. With phrases, only the best of all the ways counts.
        others: the same thing said in another language, each with its own weight and rarity. With them,
            too, only the best counts.
    """

    forms: tuple[tuple[str, float], ...]
    weight: float = 1.0
    phrases: tuple[tuple[str, ...], ...] = ()
    others: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class FieldWeights:
    """How much a match in a field counts against one in the body."""

    body: float = 1.0
    name: float = 0.0
    path: float = 0.0


class LexicalIndex:
    """Build once, search often. Ties are broken by chunk id, so results never depend on threads."""

    def __init__(
        self,
        corpus: Corpus,
        chunks: Chunks,
        *,
        updatable: bool = False,
        begun: IndexBuild | None = None,
        known: Known | None = None,
    ) -> None:
        """Index all chunks; for `updated`, in groups, which takes about a third longer.

        Args:
            begun: a build that was given these very chunks already.
            known: index text that was made elsewhere; an index that is to be updated adds to it.

        Raises:
            AgentloopError: INDEX_BUILD_FAILED, tantivy refused (memory, a broken build).
        """
        self._count = len(chunks)
        self._groups = grouped(corpus, chunks, MOST_GROUPS if updatable else 1)
        self._variants: dict[tuple[str, str], list[tuple[str, int]]] = {}
        self._beside: Known = known or {}
        with build_errors():
            if len(self._groups) > 1:
                self._index = empty_index()
                self._fill(corpus, chunks, range(len(self._groups)))
            else:
                if begun is None:
                    begun = IndexBuild()
                    for file, rows in chunks.runs():
                        begun.add(corpus.files[file], chunks, rows)
                self._index = begun.close()
        self._schema = self._index.schema
        self._searcher = self._index.searcher()

    def _fill(self, corpus: Corpus, chunks: Chunks, which: Sequence[int]) -> None:
        """Index groups anew, each as one segment: one thread, one commit."""
        groups = self._groups
        if len(self._beside) > 2 * len(chunks) + 1000:
            self._beside.clear()  # of content that is gone
        build = IndexBuild(self._index, threads=1, known=self._beside)
        for group in which:
            rows = range(groups.starts[group], groups.starts[group + 1])
            build.replace_group(corpus, group, groups.keys(group), chunks, rows)
        build.close()

    def updated(self, before: Corpus, corpus: Corpus, chunks: Chunks) -> LexicalIndex:
        """The index of a later state of the inputs, where most files are the same; this one is used up.

        Searches give exactly what a new index gives. It is built anew where that would cost as much, or
        where segments are not the groups any more (a group larger than the writer's memory).

        Raises:
            AgentloopError: INDEX_BUILD_FAILED.
        """
        groups, changed = regrouped(before, self._groups, corpus, chunks)
        whole = self._searcher.num_segments == len(self._groups) and all(
            low < high for low, high in pairwise(groups.starts)
        )
        if not whole or len(groups) < 2 or 2 * len(changed) > len(groups):
            return LexicalIndex(corpus, chunks, updatable=True)
        later = copy(self)
        later._count, later._groups, later._variants = len(chunks), groups, {}
        with build_errors():
            later._fill(corpus, chunks, changed)
        later._searcher = later._index.searcher()
        if later._searcher.num_segments != len(groups) or later._searcher.num_docs != len(chunks):
            return LexicalIndex(corpus, chunks, updatable=True)
        return later

    def __len__(self) -> int:
        """Number of chunks."""
        return self._count

    def df(self, term: str, field: str = "body") -> int:
        """In how many chunks a single index term occurs."""
        return int(self._searcher.doc_freq(field, term))

    def idf(self, df: int) -> float:
        """BM25's inverse document frequency (Robertson and Spärck Jones, as tantivy computes it)."""
        return math.log(1 + (self._count - df + 0.5) / (df + 0.5))

    def prefixed(self, prefix: str, limit: int = _SCAN) -> list[tuple[str, int]]:
        """Words of the body that start with a prefix and in how many chunks they occur, commonest first."""
        return list(self._searcher.terms_with_prefix("body", prefix, limit=limit))

    def words(self) -> list[str]:
        """All words of the body, in no order; about 1.4 µs each."""
        limit = 1 << 18
        while len(found := self.prefixed("", limit)) == limit:  # tantivy makes room for so many at once
            limit <<= 2
        return [word for word, _ in found]

    def holding(self, ways: Sequence[Sequence[str]], most: int) -> list[int] | None:
        """The chunks whose body holds a word of each of `ways`, in no order; None for more than `most`."""
        query, must = tantivy.Query, tantivy.Occur.Must
        sets = [(must, query.term_set_query(self._schema, "body", list(words))) for words in ways]
        found = self._searcher.search(query.boolean_query(sets), most + 1, count=False).hits
        return None if len(found) > most else self._chunks_of([address for _, address in found])

    def variants(self, word: str, language: str) -> list[tuple[str, int]]:
        """Words of the index with the stem of `word` (never itself), commonest first.

        Args:
            word: lower-case.
            language: names the stemmer.
        """
        key = (word, language)
        found = self._variants.get(key)
        if found is None:
            found = self._variants[key] = self._look_up(word, language)
        return found

    def forget_variants(self) -> None:
        """Drop the cache of `variants`, so that a benchmark measures a first question."""
        self._variants.clear()

    def _look_up(self, word: str, language: str) -> list[tuple[str, int]]:
        if len(word) < 2 or not word.isalpha():
            return []
        if language == "polish":
            return self._polish_forms(word)
        if len(word) < 3:
            return []
        stem_all = stemmer(language)
        stem = stem_all([word])[0]
        # a stem may end in another letter than the word (happy, happi); in English only in that one
        changed = language != "english" or stem.endswith("i")
        head = stem[: max(3, len(stem) - 1)] if changed and len(stem) > 3 else stem
        near = [
            (w, n) for w, n in self.prefixed(head) if w != word and len(w) <= len(word) + 6 and w.isalpha()
        ]
        if not near:
            return []
        stems = stem_all([w for w, _ in near])
        return [pair for pair, other in zip(near, stems, strict=True) if other == stem][:MAX_VARIANTS]

    def _polish_forms(self, word: str) -> list[tuple[str, int]]:
        """Words that share a reading with a Polish word.

        A word with accents is in the index without them too, so that its plain form finds both spellings.
        """
        mine, plain = readings(word), fold(word)
        size = max(min(3, len(plain) - 1), min(5, len(plain) - 3))
        heads = {w[:size] for w in (plain, fold(word.replace("ą", "ę")))}
        near: dict[str, int] = {}
        for head in sorted(heads):
            near.update(self.prefixed(head))
        found = [
            (w, n)
            for w, n in near.items()
            if w not in (word, plain) and len(w) <= len(word) + 6 and w.isalpha() and mine & readings(w)
        ]
        found = [(w, n) for w, n in found if w.isascii() or self.df(fold(w)) < n]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:MAX_VARIANTS]

    def search(self, terms: Sequence[Term], limit: int, weights: FieldWeights = FieldWeights()) -> list[Hit]:
        """The best chunks for a query, best first; equal scores by chunk id."""
        built = [query for term in terms for query in self._options(term, weights)]
        if not built or not self._count or limit <= 0:
            return []
        query = tantivy.Query.boolean_query([(tantivy.Occur.Should, q) for q in built])
        return self._run(query, limit)

    def matching(self, pattern: str, limit: int) -> list[Hit]:
        """Chunks that hold a word matching a regular expression of the term dictionary (a linear scan)."""
        return self._run(tantivy.Query.regex_query(self._schema, "body", pattern), limit)

    def _run(self, query: tantivy.Query, limit: int) -> list[Hit]:
        """The best hits of a query; equal scores by chunk id."""
        room = max(1, min(self._count, limit + _TIE_ROOM))
        while True:
            found = self._searcher.search(query, room, count=False).hits
            # all chunks that tie with the last one kept must be seen before ids can decide
            if len(found) < room or room >= self._count or found[limit - 1][0] > found[-1][0]:
                break
            room = min(self._count, room * 4)
        numbers = self._chunks_of([address for _, address in found])
        best = sorted([(-score, number) for (score, _), number in zip(found, numbers, strict=True)])[:limit]
        return [Hit(number, -score) for score, number in best]

    def _chunks_of(self, addresses: Sequence[tantivy.DocAddress]) -> list[int]:
        """The numbers of the chunks at tantivy's addresses."""
        keys = [int(key or 0) for key in self._searcher.fast_field_values("id", list(addresses))]
        return [self._groups.chunk(key) for key in keys] if len(self._groups) > 1 else keys

    def _options(self, term: Term, weights: FieldWeights) -> list[tantivy.Query]:
        """The queries of one term. Its forms share one inverse document frequency, that of them together."""
        query = tantivy.Query
        counts = [(form, share, self.df(form)) for form, share in term.forms]
        together = self.idf(min(self._count, sum(n for _, _, n in counts)))
        options: list[tantivy.Query] = []
        for form, share, n in counts:
            if n and weights.body:
                level = together / max(self.idf(n), 1e-9) * share * weights.body * term.weight
                options.append(query.boost_query(query.term_query(self._schema, "body", form), level))
            for field, weight in (("name", weights.name), ("path", weights.path)):
                if weight and self.df(form, field):
                    found = query.term_query(self._schema, field, form, "freq")
                    options.append(query.boost_query(found, share * weight * term.weight))
        for words_ in term.phrases:
            found = query.phrase_query(self._schema, "body", list(words_))
            options.append(query.boost_query(found, term.weight))
        if term.phrases and options:
            options = [query.disjunction_max_query(options, 0.0)]
        others = [built for other in term.others if (built := self._options(other, weights))]
        if not others:
            return options
        ways = [
            query.boolean_query([(tantivy.Occur.Should, q) for q in way]) for way in (options, *others) if way
        ]
        return [query.disjunction_max_query(ways, 0.0)]
