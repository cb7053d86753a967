"""Where derived text comes from, for formats whose text has no bytes of its own in the file."""

from __future__ import annotations

import struct
import zlib

from agentloop.types import Item

MAX_ANCHOR_LINES = 60  # a ref spans at most 80 lines
MAX_ANCHOR_BYTES = 4096
RUN_LINES = 16
"""Lines an item, of packed text: every item but the last one of a file holds exactly so many."""
PACKED_TEXT = frozenset({"compressed", "text"})
"""Extractors whose text has the lines of the file that was packed."""


LIBRARY_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, OSError,
    RuntimeError, TypeError, ValueError, struct.error, zlib.error,
)  # fmt: skip
"""What a parser of a damaged file may raise: everything but the errors of the process itself."""


class TooMuchError(ValueError):
    """An extraction over its limit: a bomb, or more text than we take."""


def anchor(data: bytes, start: int, end: int, line: int = 0) -> tuple[int, int, int, int]:
    """Byte and line span that stands for an entry: its start, cut to a size that a ref may have.

    Compressed or encoded entries have no lines that a reader could look at; the span names the place of
    the entry, and the hash of the derived text binds what it says. `line` is that of `start`, if known.
    """
    end = min(end, start + MAX_ANCHOR_BYTES, len(data))
    cut = start
    for _ in range(MAX_ANCHOR_LINES):
        cut = data.find(b"\n", cut, end) + 1
        if not cut:
            break
    else:
        end = cut
    first = line or data.count(b"\n", 0, start) + 1
    return start, end, first, first + data.count(b"\n", start, end - 1)


def lines_cut(text: str, lines: int) -> list[str]:
    """`text` in runs of at most `lines` lines, without the ends of the runs."""
    rows = text.split("\n")
    return ["\n".join(rows[at : at + lines]) for at in range(0, len(rows), lines)]


def item(text: str, span: tuple[int, int, int, int], page: int = 0, heading: str = "") -> Item:
    """An item with a span as `anchor` gives it."""
    return Item(text, *span, page=page, heading=heading)
