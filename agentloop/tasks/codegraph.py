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
MAX_DEPTH = 8
DECAY = 0.85  # of the weight with each call
LEAST = 0.02  # reach below this weight is noise
MENTION = 0.5  # weight of a name that is used but not called (a property, a callback, a class)
_NAME = re.compile(r"[A-Za-z_]\w{2,80}")
_WORD = re.compile(rb"[A-Za-z_]\w{2,80}")
CLASSES = frozenset({"class", "struct", "interface", "enum", "trait", "object"})


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
        self._reach: dict[Function, dict[Function, float]] = {}
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
        if start in self._reach:
            return self._reach[start]
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
        self._reach[start] = best
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
        if symbol.kind in CLASSES:
            for method in self.methods(function):
                name = self.symbol(method).name
                if name in _CONSTRUCTORS or name == symbol.name:
                    yield method, 1.0
                elif name.startswith("__"):  # operators: used without being named
                    yield method, MENTION
            bases = self.bases(function)
            yield from ((base, 1.0) for base in bases)
            return
        for word in sorted(words):
            name = word.decode()
            targets = self.named(name, file)
            if not targets:
                continue
            called = any(symbol.byte_start <= at < symbol.byte_end for at in calls.get(name, ()))
            weight = (1.0 if called else MENTION) / len(targets)
            yield from ((t, weight) for t in targets if t != function)

    def methods(self, cls: Function) -> list[Function]:
        """The methods that a class defines itself."""
        owner = self.symbol(cls)
        return [
            Function(cls.file, s.byte_start)
            for s in self.symbols(cls.file)
            if s.parent.rpartition(".")[2] == owner.name and owner.byte_start < s.byte_start < owner.byte_end
        ]

    def bases(self, cls: Function) -> list[Function]:
        """The classes that a class's head names, where each name has one definition."""
        symbol, file = self.symbol(cls), self.source(cls)
        found = []
        for name in dict.fromkeys(_NAME.findall(symbol.signature.replace(symbol.name, "", 1))):
            targets = [t for t in self.named(name, file) if self.symbol(t).kind in CLASSES and t != cls]
            found += targets[:1]
        return found

    def body(self, function: Function) -> dict[Function, float]:
        """What a class's own body names, its methods' bodies included: the fixtures of a test class."""
        symbol, file = self.symbol(function), self.source(function)
        words = set(_WORD.findall(file.content.read(symbol.byte_start, symbol.byte_end)))
        named = {w.decode(): self.named(w.decode(), file) for w in sorted(words)}
        return {t: MENTION / len(targets) for targets in named.values() for t in targets if t != function}

    def _in(self, file: int, name: str) -> list[Function]:
        return [Function(file, s.byte_start) for s in self.symbols(file) if s.name == name]


_CONSTRUCTORS = frozenset({"__init__", "__new__", "constructor", "new", "New"})
_LEFT_OUT = frozenset({Trait.VENDORED, Trait.GENERATED, Trait.MINIFIED})
