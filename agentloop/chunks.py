"""Chunks, and how many of them are held: columns of numbers, an object only when one is asked for.

A tree of code has 30,000 chunks and an export of messages 60,000. As objects they would take more memory
than the messages and a good part of the time of a cold request; here one costs 49 bytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import overload

from agentloop.items import Span4
from agentloop.types import Chunk, ChunkType

_TYPES = tuple(ChunkType)
_CODES = {kind: code for code, kind in enumerate(_TYPES)}
_FILE, _NAME, _ITEMS = 0, 5, 6  # places of columns
_NO_ITEMS = (-1, -1, 0, 0)
Items = tuple[int, int, int, int]
"""First and last item of a chunk over derived text, and the characters of their joined text."""
Dump = tuple[int, list[bytes], list[str]]
"""Chunks for another process: how many, their columns, their names."""


class Chunks(Sequence[Chunk]):
    """A sequence of chunks that grows at its end. A slice is a tuple of chunks."""

    __slots__ = ("_columns", "_known", "_names", "_starts", "_type")

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        # file, byte start and end, line start and end, name, item first and last, char start and end
        self._columns = tuple(array(code) for code in "IQQIIIiiII")
        self._type = array("B")
        self._starts = array("Q")  # the first chunk of each run of chunks of one file
        self._names = [""]
        self._known = {"": 0}
        for chunk in chunks:
            self.append(chunk)

    @property
    def files(self) -> array[int]:
        """The file of each chunk."""
        return self._columns[0]

    @property
    def byte_starts(self) -> array[int]:
        """Where each chunk starts in its file."""
        return self._columns[1]

    @property
    def byte_ends(self) -> array[int]:
        """Where each chunk ends in its file."""
        return self._columns[2]

    @property
    def line_starts(self) -> array[int]:
        """The first line of each chunk."""
        return self._columns[3]

    @property
    def line_ends(self) -> array[int]:
        """The last line of each chunk."""
        return self._columns[4]

    def name(self, index: int) -> str:
        """The name of a chunk."""
        return self._names[self._columns[5][index]]

    def items(self, index: int) -> Items:
        """First and last item of a chunk over derived text, and the characters of their joined text."""
        first, last, start, end = self._columns[_ITEMS:]
        return first[index], last[index], start[index], end[index]

    def names(self, rows: range) -> Iterator[str]:
        """The names of a run of chunks, empty for those without one."""
        return map(self._names.__getitem__, self._columns[_NAME][rows.start : rows.stop])

    def named(self) -> Iterator[tuple[int, str]]:
        """The chunks that have a name, in order, and their names."""
        names = self._names
        return ((number, names[name]) for number, name in enumerate(self._columns[5]) if name)

    def of_type(self, type_: ChunkType) -> Iterator[int]:
        """The chunks of a type, in order."""
        types, code = self._type.tobytes(), _CODES[type_]
        at = types.find(code)
        while at >= 0:
            yield at
            at = types.find(code, at + 1)

    def _begin(self, file: int) -> None:
        """Chunks of `file` follow."""
        files = self._columns[_FILE]
        if not files or files[-1] != file:
            self._starts.append(len(files))

    def append(self, chunk: Chunk) -> None:
        """Add a chunk behind the others."""
        file, start, end, first, last, type_, name, *items = chunk
        self._begin(file)
        self._type.append(_CODES[type_])
        row = (file, start, end, first, last, self._number(name), *items)
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def add(
        self,
        file: int,
        spans: Sequence[Span4],
        types: Iterable[ChunkType],
        names: Iterable[str] = (),
        items: Sequence[Items] = (),
    ) -> None:
        """Add chunks of a file: their spans in order, types, and where they have any, names and items."""
        count = len(spans)
        columns = self._columns
        if count:
            self._begin(file)
        columns[_FILE].extend(repeat(file, count))
        for column, values in zip(columns[1:_NAME], zip(*spans, strict=True), strict=False):
            column.extend(values)
        columns[_NAME].extend(map(self._number, names) if names else repeat(0, count))
        rows = items or repeat(_NO_ITEMS, count)
        for column, values in zip(columns[_ITEMS:], zip(*rows, strict=True), strict=False):
            column.extend(values)
        self._type.extend(map(_CODES.__getitem__, types))

    def extend(self, other: Chunks, rows: range, file: int) -> None:
        """Add a run of chunks of another sequence, as chunks of `file`."""
        if rows:
            self._begin(file)
        names = map(self._number, map(other._names.__getitem__, other._columns[5][rows.start : rows.stop]))
        for place, (mine, more) in enumerate(zip(self._columns, other._columns, strict=True)):
            if place == _FILE:
                mine.extend(repeat(file, len(rows)))
            elif place == _NAME:
                mine.extend(names)
            else:
                mine.extend(more[rows.start : rows.stop])
        self._type.extend(other._type[rows.start : rows.stop])

    def replaced(self, anew: Mapping[int, Chunks]) -> Chunks:
        """The same chunks, but those of some files; all are in the order of their files."""
        other, at = Chunks(), 0
        other._names, other._known = list(self._names), dict(self._known)
        for file in sorted(anew):
            files = self._columns[_FILE]
            other._take(self, at, bisect_left(files, file))
            other.extend(anew[file], range(len(anew[file])), file)
            at = bisect_right(files, file)
        other._take(self, at, len(self))
        return other

    def _take(self, other: Chunks, start: int, end: int) -> None:
        """Add chunks of another sequence, whose names have the same numbers here, as they are."""
        moved = len(self) - start
        starts = other._starts
        self._starts.extend(
            at + moved for at in starts[bisect_left(starts, start) : bisect_left(starts, end)]
        )
        for mine, more in zip((*self._columns, self._type), (*other._columns, other._type), strict=True):
            mine.extend(more[start:end])

    def dumped(self) -> Dump:
        """Everything in bytes and strings, for another process on this machine."""
        return len(self), [column.tobytes() for column in (*self._columns, self._type)], self._names

    def add_dumped(self, dump: Dump, file: int) -> None:
        """Add what another sequence `dumped`, as chunks of `file`."""
        count, columns, names = dump
        if count:
            self._begin(file)
        numbers = [self._number(name) for name in names]
        for place, (mine, data) in enumerate(zip((*self._columns, self._type), columns, strict=True)):
            if place == _FILE:
                mine.extend(repeat(file, count))
            elif place == _NAME:
                mine.extend(numbers[name] for name in array("I", data))
            else:
                mine.frombytes(data)

    def copy(self) -> Chunks:
        """The same chunks in a sequence of its own."""
        other = Chunks()
        other._columns = tuple(column[:] for column in self._columns)
        other._type, other._starts = self._type[:], self._starts[:]
        other._names, other._known = list(self._names), dict(self._known)
        return other

    def named_files(self) -> Iterator[int]:
        """The files of which some chunk has a name."""
        names = self._columns[_NAME]
        return (file for file, rows in self.runs() if any(names[rows.start : rows.stop]))

    def without(self, leave_out: Callable[[int], bool]) -> Chunks:
        """The chunks of those files for which `leave_out` is false."""
        other = Chunks()
        for file, rows in self.runs():
            if not leave_out(file):
                other.extend(self, rows, file)
        return other

    def runs(self) -> Iterator[tuple[int, range]]:
        """Each file with the numbers of its chunks, in order; chunks that were added late are runs too."""
        files, starts = self._columns[_FILE], self._starts
        for start, end in pairwise((*starts, len(files))):
            yield files[start], range(start, end)

    def _number(self, name: str) -> int:
        number = self._known.get(name)
        if number is None:
            number = self._known[name] = len(self._names)
            self._names.append(name)
        return number

    def __len__(self) -> int:
        """Number of chunks."""
        return len(self._type)

    @overload
    def __getitem__(self, index: int) -> Chunk: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Chunk, ...]: ...

    def __getitem__(self, index: int | slice) -> Chunk | tuple[Chunk, ...]:
        """A chunk, or a tuple of them.

        Raises:
            IndexError: there is no such chunk.
        """
        if isinstance(index, slice):
            return tuple(map(self.__getitem__, range(*index.indices(len(self)))))
        file, start, end, first, last, name, *items = [column[index] for column in self._columns]
        return Chunk(file, start, end, first, last, _TYPES[self._type[index]], self._names[name], *items)

    def __iter__(self) -> Iterator[Chunk]:
        """The chunks in order."""
        columns = self._columns
        types = map(_TYPES.__getitem__, self._type)
        names = map(self._names.__getitem__, columns[5])
        return map(Chunk, *columns[:5], types, names, *columns[6:])

    def __eq__(self, other: object) -> bool:
        """Whether it holds the same chunks."""
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # it grows
