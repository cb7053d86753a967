"""Chunks of logs: exact spans, whole traces, long lines, and huge logs by what is new in them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop.budget import Ledger
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.errors import Stage, WarningCode
from agentloop.logs.segment import segment
from agentloop.logs.windows import LONG_LINE, WINDOW_BYTES
from agentloop.types import Chunk, ChunkType, Corpus, Derived, Item
from tests.unit.logs_material import log_file

WHOLE = Caps()
STREAMED = Caps(stream_log_bytes=1000)


def chunks_of(data: bytes, caps: Caps = WHOLE) -> list[Chunk]:
    return segment(log_file(data), Ledger(SystemClock()), caps)


def check_spans(data: bytes, chunks: list[Chunk]) -> None:
    for chunk in chunks:
        assert chunk.byte_start < chunk.byte_end
        assert chunk.line_start == data.count(b"\n", 0, chunk.byte_start) + 1
        assert chunk.line_end == data.count(b"\n", 0, chunk.byte_end - 1) + 1


@pytest.mark.req("B9")
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                b"ordinary line",
                b"\tat a.B.c(B.java:1)",
                b"Caused by: x.Y: z",
                b"",
                b"\r",
                b"\xff\xfe\x00",
                "zażółć gęślą".encode(),
                "\u2028".encode(),
                b"x" * 5000,
                "é".encode() * 3000,
                b"Traceback (most recent call last):",
                b'  File "a.py", line 1, in f',
                b"KeyError: 'x'",
            ]
        ),
        max_size=120,
    )
)
def test_windows_cover_a_log_exactly(lines: list[bytes]) -> None:
    data = b"\n".join(lines)
    chunks = chunks_of(data)
    assert b"".join(data[c.byte_start : c.byte_end] for c in chunks) == data
    check_spans(data, chunks)


def test_a_stack_trace_stays_whole() -> None:
    trace = (
        b"java.lang.IllegalStateException: pool closed\n"
        + b"".join(b"\tat app.Pool.take(Pool.java:%d)\n" % n for n in range(60))
        + b"Caused by: java.io.IOException: gone\n\tat app.Net.read(Net.java:9)\n\t... 12 more\n"
    )
    before = b"".join(b"2026-01-01 10:00:00 INFO request %d served in 3 ms\n" % n for n in range(80))
    data = before + trace + before
    found = [c for c in chunks_of(data) if c.type is ChunkType.TRACE]
    assert [data[c.byte_start : c.byte_end] for c in found] == [trace]


def test_a_trace_behind_colours_and_levels_is_found() -> None:
    data = (
        b"2026-08-26 10:02:21 \x1b[33m[WARNING]\x1b[0m \x1b[31mTraceback\x1b[0m (most recent call last):\n"
        b'  \x1b[2mFile "ext/nodes.py", line 17, in <module>\x1b[0m\n'
        b"2026-08-26 10:02:21 \x1b[33m[WARNING]\x1b[0m Mod\x1b[4mule\x1b[0mNotFoundError: tilekit\n"
    )
    assert [(c.line_start, c.line_end) for c in chunks_of(data) if c.type is ChunkType.TRACE] == [(1, 3)]


@pytest.mark.req("B9")
def test_a_long_line_is_split_between_characters() -> None:
    data = b"start\n" + "ż".encode() * 40_000 + b"\nend\n"
    chunks = chunks_of(data)
    check_spans(data, chunks)
    for chunk in chunks:
        data[chunk.byte_start : chunk.byte_end].decode()
        assert chunk.byte_end - chunk.byte_start <= LONG_LINE


@pytest.mark.req("D1")
def test_hostile_lines_cost_no_more_than_others() -> None:
    """Lines on which patterns of frames and prefixes backtrack: each is looked at for a bounded length."""
    hostile = [
        b" " * 100_000 + b"x",
        b"/" * 60_000,
        b"at a.b" * 20_000,
        b"\x1b]" * 50_000,
        b'a="b" ' * 20_000,
    ]
    data = b"\n".join(hostile * 4) + b"\n"
    chunks = chunks_of(data)
    assert b"".join(data[c.byte_start : c.byte_end] for c in chunks) == data


def repetitive(lines: int) -> bytes:
    numbers = random.Random(7)
    return b"".join(
        b"2026-03-01T10:00:00Z INFO worker-%d request id=%016x took %d ms\n"
        % (n % 9, numbers.getrandbits(64), n % 900)
        for n in range(lines)
    )


def test_a_huge_log_is_indexed_by_what_is_new_and_tells_the_rest() -> None:
    odd = b"2026-03-01T10:00:01Z ERROR pool exhausted: 64 of 64\n"
    data = repetitive(60_000) + odd + repetitive(60_000)
    ledger = Ledger(SystemClock())
    chunks = segment(log_file(data), ledger, STREAMED)
    check_spans(data, chunks)
    at = data.index(odd)
    assert any(c.byte_start <= at < c.byte_end for c in chunks)
    kept = sum(data.count(b"\n", c.byte_start, c.byte_end) for c in chunks)
    assert kept < 60_000
    assert ledger.get(Stage.CHUNKING, "log_lines") == 120_001
    assert ledger.get(Stage.CHUNKING, "log_lines_collapsed") == 120_001 - kept
    assert [code for code, _, _ in ledger.warnings] == [WarningCode.INPUT_TRUNCATED]


def test_a_trace_in_a_huge_log_is_one_chunk() -> None:
    trace = b"ERROR boom\n" + b"".join(b"\tat app.Pool.take%d(Pool.java:3)\n" % n for n in range(40))
    data = repetitive(40_000) + trace + repetitive(40_000)
    found = [c for c in segment(log_file(data), Ledger(SystemClock()), STREAMED) if c.type is ChunkType.TRACE]
    assert [data[c.byte_start : c.byte_end] for c in found] == [trace]


def test_derived_text_is_cut_at_its_items() -> None:
    items = tuple(Item(f"line {n} of the member", 0, 50, 1, 1) for n in range(300))
    derived = Derived("gzip", "1", (*items, Item("big\n" * 3000, 0, 50, 1, 1)))
    file = log_file(b"\x1f\x8b" + b"x" * 48, derived=derived)
    chunks = segment(file, Ledger(SystemClock()), Caps())
    corpus = Corpus((), (file,), ())
    texts = [corpus.text(chunk) for chunk in chunks]
    assert "".join(texts).replace("\n", "") == derived.joined(0, 300).replace("\n", "")
    assert max(map(len, texts)) <= WINDOW_BYTES + 40


def test_the_same_bytes_give_the_same_chunks() -> None:
    data = repetitive(30_000)
    assert chunks_of(data, STREAMED) == chunks_of(data, STREAMED)
