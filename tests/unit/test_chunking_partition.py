"""Every byte of a file lies in exactly one chunk, and lines are counted by line feeds alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop.budget import Ledger
from agentloop.chunking import chunk_corpus
from agentloop.chunking.windows import HUGE_LINE_WINDOWS, WINDOW_CHARS
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.types import Chunk, FileKind
from tests.unit.chunking_files import corpus, source_file

KINDS = [
    (FileKind.CODE, "python"),
    (FileKind.CODE, "cpp"),
    (FileKind.CODE, "javascript"),
    (FileKind.CODE, "brainfuck"),
    (FileKind.PROSE, "markdown"),
    (FileKind.PROSE, "rst"),
    (FileKind.PROSE, "latex"),
    (FileKind.TEXT, ""),
    (FileKind.DIFF, "diff"),
    (FileKind.DATA, "json"),
    (FileKind.DATA, "yaml"),
    (FileKind.DATA, "csv"),
    (FileKind.LOG, "log"),
]

PARTS = st.sampled_from(
    [
        b"\n", b"\r\n", b"\r", b"\n\n", b"\xe2\x80\xa8", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3",
        "ż".encode(), "漢字".encode() * 60, b"def f(x):\n    return x\n", b"class A:\n", b"@dec\n",
        b"# Title\n",
        b"## B\n\n",
        b"Title\n=====\n", b"=====\nTitle\n=====\n", b".. _label:\n\n", b"```\n", b"| a | b |\n" * 4,
        b"+--+\n|  |\n+--+\n", b"==  ==\na   b\n==  ==\n", b"diff --git a/x b/x\n",
        b"--- a/x\n+++ b/x\n",
        b"@@ -1,2 +1,3 @@ f\n", b'"key": 1,\n', b"key:\n", b"[section]\n", b"import os\n",
        b"#include <a.h>\n",
        b"int f(int a) {\n}\n", b"x" * 700, b"word " * 200, b"a;" * 4000, b"\n" * 900, b"---\n",
        b"from a import (\n",
        b"2024-01-01 00:00:00 ERROR x\n", b"Traceback (most recent call last):\n",
        b"  File \"a.py\", line 1\n",
    ]
)  # fmt: skip
FILES = st.one_of(st.binary(max_size=400), st.lists(PARTS, max_size=40).map(b"".join))


def chunks_of(data: bytes, kind: FileKind, language: str) -> list[Chunk]:
    """The chunks of one file."""
    return chunk_corpus(corpus(source_file(data, kind, language)), Ledger(SystemClock()), Caps())


def check(data: bytes, chunks: list[Chunk]) -> None:
    """The chunks follow each other without gap or overlap, and their lines are right."""
    assert b"".join(data[c.byte_start : c.byte_end] for c in chunks) == data
    at = 0
    for chunk in chunks:
        assert chunk.byte_start == at < chunk.byte_end
        assert chunk.line_start == data.count(b"\n", 0, chunk.byte_start) + 1
        assert chunk.line_end == data.count(b"\n", 0, chunk.byte_end - 1) + 1
        at = chunk.byte_end
    assert at == len(data)


@pytest.mark.req("B9")
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=FILES)
@pytest.mark.parametrize(("kind", "language"), KINDS)
def test_chunks_partition_the_file(kind: FileKind, language: str, data: bytes) -> None:
    check(data, chunks_of(data, kind, language))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=FILES)
@pytest.mark.parametrize(("kind", "language"), KINDS[:-1])
def test_chunks_are_bounded(kind: FileKind, language: str, data: bytes) -> None:
    """No chunk is larger than the longest line that stays whole, or a whole table."""
    for chunk in chunks_of(data, kind, language):
        text = data[chunk.byte_start : chunk.byte_end]
        bound = (
            max(len(text) / max(1, len(text.decode("utf-8", "replace"))), 1)
            * HUGE_LINE_WINDOWS
            * WINDOW_CHARS
        )
        assert len(text) <= 3 * bound


@pytest.mark.req("B9")
@pytest.mark.parametrize(("kind", "language"), KINDS)
def test_a_huge_line_is_split_between_characters(kind: FileKind, language: str) -> None:
    """Every piece of a valid UTF-8 line is valid UTF-8: no character is cut."""
    data = ("żółć" * 40_000).encode()
    chunks = chunks_of(data, kind, language)
    check(data, chunks)
    assert len(chunks) > 50
    for chunk in chunks:
        data[chunk.byte_start : chunk.byte_end].decode("utf-8")
        assert (chunk.line_start, chunk.line_end) == (1, 1)


@pytest.mark.req("B9")
def test_fifty_megabytes_in_one_line() -> None:
    data = b"var a=" + b"f(1,2);" * 7_150_000
    chunks = chunks_of(data, FileKind.CODE, "javascript")
    check_huge(data, chunks)


def check_huge(data: bytes, chunks: list[Chunk]) -> None:
    """`check` without its quadratic counts."""
    at = 0
    for chunk in chunks:
        assert chunk.byte_start == at
        assert (chunk.line_start, chunk.line_end) == (1, 1)
        at = chunk.byte_end
    assert at == len(data)


def test_lines_stay_whole_unless_huge() -> None:
    """A line is cut only where it is longer than several windows."""
    data = b"".join(b"%d " % i + b"x" * (i % 3000) + b"\n" for i in range(400))
    for kind, language in KINDS:
        for chunk in chunks_of(data, kind, language):
            assert data[chunk.byte_end - 1 : chunk.byte_end] == b"\n"


def test_an_empty_file_has_no_chunk() -> None:
    for kind, language in KINDS:
        assert chunks_of(b"", kind, language) == []


def test_files_keep_their_order_and_the_ledger_counts() -> None:
    files = [source_file(b"a = 1\n" * n, FileKind.CODE, "python", index=i) for i, n in enumerate([1, 900, 2])]
    ledger = Ledger(SystemClock())
    chunks = chunk_corpus(corpus(*files), ledger, Caps())
    assert [c.file for c in chunks] == sorted(c.file for c in chunks)
    assert ledger.counters["chunking"] == {
        "files": 3,
        "bytes": sum(f.size for f in files),
        "chunks": len(chunks),
    }
