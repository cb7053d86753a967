"""What the strategies know of a corpus before any question: made when first needed, or ahead of questions.

A process that answers many questions over the same inputs keeps them (`agentloop.cache.warm`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from agentloop.chunks import Chunks
from agentloop.index.language import detect
from agentloop.index.lexical import LexicalIndex
from agentloop.index.sieve import Sieve
from agentloop.request import InputRole
from agentloop.retrieval.exact import grouped
from agentloop.retrieval.frames import PathIndex
from agentloop.types import ChunkType, Corpus, FileKind, SourceFile

MAX_TRACES = 100
MOST_EDITED = 100
"""Edited files whose definitions are looked at apart."""
_SAMPLES = 24  # chunks looked at for the corpus' languages
_SAMPLE_CHARS = 400


@dataclass
class Tables:
    """Tables over one corpus with its chunks and their index. Chunks that grow later are in none of them."""

    corpus: Corpus
    chunks: Chunks
    index: LexicalIndex
    sieve: Sieve | None = None  # without one every file is looked at for exact strings

    @property
    def prepared(self) -> bool:
        """Whether all of them are made."""
        return self.sieve is not None

    def prepare(self, before: Tables | None = None) -> None:
        """Make all of them now, for many questions; `before`, of an earlier state, makes that cheaper."""
        self.sieve = Sieve(self.corpus, self.chunks, self.index, before.sieve if before else None)
        if before is not None and "definitions" in before.__dict__:
            self._take_definitions(before)
        for name in ("rows", "paths", "definitions", "defining", "names", "languages", "traces", "groups"):
            getattr(self, name)

    @cached_property
    def rows(self) -> dict[int, range]:
        """The chunks of each file that has some."""
        return dict(self.chunks.runs())

    @cached_property
    def paths(self) -> PathIndex:
        """Files by the ends of their paths."""
        return PathIndex(self.corpus)

    @cached_property
    def names(self) -> frozenset[str]:
        """The paths of all files."""
        return frozenset(file.path for file in self.corpus.files)

    @cached_property
    def definitions(self) -> dict[str, list[tuple[int, int]]]:
        """Where a definition of a name starts, in files of code: file, and which of its chunks, in order."""
        found: dict[str, list[tuple[int, int]]] = {}
        for file in self.corpus.files:
            for name, place in self._defined_in(file):
                found.setdefault(name, []).append(place)
        return found

    def defined(self, name: str) -> list[int]:
        """The chunks in which a definition of exactly that name starts."""
        return [self.rows[file].start + number for file, number in self.definitions.get(name, ())]

    def _defined_in(self, file: SourceFile) -> Iterator[tuple[str, tuple[int, int]]]:
        rows = self.rows.get(file.index)
        if rows is None or file.kind is not FileKind.CODE:
            return
        for number, names in enumerate(self.chunks.names(rows)):
            if names:
                for name in names.split(" "):
                    yield name, (file.index, number)

    def _take_definitions(self, before: Tables) -> None:
        """The definitions of an earlier state, those of edited files made anew, where names stayed."""
        files, earlier = self.corpus.files, before.corpus.files
        if len(files) != len(earlier):
            return
        edited = [(new, old) for new, old in zip(files, earlier, strict=True) if new is not old]
        if len(edited) > MOST_EDITED:
            return
        found = dict(before.definitions)
        for new, old in edited:
            for name, place in dict(before._defined_in(old)).items():
                found[name] = [other for other in found[name] if other[0] != place[0]]
            for name, place in self._defined_in(new):
                found[name] = sorted([*found.get(name, ()), place])
        self.definitions = found

    @cached_property
    def defining(self) -> frozenset[int]:
        """The files in which something is defined, or has a heading."""
        return frozenset(self.chunks.named_files())

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages of the prose, by a sample: their stems are tried whatever the question's."""
        told = (FileKind.PROSE, FileKind.RECORDS, FileKind.DOCUMENT, FileKind.TEXT)
        prose = [n for file, rows in self.rows.items() if self.corpus.files[file].kind in told for n in rows]
        sample = prose[:: max(1, len(prose) // _SAMPLES)][:_SAMPLES]
        found = Counter(detect(self.corpus.text(self.chunks[n])[:_SAMPLE_CHARS]) for n in sample)
        return tuple(language for language, n in found.most_common(2) if n * 8 >= len(sample))

    @cached_property
    def traces(self) -> list[int]:
        """The first chunks that are stack traces in logs."""
        return list(islice(self.chunks.of_type(ChunkType.TRACE), MAX_TRACES))

    @cached_property
    def groups(self) -> list[list[SourceFile]]:
        """Files in the groups in which exact strings are looked for. A baseline is never cited."""
        cited = {info.input_id for info in self.corpus.inputs if info.role is not InputRole.BASELINE}
        return list(grouped([file for file in self.corpus.files if file.input_id in cited]))
