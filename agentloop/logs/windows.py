"""Cutting a block of a log into windows of whole entries, with stack traces kept whole.

Works on bytes and looks at no line but those around a cut or a trace, so that it runs at the speed of
`bytes.find`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from agentloop.logs import traces
from agentloop.logs.ansi import strip
from agentloop.logs.blocks import Block, utf8_cut
from agentloop.logs.prefix import without_prefix

WINDOW_BYTES = 1600  # as the structural windows of code: BM25 was measured at about this size
MIN_BYTES = 400  # a cut at an entry's start may make a window this short
TRACE_BYTES = 8000  # a longer trace is cut at a line
LONG_LINE = 4096  # a line up to this stays whole
LOOK_BYTES = 400  # of a line, what a pattern sees when a trace is traced
_NEAR = 4096
_FAR = 65536

SEEDS = (
    b"Traceback",
    b'File "',
    b"\tat ",
    b"   at ",
    b"] at ",
    b"panicked at ",
    b"panic: ",
    b"goroutine ",
    b"\tfrom ",
    b"Caused by: ",
)


@dataclass(frozen=True, slots=True)
class Window:
    """A span of a block: offsets in the block's data, and whether it is a stack trace."""

    start: int
    end: int
    trace: bool = False


def windows(block: Block) -> Iterator[Window]:
    """The block's windows in order; together they cover it exactly."""
    data = block.data
    at = 0
    for start, end in _traces(data):
        begin = start
        if start - at < MIN_BYTES and end - at <= TRACE_BYTES:
            begin = at  # the few lines above a trace tell what led to it
        else:
            yield from (Window(a, b) for a, b in _plain(data, at, start))
        yield from (Window(a, b, trace=True) for a, b in _split(data, begin, end, TRACE_BYTES))
        at = end
    yield from (Window(a, b) for a, b in _plain(data, at, len(data)))


def _traces(data: bytes) -> Iterator[tuple[int, int]]:
    """Byte ranges of the stack traces, in order, not overlapping."""
    upcoming = [data.find(seed) for seed in SEEDS]
    done = 0
    while True:
        for number, found in enumerate(upcoming):
            if 0 <= found < done:
                upcoming[number] = data.find(SEEDS[number], done)
        live = [found for found in upcoming if found >= 0]
        if not live:
            return
        seed = min(live)
        line_start = data.rfind(b"\n", 0, seed) + 1
        span = _grow(data, line_start, done) if seed - line_start < LOOK_BYTES else None
        if span is None:
            end = data.find(b"\n", seed)
            done = len(data) if end < 0 else end + 1
            continue
        yield span
        done = span[1]


def _grow(data: bytes, line_start: int, floor: int) -> tuple[int, int] | None:
    """The trace around the line at `line_start`, or None where it was prose with a seed's words."""
    top = max(floor, data.rfind(b"\n", 0, max(floor, line_start - _NEAR)) + 1)
    for reach in (_NEAR, _FAR):
        bottom = data.rfind(b"\n", line_start, line_start + reach) + 1 or min(len(data), line_start + reach)
        raw = data[top:bottom].split(b"\n")
        lines = [_clean(line) for line in raw]
        offsets = [top]
        for line in raw:
            offsets.append(offsets[-1] + len(line) + 1)
        offsets[-1] = bottom
        seed = bisect_left(offsets, line_start)
        if not (traces.FRAME.match(lines[seed]) or traces.JOINT.match(lines[seed])):
            return None
        first, last = traces.grow(lines, seed)
        if last < len(lines) - 2 or bottom >= len(data):
            break
    last = min(last, len(lines) - 1)
    return None if last - first < 1 else (offsets[first], offsets[last + 1])


def _clean(line: bytes) -> str:
    return without_prefix(strip(line[:LOOK_BYTES].decode("utf-8", "replace").rstrip("\r")))


def _plain(data: bytes, at: int, stop: int) -> Iterator[tuple[int, int]]:
    """Windows of whole entries: a cut moves back to a line that does not continue the one before it."""
    while at < stop:
        if stop - at <= WINDOW_BYTES:
            yield at, stop
            return
        cut = data.rfind(b"\n", at, at + WINDOW_BYTES) + 1
        cut = _cut_long_line(data, at, stop) if cut <= at else _entry_start(data, at, cut)
        yield at, cut
        at = cut


def _entry_start(data: bytes, at: int, cut: int) -> int:
    """The last cut at or before `cut` whose next line is not indented, if the window stays long enough."""
    back = cut
    while back - at >= MIN_BYTES:
        if data[back : back + 1] not in (b" ", b"\t", b"\n", b"\r"):
            return back
        back = data.rfind(b"\n", at, back - 1) + 1
    return cut


def _cut_long_line(data: bytes, at: int, stop: int) -> int:
    end = data.find(b"\n", at, min(stop, at + LONG_LINE)) + 1
    return end if end > at else utf8_cut(data, min(stop, at + WINDOW_BYTES))


def _split(data: bytes, at: int, stop: int, limit: int) -> Iterator[tuple[int, int]]:
    """A trace, whole where it fits the bound, else cut at lines."""
    while stop - at > limit:
        cut = data.rfind(b"\n", at, at + limit) + 1
        if cut <= at:
            cut = utf8_cut(data, at + limit)
        yield at, cut
        at = cut
    if at < stop:
        yield at, stop
