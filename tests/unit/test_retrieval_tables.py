"""Tables of a kept corpus: after an edit they are what tables made afresh are."""

from __future__ import annotations

from pathlib import Path

from agentloop.api import compress_sync, make_request
from agentloop.cache.warm import Warm, build
from agentloop.clock import SystemClock
from agentloop.config import Caps, Policy
from agentloop.jobspec import Manifest
from agentloop.retrieval.tables import Tables
from agentloop.rundir import to_bytes
from agentloop.sources import build_manifest
from tests.unit.retrieval_case import write

FILES = {
    "a.py": "def total():\n    return 1\n\n\ndef shared():\n    pass\n",
    "b.py": "class Cart:\n    def shared(self):\n        pass\n",
    "c.md": "# Shared\n\ntotal\n",
}


def kept_of(root: Path, before: Warm | None = None) -> Warm:
    return build(make_request("q", [root]), Caps(), Policy(), SystemClock(), kept=before, lasting=True)


def defined(tables: Tables) -> dict[str, list[int]]:
    return {name: found for name in tables.definitions if (found := tables.defined(name))}


def test_after_edits_definitions_are_those_of_fresh_tables(tmp_path: Path) -> None:
    kept = kept_of(write(tmp_path, FILES))
    assert kept.tables is not None
    assert not kept.tables.prepared
    kept.tables.prepare()
    edits: list[dict[str, str]] = [
        {"a.py": "def added():\n    pass\n\n\n" + FILES["a.py"].replace("shared", "own")},
        {"b.py": "x = 1\n", "a.py": FILES["a.py"]},
        {"b.py": FILES["b.py"], "0.py": "def shared():\n    pass\n"},  # a name came: every number is another
    ]
    for edit in edits:
        kept = kept_of(write(tmp_path, edit), kept)
        assert kept.tables is not None
        assert kept.tables.prepared
        fresh = Tables(kept.corpus, kept.chunks, kept.index)
        assert defined(kept.tables) == defined(fresh)
        assert kept.tables.defined("nothing") == []
    assert kept.tables is not None
    assert [kept.chunks[number].file for number in kept.tables.defined("shared")] == [0, 1, 2]


def test_a_manifest_after_an_edit_is_that_of_the_corpus(tmp_path: Path) -> None:
    kept = kept_of(write(tmp_path, FILES))
    first = Manifest.of(kept.corpus)
    kept = kept_of(write(tmp_path, {"a.py": "def other():\n    pass\n"}), kept)
    assert Manifest.of(kept.corpus, first).data == to_bytes(build_manifest(kept.corpus))


def test_a_baseline_is_no_place_of_an_exact_string(tmp_path: Path) -> None:
    for folder, marker in (("old", "marker_beta_88"), ("new", "marker_alpha_77")):
        write(tmp_path / folder, {"run.log": f"2026-01-01T00:00:00Z INFO start\n{marker} fine\n"})
    found = compress_sync(
        make_request("Where is `marker_beta_88`?", [tmp_path / "new"], baselines=[tmp_path / "old"])
    )
    cited = {ref.input_id for item in found.pack.payload.evidence for ref in item.source_refs}
    assert cited <= {"in1"}
