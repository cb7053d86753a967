"""An index that is filled while chunks are made is the index that is built of all of them."""

from __future__ import annotations

from pathlib import Path

from agentloop import compress_sync, make_request
from agentloop.budget import Ledger
from agentloop.chunking import chunk_corpus
from agentloop.clock import SystemClock
from agentloop.config import Caps, Policy
from agentloop.index.build import IndexBuild
from agentloop.index.lexical import FieldWeights, LexicalIndex, Term
from agentloop.sources import discover

FILES = {"a/one.py": "def bound(x):\n    return x\n", "b.md": "# Bounds\n\ntext\n", "c/two.py": "bound(1)\n"}


def test_filled_meanwhile_or_at_once_is_the_same(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    ledger, build = Ledger(SystemClock()), IndexBuild()
    corpus = discover(make_request("bound?", [tmp_path]), Caps(), Policy(), ledger)
    chunks = chunk_corpus(corpus, ledger, Caps(), build.add)
    meanwhile, at_once = LexicalIndex(corpus, chunks, begun=build), LexicalIndex(corpus, chunks)
    terms, weights = [Term((("bound", 1.0),))], FieldWeights(1.0, 1.0, 1.0)
    assert meanwhile.search(terms, 9, weights) == at_once.search(terms, 9, weights)
    assert {corpus.files[chunks[h.chunk].file].path for h in meanwhile.search(terms, 9, weights)} == {
        "a/one.py",
        "c/two.py",
    }


def test_baselines_are_never_indexed(tmp_path: Path) -> None:
    (tmp_path / "bad.log").write_text("ERROR disk full\n")
    (tmp_path / "good.log").write_text("all is well: no disk is full\n")
    request = make_request("which disk is full?", [tmp_path / "bad.log"], baselines=[tmp_path / "good.log"])
    outcome = compress_sync(request)
    assert {outcome.corpus.files[chunk.file].path for chunk in outcome.chunks} == {"bad.log"}
    cited = {ref["path"] for item in outcome.released["payload"]["evidence"] for ref in item["source_refs"]}
    assert cited == {"bad.log"}
