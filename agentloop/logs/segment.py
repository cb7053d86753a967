"""Chunks of a log: windows of whole entries, stack traces kept whole.

A log up to `caps.stream_log_bytes` becomes windows that cover it exactly. A larger one is read in
blocks; windows that say nothing new (every line has a template that was seen often enough, and none an
error word) are left out of the index, counted, and told in a warning. Exact strings in them are still
found by a scan of the content.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from agentloop.budget import Ledger
from agentloop.config import Caps
from agentloop.errors import Stage, WarningCode
from agentloop.logs.blocks import Block, blocks
from agentloop.logs.novelty import Novelty
from agentloop.logs.windows import LONG_LINE, WINDOW_BYTES, Window, windows
from agentloop.types import Chunk, ChunkType, Derived, SourceFile

MAX_CHUNKS = 24_000  # of a streamed log: about 35 MB of text, which tantivy indexes in under two seconds
STRETCH_BYTES = 16_384  # around a new line, cut into windows, so that a trace is seen whole
TAIL_BYTES = 2 << 20  # of a streamed log, always indexed: most failures are told at the end


def segment(file: SourceFile, ledger: Ledger, caps: Caps) -> list[Chunk]:
    """Chunks of one log file, in order of their offsets.

    Args:
        file: a file of kind `LOG`; its derived text is cut at item borders where it has one.
        ledger: counts `log_lines`, `log_lines_collapsed` and `log_bytes_collapsed` under CHUNKING.
        caps: `stream_log_bytes` is the size above which repeated windows are left out.
    """
    if file.derived is not None:
        return _derived(file, file.derived)
    if file.content.size <= caps.stream_log_bytes:
        return [chunk for chunk, _ in _whole(file)]
    return _streamed(file, ledger)


def _whole(file: SourceFile) -> Iterator[tuple[Chunk, bytes]]:
    for block in blocks(file.content):
        line = block.line
        for window in windows(block):
            data = block.data[window.start : window.end]
            yield _chunk(file, block.start, window, line, data), data
            line += data.count(b"\n")


def _chunk(file: SourceFile, base: int, window: Window, line: int, data: bytes) -> Chunk:
    ends_inside = not data.endswith(b"\n")
    last = line + data.count(b"\n") - (0 if ends_inside else 1)
    kind = ChunkType.TRACE if window.trace else ChunkType.LOG
    return Chunk(file.index, base + window.start, base + window.end, line, last, kind)


def _streamed(file: SourceFile, ledger: Ledger) -> list[Chunk]:
    """Windows with something new, an error word or a trace, the first and the last ones."""
    novelty = Novelty()
    kept: list[Chunk] = []
    tail_start = file.content.size - TAIL_BYTES
    lines = kept_lines = kept_bytes = 0
    for block in blocks(file.content):
        data = block.data
        fresh = novelty.offsets(data)
        counted, line = 0, block.line
        for start, end in _stretches(data, fresh, tail_start - block.start):
            line += data.count(b"\n", counted, start)
            part = Block(data[start:end], block.start + start, line)
            for window in windows(part):
                piece = part.data[window.start : window.end]
                new = bisect_left(fresh, start + window.end) > bisect_left(fresh, start + window.start)
                late = part.start + window.end > tail_start
                if late or (new and len(kept) < MAX_CHUNKS):
                    kept.append(_chunk(file, part.start, window, line, piece))
                    kept_lines += piece.count(b"\n")
                    kept_bytes += len(piece)
                line += piece.count(b"\n")
            counted = end
        lines += data.count(b"\n")
    skipped_lines, skipped_bytes = lines - kept_lines, file.content.size - kept_bytes
    ledger.add(
        Stage.CHUNKING, log_lines=lines, log_lines_collapsed=skipped_lines, log_bytes_collapsed=skipped_bytes
    )
    if skipped_lines or skipped_bytes:
        ledger.warn(
            WarningCode.INPUT_TRUNCATED,
            f"{file.path}: {skipped_lines} of {lines} lines repeat line templates already indexed and were"
            f" collapsed into them ({skipped_bytes} bytes); exact strings in them are still searched.",
            Stage.CHUNKING,
        )
    return kept


def _stretches(data: bytes, fresh: list[int], tail: int) -> Iterator[tuple[int, int]]:
    """Whole-line spans of a block around its new lines, and what lies behind `tail`, in order, merged."""
    spans = [(at - STRETCH_BYTES, at + STRETCH_BYTES) for at in fresh]
    if tail < len(data):
        spans.append((max(0, tail), len(data)))
    current: tuple[int, int] | None = None
    for low, high in sorted(spans):
        start = data.rfind(b"\n", 0, max(0, low)) + 1
        stop = data.find(b"\n", high) + 1 if high < len(data) else 0
        end = stop or len(data)
        if current is not None and start <= current[1]:
            current = (current[0], max(end, current[1]))
            continue
        if current is not None:
            yield current
        current = (start, end)
    if current is not None:
        yield current


def _derived(file: SourceFile, derived: Derived) -> list[Chunk]:
    """Chunks over derived text: whole items up to the window's size, a larger item cut at its lines."""
    chunks: list[Chunk] = []
    first, size = 0, 0
    for number, item in enumerate(derived.items):
        if size and size + len(item.text) > WINDOW_BYTES:
            chunks.append(_item_chunk(file, derived, first=first, last=number - 1, chars=(0, size - 1)))
            first, size = number, 0
        if len(item.text) > LONG_LINE:
            chunks += [
                _item_chunk(file, derived, first=number, last=number, chars=span) for span in _cuts(item.text)
            ]
            first, size = number + 1, 0
        else:
            size += len(item.text) + 1
    if size:
        chunks.append(
            _item_chunk(file, derived, first=first, last=len(derived.items) - 1, chars=(0, size - 1))
        )
    return chunks


def _cuts(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(text):
        cut = len(text)
        if cut - at > WINDOW_BYTES:
            cut = text.rfind("\n", at, at + WINDOW_BYTES) + 1
            cut = cut if cut > at else at + WINDOW_BYTES
        yield at, cut
        at = cut


def _item_chunk(
    file: SourceFile, derived: Derived, *, first: int, last: int, chars: tuple[int, int]
) -> Chunk:
    start, end = chars
    opening, closing = derived.items[first], derived.items[last]
    text = derived.joined(first, last)[start:end] if last - first < 400 else ""
    kind = ChunkType.TRACE if "\n\tat " in text or "Traceback (most recent" in text else ChunkType.LOG
    return Chunk(
        file.index,
        opening.byte_start,
        closing.byte_end,
        opening.line_start,
        closing.line_end,
        kind,
        first_item=first,
        last_item=last,
        char_start=start,
        char_end=end,
    )
