"""The definitions of a corpus's code, and how they hang together: built on demand, a file is parsed once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agentloop.chunks import Chunks
from agentloop.index.symbols import SymbolParser
from agentloop.types import Corpus, FileKind, SourceFile, Symbol, Trait

MAX_DEFINITIONS = 24  # a name with more definitions says nothing
MAX_BASES = 16
MAX_PARSED_FILES = 200  # that names lead to; what a trace, a change or a suspect names is parsed beyond
MAX_PARSED_BYTES = 4 << 20
_NAME = re.compile(r"[A-Za-z_]\w{1,80}")
CLASSES = frozenset({"class", "struct", "interface", "enum", "trait", "object"})


class Function(NamedTuple):
    """A definition: its file and where it starts. A tuple: sets of them are what the analysis works on."""

    file: int
    byte_start: int


class CodeGraph:
    """Definitions and calls of a corpus's code."""

    def __init__(self, corpus: Corpus, chunks: Chunks, parser: SymbolParser) -> None:
        self._corpus = corpus
        self._parser = parser
        self._files_of: dict[str, list[int]] = {}
        self._symbols: dict[int, tuple[Symbol, ...]] = {}
        self._by_start: dict[Function, Symbol] = {}
        self._around: dict[int, dict[int, Function]] = {}
        self._holders: dict[int, set[Function]] = {}
        self._by_name: dict[int, dict[str, list[Function]]] = {}
        self._named: dict[str, list[Function]] = {}
        self._mro: dict[Function, tuple[Function, ...]] = {}
        self._bytes = 0
        self._skipped: set[int] = set()
        self._reach_cut = False
        self._told = False
        for number, names in chunks.named():
            index = chunks.files[number]
            file = corpus.files[index]
            if file.kind is FileKind.CODE and not file.traits & _LEFT_OUT:
                for name in names.split():
                    owners = self._files_of.setdefault(name.rpartition(".")[2], [])
                    if not owners or owners[-1] != index:
                        owners.append(index)

    def symbols(self, file: int, *, asked: bool = False) -> tuple[Symbol, ...]:
        """The definitions of a file in order of their start; none once the graph has as much as it may.

        Args:
            asked: the file is named by the caller or a trace, and is parsed whatever else was.
        """
        if file not in self._symbols:
            size = self._corpus.files[file].content.size
            full = len(self._symbols) >= MAX_PARSED_FILES or self._bytes + size > MAX_PARSED_BYTES
            if full and not asked:
                self._skipped.add(file)
                return ()
            self._bytes += size
            self._symbols[file] = self._parser.symbols(self._corpus.files[file])
            self._index(file)
        return self._symbols[file]

    def cut_reach(self) -> None:
        """Note that what some tests may run was followed only in part."""
        self._reach_cut = True

    def tell_bounds(self) -> None:
        """Warn once of what the bounds of the analysis left out, if anything."""
        if self._told:
            return
        self._told = bool(self._skipped or self._reach_cut)
        if self._skipped:
            self._parser.bounded(
                f"Static analysis is partial: {len(self._symbols)} files of code were parsed, "
                f"{len(self._skipped)} more that names lead to were not."
            )
        if self._reach_cut:
            self._parser.bounded("Static analysis is partial: calls from tests were followed only in part.")

    def _index(self, file: int) -> None:
        around: dict[int, Function] = {}
        names = self._by_name.setdefault(file, {})
        open_: list[Symbol] = []
        for symbol in sorted(self._symbols[file], key=lambda s: (s.byte_start, -s.byte_end)):
            while open_ and open_[-1].byte_end <= symbol.byte_start:
                open_.pop()
            if open_ and open_[-1].byte_start != symbol.byte_start:
                around[symbol.byte_start] = Function(file, open_[-1].byte_start)
            open_.append(symbol)
            function = Function(file, symbol.byte_start)
            self._by_start.setdefault(function, symbol)
            names.setdefault(symbol.name, []).append(function)
        self._around[file] = around
        self._holders[file] = set(around.values())

    def symbol(self, function: Function) -> Symbol:
        """The definition that starts there."""
        self.symbols(function.file)
        return self._by_start[function]

    def source(self, function: Function) -> SourceFile:
        """The file of a definition."""
        return self._corpus.files[function.file]

    def named(self, name: str, near: SourceFile | None = None) -> list[Function]:
        """Definitions of a bare name; those of the same file alone where it has one."""
        bare = name.rpartition(".")[2]
        files = self._files_of.get(bare, [])
        if near is not None and near.index in files:
            local = self.local(near.index, bare)
            if local:
                return local
        if len(files) > MAX_DEFINITIONS:
            return []
        found = [f for file in files for f in self.local(file, bare)]
        return found if len(found) <= MAX_DEFINITIONS else []

    def at_line(self, file: int, line: int) -> Function | None:
        """The innermost definition around a line."""
        around = [s for s in self.symbols(file, asked=True) if s.line_start <= line <= s.line_end]
        inner = max(around, key=lambda s: (s.byte_start, -s.byte_end), default=None)
        return None if inner is None else Function(file, inner.byte_start)

    def calls(self, file: SourceFile) -> Mapping[str, Sequence[int]]:
        """For each name that a file calls the byte offsets of its calls."""
        return self._parser.calls(file)

    def around(self, file: int, offset: int) -> Symbol | None:
        """The innermost definition around a byte offset of a file."""
        inside = [s for s in self.symbols(file) if s.byte_start <= offset < s.byte_end]
        return max(inside, key=lambda s: (s.byte_start, -s.byte_end), default=None)

    def text(self, function: Function) -> str:
        """The code of a definition."""
        symbol = self.symbol(function)
        return (
            self.source(function).content.read(symbol.byte_start, symbol.byte_end).decode("utf-8", "replace")
        )

    def enclosing(self, function: Function) -> Function | None:
        """The innermost definition around another."""
        self.symbols(function.file)
        return self._around[function.file].get(function.byte_start)

    def inner(self, function: Function) -> bool:
        """Whether other definitions stand directly inside one."""
        self.symbols(function.file)
        return function in self._holders[function.file]

    def owner(self, function: Function) -> Function | None:
        """The class around a definition, if any, however deep in it."""
        around: Function | None = function
        while around is not None and self.symbol(around).kind not in CLASSES:
            around = self.enclosing(around)
        return around

    def top_level(self, name: str, near: SourceFile) -> list[Function]:
        """Definitions of a bare name outside of any other, of the same file alone where it has some."""
        local = [f for f in self.local(near.index, name) if self.enclosing(f) is None]
        if not local and name not in self._named:
            self._named[name] = [f for f in self.everywhere(name) if self.enclosing(f) is None]
        return local or self._named[name]

    def everywhere(self, name: str) -> list[Function]:
        """Every definition of a name: those of the project's own code if it has some."""
        files = self._files_of.get(name, [])
        if len(files) > MAX_DEFINITIONS:
            return []
        own = [f for f in files if not self._corpus.files[f].traits & _ASIDE]
        real = [f for f in own or files if not self._corpus.files[f].path.endswith(STUBS)]
        found = [f for file in real or files for f in self.local(file, name)]
        return found if len(found) <= MAX_DEFINITIONS else []

    def mro(self, cls: Function) -> tuple[Function, ...]:
        """A class and its bases, nearest first."""
        if cls not in self._mro:
            order = [cls]
            for current in order:
                order += [b for b in self.bases(current) if b not in order]
                if len(order) >= MAX_BASES:
                    break
            self._mro[cls] = tuple(order)
        return self._mro[cls]

    def lookup(self, cls: Function, name: str) -> Function | None:
        """What a member's name means for instances of a class, or for what a function made inside itself."""
        for current in self.mro(cls) if self.symbol(cls).kind in CLASSES else (cls,):
            for function in self.local(current.file, name):
                if self.enclosing(function) == current:
                    return function
        return None

    def defines(self, name: str) -> bool:
        """Whether some code of the corpus defines a name."""
        return name in self._files_of

    def methods(self, cls: Function) -> list[Function]:
        """The methods that a class defines itself."""
        owner = self.symbol(cls)
        return [
            Function(cls.file, s.byte_start)
            for s in self.symbols(cls.file)
            if owner.byte_start < s.byte_start < owner.byte_end
            and self.enclosing(Function(cls.file, s.byte_start)) == cls
        ]

    def bases(self, cls: Function) -> list[Function]:
        """The classes that a class's head names, where each name has one definition."""
        symbol, file = self.symbol(cls), self.source(cls)
        found = []
        for name in dict.fromkeys(_NAME.findall(symbol.signature.replace(symbol.name, "", 1))):
            targets = [t for t in self.named(name, file) if self.symbol(t).kind in CLASSES and t != cls]
            found += targets[:1]
        return found

    def local(self, file: int, name: str) -> list[Function]:
        """The definitions of a name in a file."""
        self.symbols(file)
        return self._by_name.get(file, {}).get(name, [])


STUBS = (".pyi", ".d.ts")
_ASIDE = frozenset({Trait.TEST, Trait.EXAMPLE, Trait.DOCS})
_LEFT_OUT = frozenset({Trait.VENDORED, Trait.GENERATED, Trait.MINIFIED})
