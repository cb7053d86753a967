"""Spans of claims are exact for any bytes: every ref re-hashes and its lines are those of its bytes."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentloop.compress.region import chunk_region, place_of
from tests.unit.pack_case import PackCase

PIECES = [
    b"otter", b" sleeps ", b"\n", b"\r\n", b"\r", b"\n\n", b"\xe2\x80\xa8", b"\xef\xbb\xbf",
    b"\xff\xfe\x80", b"# Head\n", b"- item otter\n", b"| a | otter |\n", b"\x0c", b"\xc3\xa9", b"  ",
    b"def otter(x):\n    return x\n", b"The otter sleeps. It wakes.\n", b"otter: 4\n", b"\xe6\xb0\xb4",
    b"\x1b[31mERROR otter\x1b[0m\n", b"x" * 3000,
]  # fmt: skip
NAMES = ["a.md", "a.py", "a.log", "a.yaml", "a.txt", "a.diff", "a.rst", "Makefile"]


@pytest.mark.req("B9")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=60), st.sampled_from(NAMES))
def test_every_ref_holds_for_any_bytes(pieces: list[bytes], name: str) -> None:
    data = b"".join(pieces)
    with tempfile.TemporaryDirectory() as folder:
        case = PackCase(Path(folder), {name: data, "other.md": "nothing here\n"}, "How does the otter sleep?")
        pack = case.pack()
        for item in pack["payload"]["evidence"]:
            assert "\n" not in item["claim"]
            for ref in item["source_refs"]:
                whole = (Path(folder) / ref["path"]).read_bytes()
                a, b = ref["byte_start"], ref["byte_end"]
                assert 0 <= a < b <= len(whole)
                assert ("sha256:" + hashlib.sha256(whole[a:b]).hexdigest()).startswith(ref["chunk_hash"])
                assert ref["line_start"] == whole.count(b"\n", 0, a) + 1
                assert ref["line_end"] == whole.count(b"\n", 0, b - 1) + 1
                assert ref["line_end"] - ref["line_start"] < 80


@pytest.mark.req("B9")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=40), st.data())
def test_a_place_of_any_lines_is_their_text(pieces: list[bytes], draw: st.DataObject) -> None:
    data = b"".join(pieces)
    with tempfile.TemporaryDirectory() as folder:
        case = PackCase(Path(folder), {"a.txt": data, "b.txt": "x\n"}, "otter")
        for chunk in case.chunks:
            file = case.corpus.files[chunk.file]
            region = chunk_region(case.corpus, chunk)
            if file.derived is not None or not region.text.strip():
                continue
            first = draw.draw(st.integers(0, len(region.lines) - 1))
            last = draw.draw(st.integers(first, len(region.lines) - 1))
            place = place_of(case.corpus, region, first, last)
            raw = file.content.read(place.byte_start, place.byte_end)
            assert raw
            assert place.line_end - place.line_start == raw.count(b"\n", 0, len(raw) - 1)


def test_an_utf16_file_is_cited_by_its_own_bytes(tmp_path: Path) -> None:
    data = "first\r\nThe otter sleeps in kelp.\r\nlast\r\n".encode("utf-16-le")
    pack = PackCase(tmp_path, {"a.txt": b"\xff\xfe" + data}, "Where does the otter sleep?").pack()
    ref = pack["payload"]["evidence"][0]["source_refs"][0]
    whole = (tmp_path / "a.txt").read_bytes()
    assert "The otter sleeps in kelp." in whole[ref["byte_start"] : ref["byte_end"] + 1].decode(
        "utf-16-le", "replace"
    )
