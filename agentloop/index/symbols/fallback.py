"""Symbols without a parser: the outline's definitions, each up to the next one that isn't inside it."""

from __future__ import annotations

import re
from bisect import bisect_left

from agentloop.chunking.languages import KINDS
from agentloop.chunking.outline import Mark, marks
from agentloop.index.symbols.tree import SIGNATURE_CHARS, comment_above
from agentloop.types import Symbol

_LONG_LINE = 2000
"""A call on a line longer than this (minified code) is cited with its surroundings, not with the line."""
_AROUND = 100


class Lines:
    """Line numbers of byte offsets in one file."""

    def __init__(self, data: bytes) -> None:
        """One pass over the file."""
        self._data = data
        self._ends = [match.start() for match in re.finditer(rb"\n", data)]

    def number(self, offset: int) -> int:
        """The 1-based line that holds a byte."""
        return bisect_left(self._ends, offset) + 1

    def around(self, offset: int) -> tuple[int, int, int]:
        """Start, end and number of the line that holds a byte; only a part of a very long one."""
        at = bisect_left(self._ends, offset)
        start = self._ends[at - 1] + 1 if at else 0
        end = self._ends[at] + 1 if at < len(self._ends) else len(self._data)
        if end - start > _LONG_LINE:
            start, end = max(start, offset - _AROUND), min(end, offset + _AROUND)
            while start < offset and self._data[start] & 0xC0 == 0x80:
                start += 1
            while end < len(self._data) and self._data[end] & 0xC0 == 0x80:
                end += 1
        return start, end, at + 1


def outline_symbols(data: bytes, language: str) -> tuple[Symbol, ...]:
    """Symbols from the regular-expression outline, in order of their start."""
    found = marks(data, language)
    ends = _ends(found, len(data))
    lines = Lines(data)
    symbols = []
    open_: list[tuple[Mark, int]] = []
    for mark, end in zip(found, ends, strict=True):
        while open_ and open_[-1][1] <= mark.offset:
            open_.pop()
        parent = ".".join(outer.name.decode("utf-8", "replace") for outer, _ in open_)
        open_.append((mark, end))
        name = mark.name.decode("utf-8", "replace")
        stop = mark.offset + len(data[mark.offset : end].rstrip())
        symbols.append(
            Symbol(
                name,
                KINDS.get(mark.kind, mark.kind),
                parent,
                mark.offset,
                stop,
                lines.number(mark.offset),
                lines.number(max(mark.offset, stop - 1)),
                _signature(data, mark.offset, stop),
                comment_above(data, mark.offset),
            )
        )
    return tuple(symbols)


def _ends(found: list[Mark], size: int) -> list[int]:
    """Where each definition ends at the latest: before the next one that is indented no deeper."""
    ends = [size] * len(found)
    open_: list[int] = []
    for at, mark in enumerate(found):
        while open_ and found[open_[-1]].indent >= mark.indent:
            ends[open_.pop()] = mark.offset
        open_.append(at)
    return ends


def _signature(data: bytes, start: int, end: int) -> str:
    """The definition's first line."""
    line = data[start : min(end, start + 4 * SIGNATURE_CHARS)].split(b"\n", 1)[0].decode("utf-8", "replace")
    text = " ".join(line.split()).rstrip(" :{=")
    return text if len(text) <= SIGNATURE_CHARS else text[: SIGNATURE_CHARS - 1] + "…"
