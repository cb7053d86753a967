"""Order what was found by usefulness to the question: the ranking signals, each a share of one score.

The unit is the file (for records, the item): its best chunks add up, its name and path, the definitions
and exact strings in it and its place in a stack trace raise it, and tests, examples, generated or
vendored copies fall behind unless the question asks for them. docs/retrieval.md has the figures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from agentloop.chunks import Chunks
from agentloop.index import words
from agentloop.retrieval.question import Question
from agentloop.retrieval.tables import Tables
from agentloop.retrieval.terms import Query
from agentloop.types import Corpus, FileKind, SourceFile, Trait

COHERENCE = 0.5
"""The n-th best chunk of a file counts COHERENCE^(n-1) of its score."""
COHERENT_CHUNKS = 8
STEM = 0.6
FOLDER = 0.1
HEAD = 1.2
"""The first chunk of a file of code, against its others: its docstring says what the file is about."""
COVERAGE = 0.2
DEFINITION = 0.8
SYMBOL_QUESTION = 1.0
"""How many times more a definition counts where the question is nothing but a name."""
EXACT = 0.3
FRAME = 1.0
LINKED = 0.15
SATURATION = 0.75
"""Each further chunk of a file counts so much of the one before: other files come in between."""
_LOG_SATURATION = 0.95  # a log or a long text is one file: its parts are as different as files are
COVERED_CHUNKS = 5
COVERED_UNITS = 60

_PENALTY = {
    Trait.TEST: 0.4,
    Trait.EXAMPLE: 0.5,
    Trait.VENDORED: 0.4,
    Trait.GENERATED: 0.5,
    Trait.MINIFIED: 0.2,
    Trait.LOCK: 0.2,
    Trait.DOCS: 0.7,
}
_OTHER_KIND = 0.6  # prose and data next to code
_CHANGELOG = re.compile(
    r"(?:^|/)(?:changes|changelog|history|news|releases?(?:[-_]?notes)?)(?:[-_.][^/]*)?(?:\.\w+)?$", re.I
)
_OLD = re.compile(r"(?:^|/)_?(?:legacy|compat|deprecated|obsolete)(?:/|\.|_)", re.I)
_VERSIONED = re.compile(r"(?:^|(?<=/))v\d+/")
_FRONT = re.compile(r"(?:^|/)(?:__init__\.pyi?|index\.[jt]sx?|mod\.rs)$")  # files that mostly re-export
_STUB = re.compile(r"\.pyi$|\.d\.[cm]?ts$")


@dataclass(slots=True)
class Found:
    """What the strategies found for one question. Scores of chunks are in each strategy's own scale."""

    lexical: dict[int, float] = field(default_factory=dict)
    exact: dict[int, float] = field(default_factory=dict)  # 0..1
    definitions: dict[int, float] = field(default_factory=dict)  # 0..1
    linked: frozenset[int] = frozenset()
    framed: dict[int, float] = field(default_factory=dict)  # 0..1, 1 for the innermost frame


class Reranker:
    """Scores the chunks of one corpus. Holds what of the corpus does not depend on the question."""

    def __init__(
        self, corpus: Corpus, chunks: Chunks, terms_of: Callable[[int], frozenset[str]], tables: Tables
    ) -> None:
        self._tables = tables
        self._corpus = corpus
        self._chunks = chunks
        self._terms_of = terms_of
        self._mixed = any(file.kind is FileKind.CODE for file in corpus.files)

    def order(
        self, found: Found, pool: Sequence[int], question: Question, query: Query
    ) -> list[tuple[int, float]]:
        """The chunks of a pool with their scores, best first, the best at most about 1; ties by chunk id."""
        lexical = self._headed(found.lexical)
        units: dict[int, list[int]] = {}
        for number in sorted(pool):
            units.setdefault(self._unit(number), []).append(number)
        defined = DEFINITION * (1.0 + SYMBOL_QUESTION * question.symbol_like)
        local = self._local(found, lexical, pool, defined)
        for members in units.values():
            members.sort(key=lambda n: (-local[n], n))
        sums = {unit: self._coherent(members, lexical) for unit, members in units.items()}
        highest = max(sums.values(), default=0.0) or 1.0
        base = {unit: value / highest for unit, value in sums.items()}
        leaders = sorted(base, key=lambda unit: (-base[unit], unit))
        covered = {unit: self._covered(units[unit], query) for unit in leaders[:COVERED_UNITS]}
        scored: list[tuple[int, float]] = []
        penalties: dict[int, float] = {}
        named = _Named(query)
        of, files = self._chunks.files, self._corpus.files
        for unit, members in units.items():
            file = files[of[members[0]]]
            score = base[unit] + COVERAGE * covered.get(unit, 0.0) + self._bonus(members, found, defined)
            if file.kind is not FileKind.RECORDS:
                folder, _, name = file.path.rpartition("/")
                score += STEM * named.share(name.partition(".")[0])
                score += FOLDER * named.share(folder.rpartition("/")[2])
            if file.index not in penalties:
                penalties[file.index] = self.penalty(file, question)
            score *= penalties[file.index]
            keep = SATURATION if file.kind is FileKind.CODE else _LOG_SATURATION
            best = local[members[0]] or 1.0
            for place, number in enumerate(members):
                scored.append((number, score * keep**place * (0.5 + 0.5 * local[number] / best)))
        scored.sort(key=lambda pair: (-pair[1], pair[0]))
        top = scored[0][1] if scored else 1.0
        return [(number, value / top if top > 0 else 0.0) for number, value in scored]

    def penalty(self, file: SourceFile, question: Question) -> float:
        """What a file keeps of its score for its kind; all of it where the question asks for that kind."""
        share = 1.0
        for trait in sorted(file.traits - question.wants):
            share = min(share, _PENALTY[trait])
        if self._mixed and file.kind in (FileKind.PROSE, FileKind.DATA, FileKind.TEXT, FileKind.DOCUMENT):
            share *= 1.0 if Trait.DOCS in question.wants else _OTHER_KIND
        if _CHANGELOG.search(file.path) and Trait.DOCS not in question.wants:
            share *= 0.5
        asked = question.text.lower()
        old = _OLD.search(file.path)
        if old and not any(word in asked for word in ("legacy", "compat", "deprecated", "obsolete")):
            share *= 0.5
        version = _VERSIONED.search(file.path)
        if (
            version
            and version.group()[:-1] not in asked
            and _VERSIONED.sub("", file.path, count=1) in self._tables.names
        ):
            share *= 0.5  # a versioned copy beside the current one
        if _FRONT.search(file.path):
            share *= 0.85 if file.index in self._tables.defining else 0.5
        return share * (0.7 if _STUB.search(file.path) else 1.0)

    @staticmethod
    def is_current(file: SourceFile) -> bool:
        """Whether a file is the project's own and of today: no test data, vendored copy or changelog."""
        return file.traits <= {Trait.DOCS} and not _CHANGELOG.search(file.path) and not _OLD.search(file.path)

    def _unit(self, number: int) -> int:
        """Files are units; of records each item is its own, told apart by a negative number."""
        file = self._chunks.files[number]
        return -1 - number if self._corpus.files[file].kind is FileKind.RECORDS else file

    def _headed(self, lexical: Mapping[int, float]) -> dict[int, float]:
        """Scores of words, those of the heads of files of code raised."""
        files, of, first = self._corpus.files, self._chunks.files, self._chunks.line_starts
        return {
            n: score * HEAD if first[n] == 1 and files[of[n]].kind is FileKind.CODE else score
            for n, score in lexical.items()
        }

    def _local(
        self, found: Found, lexical: Mapping[int, float], pool: Sequence[int], defined: float
    ) -> dict[int, float]:
        """How good a chunk is inside its file."""
        highest = max(lexical.values(), default=0.0) or 1.0
        return {
            n: lexical.get(n, 0.0) / highest
            + defined * found.definitions.get(n, 0.0)
            + EXACT * found.exact.get(n, 0.0)
            + FRAME * found.framed.get(n, 0.0)
            + LINKED * (n in found.linked)
            for n in pool
        }

    def _coherent(self, members: Sequence[int], lexical: Mapping[int, float]) -> float:
        scores = sorted((lexical.get(n, 0.0) for n in members), reverse=True)
        return sum(score * COHERENCE**place for place, score in enumerate(scores[:COHERENT_CHUNKS]))

    def _bonus(self, members: Sequence[int], found: Found, defined: float) -> float:
        """What the best chunk of a unit has besides words."""
        return (
            defined * max(found.definitions.get(n, 0.0) for n in members)
            + EXACT * max(found.exact.get(n, 0.0) for n in members)
            + FRAME * max(found.framed.get(n, 0.0) for n in members)
            + LINKED * any(n in found.linked for n in members)
        )

    def _covered(self, members: Sequence[int], query: Query) -> float:
        """Share of the question that the best chunks of a unit hold together."""
        held: set[str] = set()
        for number in members[:COVERED_CHUNKS]:
            held |= self._terms_of(number)
        return query.share(held)


class _Named:
    """What names of files and folders hold of a question; folders and stems come again and again."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._total = query.total
        self._known: dict[str, float] = {}

    def share(self, name: str) -> float:
        """Share of the question in a name: words, stems inside words, abbreviations."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._look(name) if self._total else 0.0
        return found

    def _look(self, name: str) -> float:
        pieces, flat = _pieces(name), name.lower()
        held = 0.0
        for asked in self._query.asked:
            whole = not asked.forms.isdisjoint(pieces)
            if whole or _inside(asked.word, flat) or any(abbreviates(piece, asked.word) for piece in pieces):
                held += asked.weight
        return held / self._total


@lru_cache(maxsize=1 << 14)
def _pieces(name: str) -> frozenset[str]:
    """The words of a name, and their parts, in lower case."""
    return frozenset(
        piece.lower() for word in words.words(name.replace("_", " ")) for piece in (word, *words.parts(word))
    )


def term_set(text: str) -> frozenset[str]:
    """The index terms of a text, as a set: words in lower case, and parts of camelCase."""
    if text.isascii():
        found = set(text.translate(_LOWER).split())
        found.update(_CAMEL.of(text.encode("ascii")).lower().split())
        return frozenset(found)
    found = set(words.words(words.fold(text).lower()))  # as the index has them beside the accented ones
    for word in words.words(text):
        found.update(words.terms(word))
        if not word.islower() and word.isascii():
            found.update(part.lower() for part in words.parts(word))
    return frozenset(found)


def _inside(word: str, name: str) -> bool:
    """Whether a name holds the head of a word: `urldispatcher` holds `dispatching`."""
    head = word[: max(4, len(word) - 3)] if len(word) > 4 else word
    return len(word) >= 3 and head in name


_LOWER = "".join(chr(c).lower() if chr(c).isalnum() else " " for c in range(128))
"""For ASCII text: its words in lower case, blanks for all else."""
_CAMEL = words.CamelParts()
_VOWELS = frozenset("aeiou")


def abbreviates(short: str, word: str) -> bool:
    """Whether a name stands for a longer word: a prefix (`auth`), or its consonants in order (`ctx`)."""
    if len(word) < 5 or not 2 <= len(short) < len(word):
        return False
    if len(short) >= 3 and word.startswith(short):
        return True
    if len(short) > 4 or short[0] != word[0] or not _VOWELS.isdisjoint(short):
        return False
    letters = iter(word)
    return all(letter in letters for letter in short)
