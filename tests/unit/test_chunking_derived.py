"""Chunks over text that an extractor made: records, pages, lines of UTF-16."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop.budget import Ledger
from agentloop.chunking import chunk_corpus
from agentloop.chunking.windows import WINDOW_CHARS
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.types import Chunk, ChunkType, Derived, FileKind, Item
from tests.unit.chunking_files import corpus, source_file


def chunks_of(items: list[Item], kind: FileKind) -> list[tuple[Chunk, str]]:
    """The chunks over these items with their texts."""
    file = source_file(b"x" * 100_000, kind, derived=Derived("test", "1", tuple(items)))
    found = corpus(file)
    return [(chunk, found.text(chunk)) for chunk in chunk_corpus(found, Ledger(SystemClock()), Caps())]


def items_of(texts: list[str], **fields: str | int) -> list[Item]:
    """Items of ten bytes and one line each."""
    return [Item(text, at * 10, at * 10 + 10, at + 1, at + 1, **fields) for at, text in enumerate(texts)]  # type: ignore[arg-type]


def check(items: list[Item], chunks: list[tuple[Chunk, str]]) -> None:
    """Every character of every item lies in exactly one chunk; spans are those of the enclosing items."""
    at, inside = 0, 0
    for chunk, text in chunks:
        first, last = items[chunk.first_item], items[chunk.last_item]
        assert (chunk.first_item, chunk.char_start) == (at, inside)
        assert (chunk.byte_start, chunk.byte_end) == (first.byte_start, last.byte_end)
        assert (chunk.line_start, chunk.line_end) == (first.line_start, last.line_end)
        joined = "\n".join(item.text for item in items[chunk.first_item : chunk.last_item + 1])
        assert text == joined[chunk.char_start : chunk.char_end]
        assert len(text) <= WINDOW_CHARS
        ended = chunk.char_end == len(joined)
        at, inside = (chunk.last_item + 1, 0) if ended else (at, chunk.char_end)
    assert (at, inside) == (len(items), 0)


TEXTS = st.lists(st.one_of(st.text(max_size=30), st.just("word. " * 700), st.just("x" * 4000)), max_size=12)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(texts=TEXTS)
def test_every_character_is_in_one_chunk(texts: list[str]) -> None:
    for kind in (FileKind.RECORDS, FileKind.DOCUMENT, FileKind.TEXT, FileKind.CODE):
        items = items_of(texts)
        check(items, chunks_of(items, kind))


def test_a_record_is_a_chunk() -> None:
    items = items_of(["Hello.", "", "Bye. " * 1000], record_id="m")
    found = chunks_of(items, FileKind.RECORDS)
    assert {chunk.type for chunk, _ in found} == {ChunkType.RECORD}
    assert [(chunk.first_item, chunk.last_item) for chunk, _ in found][:3] == [(0, 0), (1, 1), (2, 2)]
    assert len(found) == 2 + 4


def test_lines_are_packed_but_not_over_pages_or_headings() -> None:
    lines = items_of(["line"] * 1000)
    assert len(chunks_of(lines, FileKind.TEXT)) == 4
    pages = [*items_of(["a", "b"], page=1), *items_of(["c"], page=2)]
    assert [(text, chunk.type) for chunk, text in chunks_of(pages, FileKind.DOCUMENT)] == [
        ("a\nb", ChunkType.PAGE),
        ("c", ChunkType.PAGE),
    ]
    parts = [*items_of(["a"], heading="One"), *items_of(["b", "c"], heading="Two")]
    assert [(text, chunk.name) for chunk, text in chunks_of(parts, FileKind.DOCUMENT)] == [
        ("a", "One"),
        ("b\nc", "Two"),
    ]


def test_a_long_page_is_cut_after_sentences() -> None:
    found = chunks_of(items_of(["This is a sentence. " * 500], page=3), FileKind.DOCUMENT)
    assert all(text.endswith(". ") for _, text in found)


def test_no_items_no_chunks() -> None:
    assert chunks_of([], FileKind.RECORDS) == []
