"""Windows of bounded size over bytes: where to cut, and how a cut becomes a chunk.

A window holds at most `WINDOW_CHARS` characters, the size that the index was measured with (53,000
chunks of about 1.6k characters). Sizes are kept in bytes: a file that isn't ASCII gets a window that is
larger by its bytes per character.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agentloop.chunks import Chunks
from agentloop.types import ChunkType

WINDOW_CHARS = 1600
HUGE_LINE_WINDOWS = 4
"""A line longer than so many windows is split; a shorter one is kept whole."""
_SAMPLE = 4096
_CONTINUATION_BYTES = 3  # a UTF-8 sequence has at most three after its first
_SEPARATORS = b";}, \t"


class Piece(NamedTuple):
    """A span of a file's bytes before lines are counted: `[start, end)`."""

    start: int
    end: int
    type: ChunkType
    name: str


class Text(NamedTuple):
    """A file's bytes, the size of its windows in bytes, and what an empty line looks like in it."""

    data: bytes
    window: int
    blank: bytes

    @classmethod
    def of(cls, data: bytes) -> Text:
        """Judge by the head of the file: a window is larger by its bytes per character."""
        sample = data[:_SAMPLE]
        window = WINDOW_CHARS
        if not sample.isascii():
            window = WINDOW_CHARS * len(sample) // len(sample.decode("utf-8", "replace"))
        return cls(data, window, b"\n\r\n" if b"\r\n" in sample else b"\n\n")


def split_line(data: bytes, start: int, limit: int) -> int:
    """Where to split a huge line: after a separator if one is near, never inside a UTF-8 character."""
    low = max(start + 1, limit - (limit - start) // 8)
    cut = max(data.rfind(mark, low, limit) for mark in _SEPARATORS_LIST)
    if cut >= 0:
        return cut + 1
    cut = limit
    while cut > limit - _CONTINUATION_BYTES and data[cut] & 0xC0 == 0x80:
        cut -= 1
    if data[cut] & 0xC0 == 0x80:  # not UTF-8: any place is as good
        cut = limit
    return cut if cut > start else limit


_SEPARATORS_LIST = tuple(bytes((mark,)) for mark in _SEPARATORS)


def next_cut(text: Text, start: int, end: int) -> int:
    """The end of the window that begins at `start`: a blank line, else a line's end, else inside a line.

    `end` bounds the region; the result lies in `(start, end]`.
    """
    data, window, blank = text
    limit = start + window
    if limit >= end:
        return end
    cut = data.rfind(blank, start + window // 2, limit)
    if cut >= 0:
        return cut + len(blank)
    cut = data.rfind(b"\n", start, limit)
    if cut >= 0:
        return cut + 1
    cut = data.find(b"\n", limit, min(end, start + HUGE_LINE_WINDOWS * window))
    if cut >= 0:
        return cut + 1
    if end - start <= HUGE_LINE_WINDOWS * window:
        return end
    return split_line(data, start, limit)


def split_region(text: Text, start: int, end: int, type_: ChunkType, name: str) -> list[Piece]:
    """Windows over `[start, end)`."""
    pieces = []
    while start < end:
        cut = next_cut(text, start, end)
        pieces.append(Piece(start, cut, type_, name))
        start = cut
    return pieces


def add_pieces(chunks: Chunks, file: int, data: bytes, pieces: Sequence[Piece]) -> None:
    """Add chunks with exact lines, from pieces that follow each other without a gap."""
    if not pieces:
        return
    starts, ends, types, names = zip(*pieces, strict=True)
    spans = []
    line = 1
    count = data.count
    for start, end in zip(starts, ends, strict=True):
        inside = count(b"\n", start, end)
        spans.append((start, end, line, line + inside - (data[end - 1] == 10)))
        line += inside
    chunks.add(file, spans, types, names)
