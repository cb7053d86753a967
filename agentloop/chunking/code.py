"""Windows over source code, cut where definitions start."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from agentloop.chunking.languages import IMPORT_REGION
from agentloop.chunking.outline import Mark, marks
from agentloop.chunking.windows import Piece, Text, next_cut
from agentloop.types import ChunkType

_IMPORT = re.compile(IMPORT_REGION.encode("ascii"))
_IMPORT_BLOCK = re.compile(rb"[^\n]*[({][^)}\n]*\n[^)}]{0,4000}[)}][^\n]*")
_IMPORTS_SHARE = 8
"""An import region smaller than a window divided by this stays with what follows it."""
_EARLIEST = 4
"""A cut at a definition leaves at least a window divided by this."""
_NAME_BYTES = 600
"""Names of a window beyond so many bytes are left out."""
_ABOVE_LINES = 40
"""So many lines of comment and decorators above a definition go with it."""
_ABOVE = frozenset(b"@#/*;%-[|'\"")


def code_pieces(data: bytes, language: str) -> list[Piece]:
    """Windows over a file of code; a window's name lists the definitions that start in it."""
    text = Text.of(data)
    found = marks(data, language)
    imports = 0
    if len(data) > text.window:
        imports = _imports_end(text, found[0][0] if found else text.window)
    head = (
        [Piece(0, imports, ChunkType.IMPORTS, _names(found[: bisect_left(found, (imports,))]))]
        if imports
        else []
    )
    return head + marked_pieces(text, imports, found)


def marked_pieces(text: Text, start: int, found: Sequence[Mark]) -> list[Piece]:
    """Windows from `start` on, cut before marks (definitions, keys) where there are any near.

    A window's name lists the marks that start in it.
    """
    end = len(text.data)
    offsets = [mark[0] for mark in found]
    low = bisect_left(offsets, start)
    pieces = []
    while start < end:
        cut = end
        if end - start > text.window:
            cut = _mark_cut(text, found, offsets, start) or next_cut(text, start, end)
        high = bisect_left(offsets, cut, low)
        pieces.append(Piece(start, cut, ChunkType.WINDOW, _names(found[low:high])))
        start, low = cut, high
    return pieces


def _mark_cut(text: Text, found: Sequence[Mark], offsets: list[int], start: int) -> int:
    """The start of the last, least indented mark within the window, or 0."""
    low = bisect_left(offsets, start + text.window // _EARLIEST)
    high = bisect_right(offsets, start + text.window)
    if low == high:
        return 0
    best = high - 1
    for at in range(high - 2, low - 1, -1):
        if found[at][1] < found[best][1]:
            best = at
    return _with_comment(text, start + text.window // (2 * _EARLIEST), offsets[best])


def _with_comment(text: Text, low: int, offset: int) -> int:
    """Move a cut above the comment and decorators that precede a definition, but not below `low`."""
    data, _, blank = text
    gap = data.rfind(blank, low, offset)
    if gap >= 0:
        top = gap + len(blank)
        if top < offset and data[top:offset].lstrip()[:1] in _ABOVE_STARTS:
            return top
    for _ in range(_ABOVE_LINES):
        line = data.rfind(b"\n", low, offset - 1) + 1
        if line <= low or data[line:offset].lstrip()[:1] not in _ABOVE_STARTS:
            break
        offset = line
    return offset


_ABOVE_STARTS = frozenset(bytes((byte,)) for byte in _ABOVE)


def _imports_end(text: Text, first: int) -> int:
    """Where the import region ends, if it is worth a chunk of its own, else 0."""
    data, window, _ = text
    limit = min(first, 2 * window)
    starts = [match.start() + 1 for match in _IMPORT.finditer(data, 0, limit)]
    if not starts:
        return 0
    at = starts[-1]
    block = _IMPORT_BLOCK.match(data, at, limit)
    end = data.find(b"\n", block.end() if block else at) + 1
    while data[end : end + 1] in (b"\n", b"\r"):
        end += 1
    return end if window // _IMPORTS_SHARE <= end <= window and end < len(data) else 0


def _names(found: Sequence[Mark]) -> str:
    """The names of definitions, each once, in order; at most `_NAME_BYTES` of them."""
    if not found:
        return ""
    joined = b" ".join(dict.fromkeys([mark[2] for mark in found]))
    if len(joined) > _NAME_BYTES:
        joined = joined[: joined.rfind(b" ", 0, _NAME_BYTES) + 1 or _NAME_BYTES].rstrip()
    return joined.decode("utf-8", "replace")
