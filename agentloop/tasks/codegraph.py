"""Who calls whom, by name, over the files that matter: built on demand, a file is parsed at most once.

Names are resolved by themselves: a call of `total` may reach each definition of that name, and the
weight of the call is shared among them. That is rough, and enough to tell which functions failing tests
reach and passing tests don't.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentloop.index.symbols import SymbolParser
from agentloop.types import Chunk, Corpus, FileKind, SourceFile, Symbol, Trait

MAX_DEFINITIONS = 24  # a name with more definitions says nothing
MAX_DEPTH = 5
DECAY = 0.75  # of the weight with each call
LEAST = 0.02  # reach below this weight is noise
MENTION = 0.5  # weight of a name that is used but not called (a property, a callback, a class)
_WORD = re.compile(rb"[A-Za-z_]\w{2,80}")
_COMMON_KINDS = frozenset({"class", "struct", "interface", "enum", "trait", "object"})


@dataclass(frozen=True, slots=True, order=True)
class Function:
    """A definition: its file and where it starts."""

    file: int
    byte_start: int


class CodeGraph:
    """Definitions and calls of a corpus's code."""

    def __init__(self, corpus: Corpus, chunks: Sequence[Chunk], parser: SymbolParser) -> None:
        self._corpus = corpus
        self._parser = parser
        self._files_of: dict[str, list[int]] = {}
        self._symbols: dict[int, tuple[Symbol, ...]] = {}
        self._callees: dict[Function, tuple[tuple[Function, float], ...]] = {}
        for chunk in chunks:
            file = corpus.files[chunk.file]
            if chunk.name and file.kind is FileKind.CODE and not file.traits & _LEFT_OUT:
                for name in chunk.name.split():
                    owners = self._files_of.setdefault(name.rpartition(".")[2], [])
                    if not owners or owners[-1] != chunk.file:
                        owners.append(chunk.file)

    def symbols(self, file: int) -> tuple[Symbol, ...]:
        """The definitions of a file in order of their start."""
        if file not in self._symbols:
            self._symbols[file] = self._parser.symbols(self._corpus.files[file])
        return self._symbols[file]

    def symbol(self, function: Function) -> Symbol:
        """The definition that starts there."""
        return next(s for s in self.symbols(function.file) if s.byte_start == function.byte_start)

    def source(self, function: Function) -> SourceFile:
        """The file of a definition."""
        return self._corpus.files[function.file]

    def named(self, name: str, near: SourceFile | None = None) -> list[Function]:
        """Definitions of a bare name; those of the same file alone where it has one."""
        bare = name.rpartition(".")[2]
        files = self._files_of.get(bare, [])
        if near is not None and near.index in files:
            local = self._in(near.index, bare)
            if local:
                return local
        if len(files) > MAX_DEFINITIONS:
            return []
        found = [f for file in files for f in self._in(file, bare)]
        return found if len(found) <= MAX_DEFINITIONS else []

    def at_line(self, file: int, line: int) -> Function | None:
        """The innermost definition around a line."""
        around = [s for s in self.symbols(file) if s.line_start <= line <= s.line_end]
        inner = max(around, key=lambda s: (s.byte_start, -s.byte_end), default=None)
        return None if inner is None else Function(file, inner.byte_start)

    def calls(self, file: SourceFile) -> Mapping[str, Sequence[int]]:
        """For each name that a file calls the byte offsets of its calls."""
        return self._parser.calls(file)

    def around(self, file: int, offset: int) -> Symbol | None:
        """The innermost definition around a byte offset of a file."""
        inside = [s for s in self.symbols(file) if s.byte_start <= offset < s.byte_end]
        return max(inside, key=lambda s: (s.byte_start, -s.byte_end), default=None)

    def reach(self, start: Function) -> dict[Function, float]:
        """Functions that `start` may call, directly or not, each with the weight of its best path."""
        best: dict[Function, float] = {start: 1.0}
        frontier = [start]
        for _ in range(MAX_DEPTH):
            grown: dict[Function, float] = {}
            for caller in frontier:
                for callee, weight in self.callees(caller):
                    reached = best[caller] * weight * DECAY
                    if reached > LEAST and reached > best.get(callee, 0.0):
                        grown[callee] = max(reached, grown.get(callee, 0.0))
            best.update(grown)
            frontier = sorted(grown)
        del best[start]
        return best

    def callees(self, function: Function) -> tuple[tuple[Function, float], ...]:
        """Definitions whose names the body uses, each with its share of the weight."""
        if function not in self._callees:
            self._callees[function] = tuple(self._resolve(function))
        return self._callees[function]

    def _resolve(self, function: Function) -> Iterable[tuple[Function, float]]:
        symbol, file = self.symbol(function), self.source(function)
        calls = self._parser.calls(file)
        words = set(_WORD.findall(file.content.read(symbol.byte_start, symbol.byte_end)))
        if symbol.kind in _COMMON_KINDS:
            yield from self._members(function, symbol)
            return
        for word in sorted(words):
            name = word.decode()
            targets = self.named(name, file)
            if not targets:
                continue
            called = any(symbol.byte_start <= at < symbol.byte_end for at in calls.get(name, ()))
            weight = (1.0 if called else MENTION) / len(targets)
            yield from ((t, weight) for t in targets if t != function)

    def _members(self, function: Function, owner: Symbol) -> Iterable[tuple[Function, float]]:
        """A class reaches its constructor surely, its operators perhaps; its methods are called by name."""
        for s in self.symbols(function.file):
            if s.parent.rpartition(".")[2] == owner.name and owner.byte_start < s.byte_start < owner.byte_end:
                if s.name in _CONSTRUCTORS or s.name == owner.name:
                    yield Function(function.file, s.byte_start), 1.0
                elif s.name.startswith("__"):
                    yield Function(function.file, s.byte_start), MENTION

    def _in(self, file: int, name: str) -> list[Function]:
        return [Function(file, s.byte_start) for s in self.symbols(file) if s.name == name]


_CONSTRUCTORS = frozenset({"__init__", "__new__", "constructor", "new", "New"})
_LEFT_OUT = frozenset({Trait.VENDORED, Trait.GENERATED, Trait.MINIFIED})
