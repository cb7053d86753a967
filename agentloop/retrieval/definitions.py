"""The `tree_sitter` strategy: where the names of the question are defined, who calls them, what they call.

Names of definitions come from the chunker's outline of every file; only the files that matter are parsed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentloop.chunks import Chunks
from agentloop.index.symbols import SymbolParser
from agentloop.retrieval.chunkmap import ChunkMap
from agentloop.retrieval.tables import Tables
from agentloop.types import Corpus, FileKind, Symbol

MAX_FILES = 8
"""Files parsed for definitions, and again for calls: about 0.1 s at tree-sitter's speed."""
MAX_PER_NAME = 12
MAX_LINKED = 24
_TYPES = frozenset(
    (
        "class",
        "struct",
        "interface",
        "enum",
        "type",
        "trait",
        "protocol",
        "record",
        "union",
        "module",
        "object",
    )
)
_FUNCTION_FOR_TYPE = 0.7
"""A function with a capitalised name, where the question names something capitalised: types come first."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition of a name of the question. `strength` falls with the number of its namesakes."""

    chunk: int
    name: str
    strength: float
    symbol: Symbol | None


@dataclass(frozen=True, slots=True)
class Linked:
    """Definitions, and the chunks one step away from them in the call graph, best first."""

    definitions: tuple[Definition, ...] = ()
    callers: tuple[int, ...] = ()
    callees: tuple[int, ...] = ()

    @property
    def chunks(self) -> list[int]:
        """All chunks, definitions first, each once."""
        own = [definition.chunk for definition in self.definitions]
        return list(dict.fromkeys([*own, *self.callers, *self.callees]))


@dataclass(slots=True)
class DefinitionFinder:
    """Looks names up among the definitions of a corpus."""

    corpus: Corpus
    chunks: Chunks
    where: ChunkMap
    parser: SymbolParser
    tables: Tables

    def named(self, name: str) -> Sequence[int]:
        """The chunks in which a definition of exactly that name starts."""
        return self.tables.defined(name)

    def expect(self, names: Sequence[str]) -> None:
        """Have the files parsed that `find` will look into, where names have few definitions."""
        homes = [home for name in names if len(found := self.named(name)) <= MAX_FILES for home in found]
        files = dict.fromkeys(self.chunks.files[home] for home in homes)
        self.parser.ahead(self.corpus.files[file] for file in list(files)[:MAX_FILES])

    def find(self, names: Sequence[str], mentions: Mapping[int, int], order: Sequence[int]) -> Linked:
        """Definitions of `names` and what they are linked to.

        Args:
            mentions: file -> how often the exact strings of the question occur in it.
            order: chunks as BM25 ranks them; decides which namesakes are looked at.
        """
        place = {chunk: rank for rank, chunk in enumerate(order)}
        found: list[Definition] = []
        parsed: set[int] = set()
        for name in names:
            here = sorted(self.named(name), key=lambda n: (place.get(n, len(order)), n))
            for number in here[:MAX_PER_NAME]:
                found.append(self._definition(number, name, len(here), parsed))
        found.sort(key=lambda d: (-d.strength, place.get(d.chunk, len(order)), d.chunk))
        known = {definition.name for definition in found}
        callers = self._callers(known, mentions) if known else ()
        return Linked(tuple(found), tuple(callers), tuple(self._callees(found[:2])))

    def _definition(self, number: int, name: str, namesakes: int, parsed: set[int]) -> Definition:
        chunk = self.chunks[number]
        strength = 1.0 / (1.0 + math.log(namesakes))
        symbol = None
        if chunk.file in parsed or len(parsed) < MAX_FILES:
            parsed.add(chunk.file)
            symbols = self.parser.symbols(self.corpus.files[chunk.file])
            inside = [
                s for s in symbols if s.name == name and chunk.byte_start <= s.byte_start < chunk.byte_end
            ]
            symbol = max(inside, key=lambda s: (s.kind in _TYPES, s.byte_end - s.byte_start), default=None)
        if symbol is not None and name[:1].isupper() and symbol.kind not in _TYPES:
            strength *= _FUNCTION_FOR_TYPE
        return Definition(number, name, strength, symbol)

    def _callers(self, names: Iterable[str], mentions: Mapping[int, int]) -> list[int]:
        """Chunks in which a named definition is called, of the files that mention it most."""
        wanted = sorted(names)
        found: dict[int, None] = {}
        code = [file for file in mentions if self.corpus.files[file].kind is FileKind.CODE]
        for file in sorted(code, key=lambda f: (-mentions[f], f))[:MAX_FILES]:
            for _, span, enclosing in self.parser.callsites(self.corpus.files[file], wanted):
                if enclosing is not None and enclosing.name in wanted:
                    continue  # recursion, or the definition itself
                number = self.where.at_byte(file, span.byte_start)
                if number is not None and len(found) < MAX_LINKED:
                    found.setdefault(number)
        return list(found)

    def _callees(self, definitions: Sequence[Definition]) -> list[int]:
        """Chunks that define what a definition calls, where the name leaves no doubt."""
        found: dict[int, None] = {}
        for definition in definitions:
            symbol = definition.symbol
            if symbol is None:
                continue
            calls = self.parser.calls(self.corpus.files[self.chunks[definition.chunk].file])
            for name, offsets in calls.items():
                if any(symbol.byte_start <= at < symbol.byte_end for at in offsets):
                    homes = self.named(name)
                    if 0 < len(homes) <= 2 and len(found) < MAX_LINKED:
                        found.setdefault(homes[0])
        return list(found)
