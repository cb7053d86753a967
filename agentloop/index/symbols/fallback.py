"""Symbols without a parser: the outline's definitions, each up to the next one that isn't inside it."""

from __future__ import annotations

import re
from bisect import bisect_left

from agentloop.chunking.languages import KINDS
from agentloop.chunking.outline import Mark, marks
from agentloop.index.symbols.tree import SIGNATURE_CHARS, comment_above, qualified
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
    open_: list[tuple[str, int]] = []
    for (offset, _, raw, kind), end in zip(found, ends, strict=True):
        while open_ and open_[-1][1] <= offset:
            open_.pop()
        parent = open_[-1][0] if open_ else ""
        name = raw.decode("utf-8", "replace")
        open_.append((qualified(parent, name), end))
        stop = _trimmed(data, offset, end)
        symbols.append(
            Symbol(
                name,
                KINDS.get(kind, kind),
                parent,
                offset,
                stop,
                lines.number(offset),
                lines.number(max(offset, stop - 1)),
                _signature(data, offset, stop),
                comment_above(data, offset),
            )
        )
    return tuple(symbols)


def with_outline(parsed: list[Symbol], outlined: tuple[Symbol, ...]) -> list[Symbol]:
    """Add what only the outline found in a file that the parser read with errors (macros, half-written code).

    An outlined definition is left out where a parsed one of its name covers its line, and where it lies
    inside a parsed function: there the parser knew better.
    """
    named: dict[str, list[Symbol]] = {}
    for symbol in parsed:
        named.setdefault(symbol.name, []).append(symbol)
    inner = [(s.byte_start, s.byte_end) for s in parsed if s.kind in _FUNCTIONS]
    added = []
    at = 0
    reached = 0
    for symbol in outlined:
        while at < len(inner) and inner[at][0] <= symbol.byte_start:
            reached = max(reached, inner[at][1])
            at += 1
        if symbol.byte_start >= reached and not _covered(symbol, named.get(symbol.name, [])):
            added.append(symbol)
    return sorted([*parsed, *added], key=lambda symbol: (symbol.byte_start, -symbol.byte_end))


_FUNCTIONS = frozenset({"function", "method", "constructor"})


def _covered(symbol: Symbol, parsed: list[Symbol]) -> bool:
    """Whether a parsed definition of the same name holds the line on which the outline saw it."""
    return any(known.line_start <= symbol.line_start <= known.line_end for known in parsed)


def _ends(found: list[Mark], size: int) -> list[int]:
    """Where each definition ends at the latest: before the next one that is indented no deeper."""
    ends = [size] * len(found)
    open_: list[int] = []
    for at, mark in enumerate(found):
        while open_ and found[open_[-1]][1] >= mark[1]:
            ends[open_.pop()] = mark[0]
        open_.append(at)
    return ends


def _trimmed(data: bytes, start: int, end: int) -> int:
    """`end` without the white space before it."""
    while end > start:
        low = max(start, end - _TAIL_BYTES)
        kept = low + len(data[low:end].rstrip())
        if kept > low:
            return kept
        end = low
    return end


_TAIL_BYTES = 256


def _signature(data: bytes, start: int, end: int) -> str:
    """The definition's first line."""
    newline = data.find(b"\n", start, min(end, start + 4 * SIGNATURE_CHARS))
    stop = newline if newline >= 0 else min(end, start + 4 * SIGNATURE_CHARS)
    line = data[start:stop].decode("utf-8", "replace")
    text = " ".join(line.split()).rstrip(" :{=")
    return text if len(text) <= SIGNATURE_CHARS else text[: SIGNATURE_CHARS - 1] + "…"
