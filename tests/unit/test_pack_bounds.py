"""Places that are too long, derived from archives, or out of scale never make a pack fail."""

from __future__ import annotations

import gzip
import random
from dataclasses import replace
from pathlib import Path

import pytest

from agentloop.compress.claims import chunk_place
from agentloop.types import Draft, Place
from tests.unit.pack_case import PackCase


def test_a_place_of_many_lines_is_cut_to_eighty(tmp_path: Path) -> None:
    case = PackCase(tmp_path, {"a.txt": "otter\n" * 300}, "otter")
    place = Place(0, 0, 6 * 300, 1, 300)
    built = case.build([Draft("note", "Otters.", (place,), 1.0, 0.5)])
    case.verify(built)
    ref = built.released["payload"]["evidence"][0]["source_refs"][0]
    assert (ref["line_start"], ref["line_end"]) == (1, 80)


@pytest.mark.parametrize(("relevance", "confidence"), [(1.7, -0.2), (-3.0, 9.0)])
def test_scores_out_of_scale_are_brought_into_it(tmp_path: Path, relevance: float, confidence: float) -> None:
    case = PackCase(tmp_path, {"a.txt": "otter\n"}, "otter")
    drafts = [replace(case.drafts[0], relevance=relevance, confidence=confidence)]
    built = case.build(drafts)
    case.verify(built)
    item = built.released["payload"]["evidence"][0]
    assert 0 <= item["relevance"] <= 1
    assert 0 <= item["confidence"] <= 1


def test_an_archive_of_many_line_feeds_is_cited(tmp_path: Path) -> None:
    """Lines of a compressed file mean nothing, and there may be thousands of them."""
    rng = random.Random(4)
    rows = [f"{rng.random()} row {rng.getrandbits(200):x} quiet" for _ in range(4000)]
    rows[2000] = "ERROR the otter pump failed with code 77"
    data = gzip.compress(("\n".join(rows) + "\n").encode(), mtime=0)
    assert data.count(b"\n") > 200
    case = PackCase(tmp_path, {"pump.log.gz": data}, "Why did the otter pump fail?")
    pack = case.pack()
    item = pack["payload"]["evidence"][0]
    assert "code 77" in item["claim"]
    assert item["source_refs"][0]["derived"]["char_end"] > item["source_refs"][0]["derived"]["char_start"]


def test_a_whole_chunk_is_a_valid_place(tmp_path: Path) -> None:
    case = PackCase(tmp_path, {"a.txt": "".join(f"o{n}\n" for n in range(900)) + "otter\n"}, "otter")
    drafts = [Draft("note", f"Chunk {n}.", (chunk_place(c),), 1.0, 0.5) for n, c in enumerate(case.chunks)]
    case.verify(case.build(drafts))
