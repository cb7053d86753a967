"""Chunks and documents made while discovery reads are those of one stage after the other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agentloop import compress_sync, make_request
from agentloop.ahead import Ahead
from agentloop.budget import Ledger
from agentloop.chunking import chunk_corpus
from agentloop.clock import SystemClock
from agentloop.config import Caps, Policy
from agentloop.errors import Stage
from agentloop.index.lexical import FieldWeights, LexicalIndex, Term
from agentloop.request import CompressRequest
from agentloop.sources import discover
from agentloop.tasks.narrowing import narrowed
from agentloop.types import Corpus

FILES = {"a/one.py": "def bound(x):\n    return x\n", "b.md": "# Bounds\n\ntext\n", "c/two.py": "bound(1)\n"}


def tree(root: Path) -> Path:
    """A small folder."""
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def both(request: CompressRequest) -> tuple[Corpus, Ahead, Ledger]:
    """Discovery with `Ahead` beside it."""
    ledger = Ledger(SystemClock())
    ahead = Ahead(request, ledger, Caps(), indexed=True)
    with ledger.stage(Stage.DISCOVERY):
        corpus = narrowed(discover(request, Caps(), Policy(), ledger, read=ahead.add), request, ledger)
    ahead.settle(corpus)
    return corpus, ahead, ledger


@pytest.mark.parametrize("linked", [False, True])
def test_the_outcome_is_that_of_stages_in_turn(tmp_path: Path, linked: bool) -> None:
    root = tree(tmp_path)
    if linked:  # a file of two names is read after all others, and sorted into its place
        os.link(root / "a/one.py", root / "a/also.py")
    corpus, ahead, ledger = both(make_request("bound?", [root]))
    told = Ledger(SystemClock())
    assert ahead.chunks == chunk_corpus(corpus, told, Caps())
    assert ledger.counters[Stage.CHUNKING] == told.counters[Stage.CHUNKING]
    assert ahead.build is not None
    index = LexicalIndex(corpus, ahead.chunks, begun=ahead.build)
    plain = LexicalIndex(corpus, ahead.chunks)
    terms, weights = [Term((("bound", 1.0),))], FieldWeights(1.0, 1.0, 1.0)
    assert index.search(terms, 9, weights) == plain.search(terms, 9, weights)
    assert len(index.search(terms, 9, weights)) == (3 if linked else 2)


def test_a_narrowed_corpus_is_chunked_anew(tmp_path: Path) -> None:
    corpus, ahead, _ = both(make_request("bound?", [tree(tmp_path)], task_params={"paths": ["c"]}))
    assert [file.path for file in corpus.files] == ["c/two.py"]
    assert ahead.chunks == chunk_corpus(corpus, Ledger(SystemClock()), Caps())


def test_baselines_are_counted_and_never_indexed(tmp_path: Path) -> None:
    (tmp_path / "bad.log").write_text("ERROR disk full\n")
    (tmp_path / "good.log").write_text("all well\n")
    request = make_request("why?", [tmp_path / "bad.log"], baselines=[tmp_path / "good.log"])
    corpus, ahead, ledger = both(request)
    assert {corpus.files[chunk.file].path for chunk in ahead.chunks} == {"bad.log"}
    assert ledger.get(Stage.CHUNKING, "files") == 2


def test_time_spent_ahead_is_not_counted_twice() -> None:
    class Steps:
        """Each look at the clock is a second later."""

        def __init__(self) -> None:
            self.now_s = 0.0

        def monotonic(self) -> float:
            self.now_s += 1.0
            return self.now_s

        def now(self) -> Any:
            return SystemClock().now()

    ledger = Ledger(Steps())
    with ledger.stage(Stage.DISCOVERY), ledger.stage(Stage.CHUNKING, instead_of=Stage.DISCOVERY):
        pass
    assert ledger.seconds == {Stage.DISCOVERY: 2.0, Stage.CHUNKING: 1.0}


def test_a_pack_is_the_same_with_hard_links_and_without_reading_ahead(tmp_path: Path) -> None:
    root = tree(tmp_path)
    os.link(root / "a/one.py", root / "a/also.py")
    first = compress_sync(make_request("what does bound return?", [root])).released
    again = compress_sync(make_request("what does bound return?", [root])).released
    assert first["payload"]["evidence"] == again["payload"]["evidence"]
    assert {r["path"] for e in first["payload"]["evidence"] for r in e["source_refs"]} >= {"a/also.py"}
