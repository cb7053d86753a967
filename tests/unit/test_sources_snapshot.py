"""Snapshots of inputs: what is seen without reading, and what makes none."""

from __future__ import annotations

import os
from pathlib import Path

from agentloop.api import make_request
from agentloop.cache.packs import pack_key
from agentloop.config import Caps, Policy
from agentloop.sources.snapshot import Snapshot, take


def seen(root: Path, *skip: Path) -> Snapshot:
    found = take([str(root)], frozenset(map(str, skip)), 1000)
    assert found is not None
    return found


def test_every_change_of_a_tree_shows(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "x.py"
    file.write_text("one")
    before = seen(tmp_path)
    assert seen(tmp_path).entries == before.entries
    file.write_text("two")
    assert seen(tmp_path).entries != before.entries
    os.utime(file, ns=(before.entries[str(file)][3],) * 2)
    assert seen(tmp_path).entries != before.entries  # the ctime tells
    for change in (
        lambda: (tmp_path / "new").write_text(""),
        lambda: (tmp_path / "new").rename(tmp_path / "newer"),
        (tmp_path / "newer").unlink,
        lambda: (tmp_path / "a").chmod(0o700),
        lambda: (tmp_path / "link").symlink_to("a"),
    ):
        before = seen(tmp_path)
        change()
        assert seen(tmp_path).entries != before.entries


def test_ignored_folders_and_links_are_not_entered(tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "x").write_text("")
    (tmp_path / "out").symlink_to("/etc")
    found = seen(tmp_path, tmp_path / "node_modules")
    assert set(found.entries) == {str(tmp_path), *(str(tmp_path / name) for name in ("node_modules", "out"))}
    assert str(tmp_path / "node_modules" / "x") in seen(tmp_path).entries


def test_a_commit_shows_and_gits_own_noise_does_not(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "objects").mkdir()
    before = seen(tmp_path)
    (git / "objects" / "ab").write_text("")
    (git / "index.lock").write_text("")
    assert seen(tmp_path).entries == before.entries
    (git / "refs" / "heads" / "main").write_text("0" * 40)
    assert seen(tmp_path).entries != before.entries


def test_what_cannot_be_watched_has_no_snapshot(tmp_path: Path) -> None:
    assert take([str(tmp_path / "none")], frozenset(), 10) is None
    for number in range(20):
        (tmp_path / f"f{number}").write_text("")
    assert take([str(tmp_path)], frozenset(), 10) is None
    work = tmp_path / "worktree"
    work.mkdir()
    (work / ".git").write_text("gitdir: /elsewhere\n")
    assert take([str(work)], frozenset(), 100) is None


def test_a_fresh_file_is_racy_and_an_old_one_is_not(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("")
    found = seen(tmp_path)
    assert str(file) in found.racy()
    later = Snapshot(found.entries, found.taken_ns + 3_000_000_000)
    assert later.racy() == []
    assert later.steady(str(file), found.entries[str(file)])
    assert not found.steady(str(file), found.entries[str(file)])


def test_a_moving_commit_is_never_part_of_a_key(tmp_path: Path) -> None:
    def key(since: str | None) -> str:
        request = make_request("q", [tmp_path], task_params={"changed_since": since})
        return pack_key(request, "corpus", Policy(), Caps(), "")

    for since in (None, "HEAD", "HEAD~5", "HEAD^^", "a" * 40):
        assert key(since)
    for since in ("main", "origin/main", "v1.0", "HEAD@{1}", "abc123"):
        assert key(since) == ""
