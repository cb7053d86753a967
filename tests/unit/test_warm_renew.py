"""A kept corpus after edits: only edited files are read, and all is as discovery has it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentloop.api import make_request
from agentloop.cache import warm
from agentloop.cache.warm import Warm, build
from agentloop.clock import SystemClock
from agentloop.config import Caps, Policy
from agentloop.errors import Stage
from agentloop.index.lexical import Term
from agentloop.request import Classification
from agentloop.sources import build_manifest, snapshot

OLD = 1_700_000_000
POLICY = Policy(classification_rules=(("*.key.py", Classification.RESTRICTED),))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of files that are a while old, some of them left out."""
    found = tmp_path / "in"
    files = {
        "a/one.py": "def one():\n    return 1\n",
        "a/two.key.py": "def two():\n    return 2\n",
        "b/three.md": "# Three\n\nA parser of headers.\n",
        "b/blob.bin": "\0\1\2" * 500,
        ".gitignore": "*.tmp\n",
        "b/x.tmp": "ignored\n",
    }
    for name, text in files.items():
        (found / name).parent.mkdir(parents=True, exist_ok=True)
        (found / name).write_text(text)
    for path in [found, *found.rglob("*")]:
        os.utime(path, (OLD, OLD))
    return found


def made(root: Path, kept: Warm | None = None) -> Warm:
    return build(make_request("q", [root]), Caps(), POLICY, SystemClock(), kept=kept, lasting=True)


def told(found: Warm) -> list[object]:
    words = ("parser", "header", "return", "forty", "two")
    hits = [[(h.chunk, h.score) for h in found.index.search([Term(((w, 1.0),))], 50)] for w in words]
    counted = found.counters[Stage.DISCOVERY]
    return [build_manifest(found.corpus), found.warnings, counted, found.chunks, hits]


def edited(root: Path) -> None:
    (root / "a" / "one.py").write_text("def forty_two():\n    return 42\n")


def replaced(root: Path) -> None:
    """As editors save: written beside, renamed over."""
    (root / "new").write_text("# Three\n\nA parser of tokens.\n")
    (root / "new").rename(root / "b" / "three.md")


def touched(root: Path) -> None:
    os.utime(root / "a" / "two.key.py", (OLD + 5, OLD + 5))


def added(root: Path) -> None:
    (root / "a" / "more.py").write_text("def more():\n    return 3\n")


def removed(root: Path) -> None:
    (root / "a" / "one.py").unlink()


def rules(root: Path) -> None:
    (root / ".gitignore").write_text("*.tmp\n*.md\n")


def emptied(root: Path) -> None:
    (root / "a" / "one.py").write_text("")


def binary(root: Path) -> None:
    (root / "a" / "one.py").write_bytes(b"\0\1\2" * 500)


def left_out(root: Path) -> None:
    (root / "b" / "blob.bin").write_text("text now\n")


def linked(root: Path) -> None:
    (root / "a" / "one.py").unlink()
    (root / "a" / "one.py").symlink_to(root / "b" / "three.md")


def hard_link(root: Path) -> None:
    (root.parent / "beside.py").write_text("def beside():\n    return 4\n")
    (root / "a" / "one.py").unlink()
    (root / "a" / "one.py").hardlink_to(root.parent / "beside.py")


@pytest.mark.req("B5")
@pytest.mark.parametrize("change", [edited, replaced, touched])
def test_only_edited_files_are_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(snapshot, "RACY_NS", 0)  # as if all was made long before
    kept = made(root)
    change(root)
    with monkeypatch.context() as patch:
        patch.setattr(warm, "discover", lambda *_, **__: pytest.fail("everything was looked at again"))
        later = made(root, kept)
    assert told(later) == told(made(root))


@pytest.mark.req("B2")
@pytest.mark.parametrize(
    "change", [added, removed, rules, emptied, binary, left_out, linked, hard_link], ids=lambda c: c.__name__
)
def test_what_is_more_than_an_edit_is_discovered(root: Path, change: Callable[[Path], None]) -> None:
    kept = made(root)
    change(root)
    assert told(made(root, kept)) == told(made(root))


def test_an_edit_is_seen_among_many_states(root: Path) -> None:
    kept = made(root)
    for number in range(5):
        (root / "a" / "one.py").write_text(f"def one():\n    return {number}\n")
        kept = made(root, kept)
        assert told(kept) == told(made(root)), number
