"""Where a literal can stand, told by the words of the index, so that all else needs no look.

A run of letters and digits that stands in a chunk is a word of its index: each run of a literal is then
such a word, the start or the end of one, or a part of one. Where the index can't tell (words too long for
it, chunks that end inside a line, gaps of a log, derived text) a file is always among those to look at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agentloop.chunks import Chunks
from agentloop.index.groups import same
from agentloop.index.lexical import LexicalIndex
from agentloop.index.words import MAX_TERM
from agentloop.types import Corpus, SourceFile

MOST_WORDS = 400
"""Words of the index that a run of a literal may be part of; more of them tell little."""
MOST_CHUNKS = 6_000
"""Above, a look at all files takes no longer."""
FEW_CHUNKS = 600
"""So few are looked at in less time than it takes to tell more exactly which."""
MOST_UNKNOWN = 200
"""Files that were read after the words were listed; above, they are listed anew."""
Places = list[tuple[int, list[int]]]
"""Files by their indexes, each with the numbers of its chunks; without any, it is the whole file."""
_RUN = re.compile(r"[A-Za-z0-9]+")
_WORDLIKE = bytes(code >= 128 or chr(code).isalnum() for code in range(256))
_LONG_RUN = b"\x01" * (MAX_TERM + 1)


class Words:
    """All words of an index as one text, in which parts of words are found by a plain search."""

    def __init__(self, words: Sequence[str]) -> None:
        self._text = "\n".join(["", *words, ""]).encode()

    def holding(self, part: str, *, ends: bool) -> list[str] | None:
        """The words that hold `part`, at their end where that is asked; None for too many."""
        text, found = self._text, dict[bytes, None]()
        needle = part.encode() + (b"\n" if ends else b"")
        at = text.find(needle)
        while at >= 0:
            end = text.find(b"\n", at)
            found[text[text.rfind(b"\n", 0, at) + 1 : end]] = None
            if len(found) > MOST_WORDS:
                return None
            at = text.find(needle, end)
        return [word.decode() for word in found]


class Sieve:
    """Files by literal, for one state of the inputs. `before`, of an earlier state, makes it cheaper."""

    def __init__(
        self, corpus: Corpus, chunks: Chunks, index: LexicalIndex, before: Sieve | None = None
    ) -> None:
        """Take the words of an index over `chunks`; those of `before` where few files are new."""
        self._chunks = chunks
        self._index = index
        known = [None] * len(corpus.files) if before is None else before._known_of(corpus)
        self._files = corpus.files
        pairs = zip(corpus.files, known, strict=True)
        self._long = [_has_long_run(file) if facts is None else facts[0] for file, facts in pairs]
        self._words: Words
        self._listed = [facts is not None and facts[1] for facts in known]  # whether its words are among them
        if before is None or self._listed.count(False) > MOST_UNKNOWN:
            self._words, self._listed = Words(index.words()), [True] * len(corpus.files)
        else:
            self._words = before._words
        whole = frozenset(_whole(corpus, chunks))
        self._always = frozenset(
            n
            for n, (long, listed) in enumerate(zip(self._long, self._listed, strict=True))
            if long or not listed or n not in whole
        )
        self._known: dict[str, Places | None] = {}

    def _known_of(self, corpus: Corpus) -> list[tuple[bool, bool] | None]:
        """Of each file of a later corpus what is known of it here; None where it was read again."""
        facts = list(zip(self._long, self._listed, strict=True))
        known = {id(file): n for n, file in enumerate(self._files)}  # most files are the same objects
        found = [known.get(id(file)) for file in corpus.files]
        if None in found:
            alike = {same(file): n for n, file in enumerate(self._files)}
            pairs = zip(corpus.files, found, strict=True)
            found = [alike.get(same(file)) if n is None else n for file, n in pairs]
        return [None if n is None else facts[n] for n in found]

    def places(self, literal: str) -> Places | None:
        """Where a literal can stand, in order; None: anywhere.

        No literal reaches from one of the chunks that are named into another.
        """
        if literal not in self._known:
            self._known[literal] = self._look_up(literal)
        return self._known[literal]

    def _look_up(self, literal: str) -> Places | None:
        if not literal.isascii() or "\n" in literal:
            return None
        runs = [(m.group().lower(), m.start() > 0, m.end() < len(literal)) for m in _RUN.finditer(literal)]
        # how words begin is told at once, how they end by a search through all of them
        told = [words for run in runs if run[1] and (words := self._way(*run)) is not None]
        found = self._index.holding(told, MOST_CHUNKS) if told else None
        if found is None or len(found) > FEW_CHUNKS:
            ways = told + [words for run in runs if not run[1] and (words := self._way(*run)) is not None]
            found = self._index.holding(ways, MOST_CHUNKS) if len(ways) > len(told) else found
        if found is None:
            return None
        places: dict[int, list[int]] = {file: [] for file in self._always}
        of = self._chunks.files
        for number in sorted(found):
            if of[number] not in self._always:
                places.setdefault(of[number], []).append(number)
        return sorted(places.items())

    def _way(self, part: str, starts: bool, ends: bool) -> list[str] | None:
        """The words that a run of a literal may be; None where they are too many, or can't be told."""
        if len(part) > MAX_TERM:
            return None
        if starts and ends:
            return [part]
        if not starts:
            return self._words.holding(part, ends=ends)
        words = [word for word, _ in self._index.prefixed(part, MOST_WORDS + 1)]
        return None if len(words) > MOST_WORDS else words


def _has_long_run(file: SourceFile) -> bool:
    """Whether a file has a run of word characters that is too long to be a word of the index."""
    return _LONG_RUN in file.content.read(0, file.content.size).translate(_WORDLIKE)


def _whole(corpus: Corpus, chunks: Chunks) -> Iterator[int]:
    """The files that lie in their chunks without gaps, none of which ends inside a line."""
    starts, ends, first, last = chunks.byte_starts, chunks.byte_ends, chunks.line_starts, chunks.line_ends
    for number, rows in chunks.runs():
        file = corpus.files[number]
        if file.derived is not None or starts[rows.start] or ends[rows.stop - 1] != file.content.size:
            continue
        inner = range(rows.start, rows.stop - 1)
        if all(ends[n] == starts[n + 1] and last[n] < first[n + 1] for n in inner):
            yield number
