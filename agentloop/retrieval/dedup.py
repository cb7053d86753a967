"""Deduplication of ranked candidates. What collapses keeps its sources: `Candidate.duplicates`.

In falling order of certainty: the same span found twice (retries, several strategies), identical text,
equal normalised text (white space, for logs the masked template, for stack traces the frames without
line numbers), and near-duplicates by word shingles. Generated twins and vendored copies of a file that is
itself among the candidates collapse at a lower likeness, and never stand for the original.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentloop.types import Candidate, Chunk, ChunkType, Corpus, FileKind, Trait

SHINGLE_WORDS = 4
NEAR = 0.9  # Jaccard likeness of shingles above which two snippets say the same
TWIN = 0.6  # for a copy that is generated, minified or vendored, of a file of the same name
MIN_SHINGLES = 12  # shorter texts are alike by chance: only equality counts
COPIES = frozenset({Trait.VENDORED, Trait.GENERATED, Trait.MINIFIED})

_WORD = re.compile(r"\w+")
_LOWER = "".join(chr(c).lower() if chr(c).isalnum() or c == ord("_") else " " for c in range(128))
"""For ASCII text: its words in lower case, blanks for all else."""
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# what varies between two prints of one log statement
_VARIABLE = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b0x[0-9a-f]+\b|"
    r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}\b|\d+(?:[.,:]\d+)*",
    re.IGNORECASE,
)
_FRAME = re.compile(r"(?:\bline |[:(])\d+(?::\d+)?\)?|\b0x[0-9a-f]+\b|\+0x[0-9a-f]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Text:
    """A candidate's text reduced for comparison."""

    exact: str
    normal: str
    shingles: frozenset[str]
    head: tuple[int, ...]  # the first of their hashes: what `_Likely` goes by
    figures: tuple[str, ...]  # in order: two texts that differ in a figure say different things
    copy: bool
    name: str
    kind: FileKind


def collapse(candidates: Sequence[Candidate], corpus: Corpus, chunks: Sequence[Chunk]) -> list[Candidate]:
    """Candidates without duplicates, in order; what was dropped is in `duplicates` of what stays.

    A candidate that stands for others keeps the best rank and score of its group; where the best is a
    vendored or generated copy, the original takes its place.
    """
    kept: list[Candidate] = []
    texts: list[_Text] = []
    by_key: dict[str, int] = {}
    likely = _Likely()
    by_chunk: dict[int, int] = {}
    for candidate in candidates:
        if candidate.chunk in by_chunk:
            continue
        text = _reduce(candidate, corpus, chunks[candidate.chunk])
        home = _home(candidate, text, kept, texts, by_key, likely)
        if home is None:
            by_chunk[candidate.chunk] = len(kept)
            by_key.setdefault(text.exact, len(kept))
            by_key.setdefault(text.normal, len(kept))
            likely.add(len(kept), text)
            kept.append(candidate)
            texts.append(text)
            continue
        by_chunk[candidate.chunk] = home
        if texts[home].copy and not text.copy:
            kept[home] = _swap(kept[home], candidate)
            texts[home] = replace(text, shingles=texts[home].shingles, head=texts[home].head)
            likely.name(home, text)
        else:
            kept[home] = _join(kept[home], candidate)
    return kept


class _Likely:
    """Kept texts that may be near enough to a further one, found without comparing it with all of them.

    Two sets of a likeness of `NEAR` or more share one of their first members in any one order, if so many
    of them are looked at as the likeness leaves out, and one more (prefix filtering; Chaudhuri, Ganti and
    Kaushik, ICDE 2006). Copies, for which less is enough, are found by their names.
    """

    def __init__(self) -> None:
        self._by_head: dict[int, list[int]] = {}
        self._by_name: dict[tuple[str, bool], list[int]] = {}

    def add(self, number: int, text: _Text) -> None:
        """Keep a text under its number."""
        for shingle in text.head:
            self._by_head.setdefault(shingle, []).append(number)
        self.name(number, text)

    def name(self, number: int, text: _Text) -> None:
        """A text may be found by the name of its file, by a copy or as one."""
        self._by_name.setdefault((text.name, text.copy), []).append(number)

    def to(self, text: _Text) -> set[int]:
        """The numbers of all texts that may be near, and of some that are not."""
        found = {n for shingle in text.head for n in self._by_head.get(shingle, ())}
        return found.union(self._by_name.get((text.name, not text.copy), ()))


def _home(
    candidate: Candidate,
    text: _Text,
    kept: Sequence[Candidate],
    texts: Sequence[_Text],
    by_key: dict[str, int],
    likely: _Likely,
) -> int | None:
    """The kept candidate that this one repeats."""
    for key in (text.exact, text.normal):
        home = by_key.get(key)
        if home is not None and (key == text.exact or set(candidate.terms) <= set(kept[home].terms)):
            return home
    if len(text.shingles) < MIN_SHINGLES:
        return None
    shared = {n: len(text.shingles & texts[n].shingles) for n in likely.to(text)}
    for n in sorted(shared, key=lambda n: (-shared[n], n)):
        likeness = shared[n] / (len(text.shingles) + len(texts[n].shingles) - shared[n])
        if likeness >= NEAR and _same_facts(candidate, text, kept[n], texts[n]):
            return n
        twin = text.copy != texts[n].copy and text.name == texts[n].name
        if twin and likeness >= TWIN:
            return n
    return None


def _same_facts(a: Candidate, mine: _Text, b: Candidate, theirs: _Text) -> bool:
    """Near-duplicates differ in words; where a term of the question or a figure differs, both stay."""
    if set(a.terms) != set(b.terms) or mine.kind is not theirs.kind:
        return False
    return mine.kind is FileKind.LOG or mine.figures == theirs.figures


def _join(keeper: Candidate, other: Candidate) -> Candidate:
    return replace(keeper, duplicates=_unique(keeper, (other.chunk, *other.duplicates)))


def _swap(copy: Candidate, original: Candidate) -> Candidate:
    """The original in the rank of its copy."""
    ranks = {**original.ranks, **{s: min(r, original.ranks.get(s, r)) for s, r in copy.ranks.items()}}
    moved = replace(original, score=copy.score, ranks=ranks)
    return replace(moved, duplicates=_unique(moved, (*copy.duplicates, copy.chunk)))


def _unique(keeper: Candidate, more: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in dict.fromkeys((*keeper.duplicates, *more)) if n != keeper.chunk)


def _reduce(candidate: Candidate, corpus: Corpus, chunk: Chunk) -> _Text:
    file = corpus.files[chunk.file]
    raw = corpus.text(chunk)
    plain = _ANSI.sub("", raw) if file.kind is FileKind.LOG and "\x1b" in raw else raw
    if chunk.type is ChunkType.TRACE:
        plain = _VARIABLE.sub("#", _FRAME.sub(":#", plain))
    elif file.kind is FileKind.LOG:
        plain = _VARIABLE.sub("#", plain)
    normal = " ".join(plain.split())
    words = normal.translate(_LOWER).split() if normal.isascii() else _WORD.findall(normal.casefold())
    # texts and not numbers: one digest a shingle took longer than all the rest
    shingles = frozenset(map(" ".join, zip(*(words[start:] for start in range(SHINGLE_WORDS)), strict=False)))
    return _Text(
        exact=_key(f"{file.kind}\0{raw.strip()}"),
        normal=_key(f"{file.kind}\1{normal}"),
        shingles=shingles,
        head=tuple(sorted(map(hash, shingles))[: len(shingles) - int(NEAR * len(shingles)) + 1]),
        figures=tuple(re.findall(r"\d+", normal)),
        copy=bool(file.traits & COPIES),
        name=_stem(file.path),
        kind=file.kind,
    )


def _stem(path: str) -> str:
    """Base name without `.min`, `.generated`, `_pb2` and the like, lower case."""
    name = path.rsplit("/", 1)[-1].casefold()
    return re.sub(r"[._-](?:min|gen|generated|bundle|pb2?|g)(?=\.|$)", "", name)


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
