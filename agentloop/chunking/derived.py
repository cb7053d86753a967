"""Chunks over derived text: a record a chunk, windows inside long items, short lines packed together."""

from __future__ import annotations

from agentloop.chunking.windows import WINDOW_CHARS
from agentloop.types import Chunk, ChunkType, Derived, FileKind, Item, SourceFile


def derived_chunks(file: SourceFile, derived: Derived) -> list[Chunk]:
    """Chunks over the items of a file.

    Each character of each item lies in exactly one chunk. A record (a turn of a conversation) is a chunk
    of its own, so that a hit names one turn. Items of documents that share a page and a heading are
    packed into windows.
    """
    chunks: list[Chunk] = []
    items = derived.items
    packed = file.kind is not FileKind.RECORDS
    first = 0
    while first < len(items):
        last, size = first, len(items[first].text)
        if packed and size <= WINDOW_CHARS and not items[first].record_id:
            while last + 1 < len(items) and _together(items[first], items[last + 1]):
                grown = size + 1 + len(items[last + 1].text)
                if grown > WINDOW_CHARS:
                    break
                last, size = last + 1, grown
        chunks += _windows(file.index, items, first, last, size, _type(file.kind, items[first]))
        first = last + 1
    return chunks


def _together(one: Item, other: Item) -> bool:
    """Whether two items may share a window."""
    return (one.page, one.heading, one.scope, other.record_id) == (other.page, other.heading, other.scope, "")


def _type(kind: FileKind, item: Item) -> ChunkType:
    """What a chunk over this item is."""
    if kind is FileKind.RECORDS:
        return ChunkType.RECORD
    if item.page:
        return ChunkType.PAGE
    return ChunkType.PARAGRAPH if kind is FileKind.DOCUMENT else ChunkType.WINDOW


def _windows(
    file: int, items: tuple[Item, ...], first: int, last: int, size: int, type_: ChunkType
) -> list[Chunk]:
    """One chunk over the items, or windows over the text of one long item."""
    head, tail = items[first], items[last]
    text = head.text if first == last else ""
    chunks: list[Chunk] = []
    start = 0
    while start < size or not chunks:
        end = size if size - start <= WINDOW_CHARS else _cut(text, start)
        chunks.append(
            Chunk(
                file, head.byte_start, tail.byte_end, head.line_start, tail.line_end, type_, head.heading,
                first, last, start, end,
            )
        )  # fmt: skip
        start = end
    return chunks


def _cut(text: str, start: int) -> int:
    """The end of a window inside a long text: after a paragraph, a line, a sentence or a word."""
    limit = start + WINDOW_CHARS
    for mark in ("\n\n", "\n", ". ", " "):
        cut = text.rfind(mark, start + WINDOW_CHARS // 2, limit)
        if cut >= 0:
            return cut + len(mark)
    return limit
