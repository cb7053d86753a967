"""Chunks over derived text: a record a chunk, windows inside long items, short lines packed together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from agentloop.chunking.windows import WINDOW_CHARS
from agentloop.chunks import Chunks, Items
from agentloop.items import Span4
from agentloop.types import Chunk, ChunkType, Derived, FileKind, Item, SourceFile


def add_derived(chunks: Chunks, file: SourceFile, derived: Derived) -> None:
    """Add chunks over the items of a file.

    Each character of each item lies in exactly one chunk. A record (a turn of a conversation) is a chunk
    of its own, so that a hit names one turn. Items of documents that share a page and a heading are
    packed into windows.
    """
    if file.kind is FileKind.RECORDS:
        _add_records(chunks, file.index, derived)
        return
    items = derived.items
    first = 0
    while first < len(items):
        head = tail = items[first]
        last, size = first, len(head.text)
        if size <= WINDOW_CHARS and not head.record_id:
            while last + 1 < len(items) and _together(head, items[last + 1]):
                grown = size + 1 + derived.size(last + 1)
                if grown > WINDOW_CHARS:
                    break
                last, size = last + 1, grown
            tail = items[last]
        span = (head.byte_start, tail.byte_end, head.line_start, tail.line_end)
        for start, end in _cuts(head.text if first == last else "", size):
            chunks.append(
                Chunk(file.index, *span, _type(file.kind, head), head.heading, first, last, start, end)
            )
        first = last + 1


def _add_records(chunks: Chunks, file: int, derived: Derived) -> None:
    """A chunk a record, windows of a long one. No item is made for it: an export may have 100,000."""
    spans: list[Span4] = []
    items: list[Items] = []
    for number, span in enumerate(derived.spans()):
        size = derived.size(number)
        if size <= WINDOW_CHARS:
            spans.append(span)
            items.append((number, number, 0, size))
            continue
        for start, end in _cuts(derived.joined(number, number), size):
            spans.append(span)
            items.append((number, number, start, end))
    chunks.add(file, spans, repeat(ChunkType.RECORD, len(spans)), items=items)


def _together(one: Item, other: Item) -> bool:
    """Whether two items may share a window."""
    return (one.page, one.heading, one.scope, other.record_id) == (other.page, other.heading, other.scope, "")


def _type(kind: FileKind, item: Item) -> ChunkType:
    """What a chunk over this item is."""
    if item.page:
        return ChunkType.PAGE
    return ChunkType.PARAGRAPH if kind is FileKind.DOCUMENT else ChunkType.WINDOW


def _cuts(text: str, size: int) -> Iterator[tuple[int, int]]:
    """The one window of a text that fits, or windows over a long one."""
    start = 0
    while start < size or not start:
        end = size if size - start <= WINDOW_CHARS else _cut(text, start)
        yield start, end
        if end <= start:
            break
        start = end


def _cut(text: str, start: int) -> int:
    """The end of a window inside a long text: after a paragraph, a line, a sentence or a word."""
    limit = start + WINDOW_CHARS
    for mark in ("\n\n", "\n", ". ", " "):
        cut = text.rfind(mark, start + WINDOW_CHARS // 2, limit)
        if cut >= 0:
            return cut + len(mark)
    return limit
