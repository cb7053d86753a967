"""Items of derived text, and how many of them are held: columns and blocks of text, not an object each.

An export has tens of thousands of messages. As objects they would take more memory than their text; here
an item costs 44 bytes beside its text, and the text of full blocks is held compressed (zstd, level 1:
about half its size, 0.1 s for the 20 million characters of the cap). Items are made when asked for.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import overload

BLOCK_CHARS = 1 << 16
"""Text is compressed in blocks of about this size; one lookup decompresses one block."""
_RECENT = 8  # decompressed blocks that are kept: neighbours are asked for together


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of derived text (a message, a page, a line of UTF-16) and the original bytes around it."""

    text: str
    byte_start: int
    byte_end: int
    line_start: int
    line_end: int
    record_id: str = ""
    scope: str = ""
    timestamp: str = ""
    speaker: str = ""
    page: int = 0
    heading: str = ""


Span4 = tuple[int, int, int, int]
"""Bytes `[start, end)`, first and last line."""
Group = tuple[str, str, int, str]
"""Scope, speaker, page, heading: the same for many items."""


class PackedItems(Sequence[Item]):
    """A sequence of items. Append first, then read; slices are tuples of items."""

    __slots__ = (
        "_at", "_begins", "_blocks", "_columns", "_firsts", "_group", "_groups", "_id_end", "_known", "_open",
        "_open_chars", "_recent", "_text_end", "chars",
    )  # fmt: skip

    def __init__(self, items: Iterable[Item] = ()) -> None:
        # bytes start, bytes end, first line, last line
        self._columns = (array("Q"), array("Q"), array("I"), array("I"))
        # text, id and time of an item lie behind each other in its block; these are their ends in it
        self._begins, self._text_end, self._id_end = array("I"), array("I"), array("I")
        self._group = array("I")
        self._groups: list[Group] = []
        self._known: dict[Group, int] = {}
        self._blocks: list[bytes] = []  # compressed
        self._firsts: list[int] = []  # the first item of each block
        self._open: list[str] = []  # the last block's parts while it grows
        self._open_chars = 0
        self._recent: tuple[tuple[int, str], ...] = ()
        self._at = (0, 0, "")  # the block that was read last: its first item, the one behind it, its text
        self.chars = 0  # of text in all items
        for item in items:
            self.append(item)

    def append(self, item: Item) -> None:
        """Add an item behind the others."""
        self.add(
            item.text, (item.byte_start, item.byte_end, item.line_start, item.line_end), item.record_id,
            item.timestamp, (item.scope, item.speaker, item.page, item.heading),
        )  # fmt: skip

    def add(self, text: str, span: Span4, record_id: str, timestamp: str, group: Group) -> None:
        """Add an item by its parts: the same as `append`, without the object."""
        if self._open_chars >= BLOCK_CHARS:
            self._close()
        if not self._open:
            self._firsts.append(len(self._begins))
        starts, ends, firsts, lasts = self._columns
        start, end, first, last = span
        starts.append(start)
        ends.append(end)
        firsts.append(first)
        lasts.append(last)
        size, at = len(text), self._open_chars
        self.chars += size
        self._begins.append(at)
        at += size
        self._text_end.append(at)
        at += len(record_id)
        self._id_end.append(at)
        self._open_chars = at + len(timestamp)
        self._open += (text, record_id, timestamp)
        number = self._known.get(group)
        self._group.append(self._number(group) if number is None else number)

    def extend(self, other: PackedItems) -> None:
        """Add all items of another sequence; its blocks of text are shared, not made again."""
        if self._open:
            self._close()
        base = len(self)
        for mine, more in zip(self._columns, other._columns, strict=True):
            mine.extend(more)
        self._begins.extend(other._begins)
        self._text_end.extend(other._text_end)
        self._id_end.extend(other._id_end)
        self._firsts += [base + first for first in other._firsts]
        self._blocks += other._blocks
        self._open, self._open_chars = list(other._open), other._open_chars
        numbers = [self._number(group) for group in other._groups]
        self._group.extend(numbers[number] for number in other._group)
        self._recent, self._at = (), (0, 0, "")
        self.chars += other.chars

    def regrouped(self, told: Callable[[Group], Group]) -> PackedItems:
        """The same items with other scopes, speakers, pages or headings; text and spans are shared."""
        other = copy(self)
        other._groups = [told(group) for group in self._groups]
        other._known = {}  # nothing is appended to a sequence that was read
        return other

    def _number(self, group: Group) -> int:
        number = self._known.get(group)
        if number is None:
            number = self._known[group] = len(self._groups)
            self._groups.append(group)
        return number

    def _close(self) -> None:
        """Compress the block that grew; the next item begins another."""
        import zstandard

        data = "".join(self._open).encode("utf-8", "surrogatepass")
        packed = zstandard.ZstdCompressor(level=1).compress(data)
        self._blocks.append(bytes(memoryview(packed)))  # what it returns keeps the room of the worst case
        self._open, self._open_chars = [], 0

    def _block(self, number: int) -> str:
        """The text, ids and times of a block, one behind the other."""
        for known, text in self._recent:
            if known == number:
                return text
        if number == len(self._blocks):
            if len(self._open) > 1:
                self._open = ["".join(self._open)]
            return self._open[0]
        import zstandard

        data = zstandard.ZstdDecompressor().decompress(self._blocks[number])
        text = data.decode("utf-8", "surrogatepass")
        self._recent = ((number, text), *self._recent[: _RECENT - 1])
        return text

    def _block_of(self, index: int) -> tuple[str, int]:
        """The block of an item, and where the next item begins in it."""
        number = bisect_right(self._firsts, index) - 1
        block = self._block(number)
        following = index + 1
        last = self._firsts[number + 1] if number + 1 < len(self._firsts) else len(self._begins)
        return block, self._begins[following] if following < last else len(block)

    def __len__(self) -> int:
        """Number of items."""
        return len(self._begins)

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...

    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        """An item, or a tuple of them.

        Raises:
            IndexError: there is no such item.
        """
        if isinstance(index, slice):
            return tuple(self._item(n) for n in range(*index.indices(len(self))))
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        return self._item(at)

    def __iter__(self) -> Iterator[Item]:
        """The items in order."""
        return map(self._item, range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Whether it holds the same items."""
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # it grows

    def _item(self, index: int) -> Item:
        block, end = self._block_of(index)
        text_end, id_end = self._text_end[index], self._id_end[index]
        bytes_start, bytes_end, lines_start, lines_end = self._columns
        scope, speaker, page, heading = self._groups[self._group[index]]
        return Item(
            block[self._begins[index] : text_end], bytes_start[index], bytes_end[index], lines_start[index],
            lines_end[index], block[text_end:id_end], scope, block[id_end:end], speaker, page, heading,
        )  # fmt: skip

    def text(self, index: int) -> str:
        """The text of an item."""
        first, behind, block = self._at
        if not first <= index < behind:
            number = bisect_right(self._firsts, index) - 1
            behind = self._firsts[number + 1] if number + 1 < len(self._firsts) else len(self._begins)
            block = self._block(number)
            self._at = (self._firsts[number], behind, block)
        return block[self._begins[index] : self._text_end[index]]

    def size(self, index: int) -> int:
        """Number of characters of an item's text; nothing is decompressed for it."""
        return self._text_end[index] - self._begins[index]

    def spans(self) -> Iterator[Span4]:
        """Bytes `[start, end)`, first and last line of each item in order."""
        return zip(*self._columns, strict=True)
