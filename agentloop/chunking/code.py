"""Windows over source code, cut where definitions start."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from agentloop.chunking.languages import IMPORT_REGION
from agentloop.chunking.outline import Mark, marks
from agentloop.chunking.windows import Piece, blank_line, next_cut, window_bytes
from agentloop.types import ChunkType

_IMPORT = re.compile(IMPORT_REGION.encode("ascii"))
_IMPORT_BLOCK = re.compile(rb"[^\n]*[({][^)}\n]*\n[^)}]{0,4000}[)}][^\n]*")
_IMPORTS_SHARE = 8
"""An import region smaller than a window divided by this stays with what follows it."""
_EARLIEST = 4
"""A cut at a definition leaves at least a window divided by this."""
_ABOVE_LINES = 40
"""So many lines of comment and decorators above a definition go with it."""
_ABOVE = frozenset(b"@#/*;%-[|'\"")


def code_pieces(data: bytes, language: str) -> list[Piece]:
    """Windows over a file of code; a window's name lists the definitions that start in it."""
    window = window_bytes(data)
    found = marks(data, language)
    end = len(data)
    if 0 < end <= window:
        return [Piece(0, end, ChunkType.WINDOW, _names(found, 0, len(found)))]
    blank = blank_line(data)
    offsets = [mark[0] for mark in found]
    pieces: list[Piece] = []
    start = low = 0
    imports = _imports_end(data, offsets[0] if offsets else window, window)
    while start < end:
        type_ = ChunkType.WINDOW
        if start == 0 and imports:
            cut, type_ = imports, ChunkType.IMPORTS
        elif end - start <= window:
            cut = end
        else:
            cut = _definition_cut(data, found, offsets, start, window, blank)
            cut = cut or next_cut(data, start, end, window, blank)
        high = bisect_left(offsets, cut, low)
        pieces.append(Piece(start, cut, type_, _names(found, low, high)))
        start, low = cut, high
    return pieces


def _definition_cut(
    data: bytes, found: Sequence[Mark], offsets: list[int], start: int, window: int, blank: bytes
) -> int:
    """The start of the last, least indented definition within the window, or 0."""
    low = bisect_left(offsets, start + window // _EARLIEST)
    high = bisect_right(offsets, start + window)
    if low == high:
        return 0
    best = high - 1
    for at in range(high - 2, low - 1, -1):
        if found[at][1] < found[best][1]:
            best = at
    return _with_comment(data, start + window // (2 * _EARLIEST), offsets[best], blank)


def _with_comment(data: bytes, low: int, offset: int, blank: bytes) -> int:
    """Move a cut above the comment and decorators that precede a definition, but not below `low`."""
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


def _imports_end(data: bytes, first: int, window: int) -> int:
    """Where the import region ends, if it is worth a chunk of its own, else 0."""
    limit = min(max(first, 0), 2 * window)
    starts = [match.start() + 1 for match in _IMPORT.finditer(data, 0, limit)]
    if not starts:
        return 0
    at = starts[-1]
    block = _IMPORT_BLOCK.match(data, at, limit)
    end = data.find(b"\n", block.end() if block else at) + 1
    while data[end : end + 1] in (b"\n", b"\r"):
        end += 1
    return end if window // _IMPORTS_SHARE <= end <= window and end < len(data) else 0


def _names(found: Sequence[Mark], low: int, high: int) -> str:
    """The names of the definitions `low..high`, each once, in order."""
    if low == high:
        return ""
    return b" ".join(dict.fromkeys([mark[2] for mark in found[low:high]])).decode("utf-8", "replace")
