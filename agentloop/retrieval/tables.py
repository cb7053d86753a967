"""What the strategies know of a corpus before any question: made when first needed, or ahead of questions.

A process that answers many questions over the same inputs keeps them (`agentloop.cache.warm`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from agentloop.chunks import Chunks
from agentloop.index.language import detect
from agentloop.index.lexical import LexicalIndex
from agentloop.index.sieve import Sieve
from agentloop.retrieval.exact import grouped
from agentloop.retrieval.frames import PathIndex
from agentloop.types import ChunkType, Corpus, FileKind, SourceFile

MAX_TRACES = 100
_SAMPLES = 24  # chunks looked at for the corpus' languages
_SAMPLE_CHARS = 400


@dataclass
class Tables:
    """Tables over one corpus with its chunks and their index. Chunks that grow later are in none of them."""

    corpus: Corpus
    chunks: Chunks
    index: LexicalIndex
    sieve: Sieve | None = None  # without one every file is looked at for exact strings

    def prepare(self, before: Tables | None = None) -> None:
        """Make all of them now, for many questions; `before`, of an earlier state, makes that cheaper."""
        self.sieve = Sieve(self.corpus, self.chunks, self.index, before.sieve if before else None)
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
    def definitions(self) -> dict[str, list[int]]:
        """The chunks in which a definition of a name starts, in files of code."""
        files, of = self.corpus.files, self.chunks.files
        found: dict[str, list[int]] = {}
        for number, names in self.chunks.named():
            if files[of[number]].kind is FileKind.CODE:
                for name in names.split(" "):
                    found.setdefault(name, []).append(number)
        return found

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
        """Files in the groups in which exact strings are looked for."""
        return list(grouped(self.corpus.files))
