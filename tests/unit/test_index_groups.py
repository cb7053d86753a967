"""An index that was updated gives what a new one gives, score for score."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentloop.api import make_request
from agentloop.cache.warm import Warm, build, current, looked
from agentloop.clock import SystemClock
from agentloop.config import Caps, Policy
from agentloop.index import groups
from agentloop.index.lexical import LexicalIndex, Term

WORDS = ("parser", "header", "retry", "socket", "ledger", "rounding", "token", "queue")


def tree(root: Path) -> None:
    for number in range(60):
        folder = root / f"pkg{number % 5}"
        folder.mkdir(exist_ok=True)
        lines = [
            f"def {WORDS[(number + n) % 8]}_{n}(value):\n    return {n}\n\n" for n in range(1 + number % 9)
        ]
        (folder / f"m{number}.py").write_text("".join(lines))


def made(root: Path, kept: Warm | None = None) -> Warm:
    request = make_request("q", [root])
    return build(request, Caps(), Policy(), SystemClock(), kept=kept, lasting=True)


def answers(index: LexicalIndex) -> list[object]:
    found: list[object] = [[(h.chunk, h.score) for h in index.search([Term(((w, 1.0),))], 50)] for w in WORDS]
    found += [(index.df(w), index.prefixed(w[:3])) for w in WORDS]
    return [*found, [(h.chunk, h.score) for h in index.matching("p.*", 30)]]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(groups, "SMALL_CHUNKS", 10)
    tree(tmp_path)
    return tmp_path


def changed_text(root: Path) -> None:
    (root / "pkg1" / "m1.py").write_text("def socket_of(header):\n    return header\n")


def new_file(root: Path) -> None:
    (root / "pkg2" / "a_first.py").write_text("def ledger_first():\n    pass\n" * 30)


def removed(root: Path) -> None:
    (root / "pkg4" / "m59.py").unlink()


def renamed(root: Path) -> None:
    (root / "pkg0" / "m0.py").rename(root / "pkg0" / "zz.py")


@pytest.mark.parametrize("change", [changed_text, new_file, removed, renamed])
def test_an_updated_index_answers_as_a_new_one(root: Path, change: object) -> None:
    first = made(root)
    assert len(first.index._groups) == groups.MOST_GROUPS
    change(root)  # type: ignore[operator]
    later, fresh = made(root, first), made(root)
    assert {"file_hash", "chunks"} <= set(later.layers)
    assert later.chunks == fresh.chunks
    assert answers(later.index) == answers(fresh.index)
    assert later.index._searcher.num_segments == groups.MOST_GROUPS


def test_many_updates_in_a_row_stay_exact(root: Path) -> None:
    kept = made(root)
    for step in (changed_text, new_file, removed, renamed):
        step(root)
        kept = made(root, kept)
    assert answers(kept.index) == answers(made(root).index)


def test_unchanged_inputs_are_current_and_changed_ones_are_not(root: Path) -> None:
    kept, request = made(root), make_request("q", [root])
    again = current(kept, looked(kept, request, Caps()))
    assert again is not None
    assert again.index is kept.index
    for change in (changed_text, new_file, removed, renamed):
        change(root)
        assert current(kept, looked(kept, request, Caps())) is None
        kept = made(root, kept)
