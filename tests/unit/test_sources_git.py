"""History and objects as git has them, read without git."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentloop.errors import AgentloopError, ErrorCode
from agentloop.sources.git import HistoryLimits, blob_at, history, open_store, recent_changes, touched_lines
from agentloop.sources.git.packs import DamagedError, TooLargeError, apply_delta
from agentloop.sources.git.store import GitStore
from tests.source_case import failure, find, left_out, paths, write

BASE = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Bo",
    "GIT_COMMITTER_EMAIL": "bo@example.org",
}


def git(root: Path, *argv: str, day: int = 1) -> str:
    """Run git with a fixed date."""
    date = f"2024-03-{day:02d}T12:00:00+0000"
    env = {**BASE, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    argv = ("-c", "protocol.file.allow=always", "-C", str(root), *argv)
    done = subprocess.run(["git", *argv], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(root: Path, message: str, day: int, **files: str | None) -> str:
    """Write or delete files and commit them."""
    for name, text in files.items():
        if text is None:
            (root / name).unlink()
        else:
            write(root, **{name: text})
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", message, day=day)
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Ten commits over three files, with a merge, a deletion and a name that is not ASCII."""
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    body = [f"line {n}" for n in range(60)]
    commit(root, "first", 1, **{"src/a.py": "\n".join(body) + "\n", "gone.txt": "x\n"})
    for day in range(2, 8):
        body[day * 5] = f"changed on day {day}"
        commit(root, f"day {day}\n\nbody", day, **{"src/a.py": "\n".join(body) + "\n"})
    git(root, "checkout", "-q", "-b", "side")
    commit(root, "side work", 8, **{"sub/é.md": "one\ntwo\n"})
    git(root, "checkout", "-q", "main")
    commit(root, "delete", 9, **{"gone.txt": None})
    git(root, "merge", "-q", "--no-ff", "-m", "merge", "side", day=10)
    return root


def by_git(root: Path, *options: str) -> list[tuple[str, dict[str, tuple[int, int]]]]:
    """Commits with the added and removed lines of each file, as `git log` tells them."""
    out = git(root, "log", "--no-merges", "--no-renames", "--numstat", "-z", "--format=%x01%H", *options)
    found = []
    for part in out.split("\x01")[1:]:
        oid, _, rest = part.replace("\n", "\0", 1).partition("\0")
        files = {}
        for row in rest.strip("\0\n").split("\0"):
            if "\t" in row:
                added, removed, path = row.strip().split("\t")
                files[path] = (int(added), int(removed))
        found.append((oid, files))
    return found


def by_us(root: Path, **options: Any) -> list[tuple[str, dict[str, tuple[int, int]]]]:
    return [
        (
            change.commit,
            {
                file.path: (sum(len(h.added) for h in file.hunks), sum(len(h.removed) for h in file.hunks))
                for file in change.files
            },
        )
        for change in history(str(root), **options).commits
    ]


@pytest.mark.parametrize("packed", [False, True])
def test_history_agrees_with_git(repo: Path, packed: bool) -> None:
    if packed:
        git(repo, "gc", "-q", "--aggressive", "--prune=now")
        assert not list((repo / ".git/objects").glob("[0-9a-f][0-9a-f]"))
    assert by_us(repo) == by_git(repo)
    assert by_us(repo, paths=["src"]) == by_git(repo, "--", "src")
    assert by_us(repo, paths=["sub/é.md"]) == by_git(repo, "--", "sub/é.md")
    found = history(str(repo))
    assert found.head == git(repo, "rev-parse", "HEAD")
    first = found.commits[-1]
    assert (first.subject, first.author, first.time, first.parent) == (
        "first",
        "Ada",
        "2024-03-01T12:00:00Z",
        "",
    )
    (hunk,) = found.commits[-2].files[0].hunks
    assert (hunk.old_start, hunk.new_start, hunk.removed, hunk.added) == (
        11, 11, ("line 10",), ("changed on day 2",),
    )  # fmt: skip
    info = find(repo).inputs[0]
    assert (info.commit, info.tree) == (found.head, git(repo, "rev-parse", "HEAD^{tree}"))


def test_since_a_date_an_age_or_a_commit(repo: Path) -> None:
    git(repo, "tag", "-a", "v1", "-m", "v1", "HEAD~3")
    now = datetime(2024, 3, 10, 13, tzinfo=UTC)
    assert len(by_us(repo, since="2024-03-06")) == 4
    assert len(by_us(repo, since="2024-03-06T12:00:01Z")) == 3
    assert len(by_us(repo, since="3 days ago", now=now)) == 2
    for name in (
        "HEAD~3",
        "v1",
        "main~3",
        "HEAD^^^",
        git(repo, "rev-parse", "HEAD~3"),
        git(repo, "rev-parse", "--short", "HEAD~3"),
    ):
        assert by_us(repo, since=name) == by_git(repo, f"{name}..HEAD")
    assert by_us(repo, since="HEAD~500") == by_git(repo, "HEAD")  # there are fewer: all of them came since


@pytest.mark.req("C3")
@pytest.mark.parametrize(
    "name",
    [
        "--upload-pack=x",
        "-x",
        "nope",
        "a..b",
        "HEAD@{1}",
        "$(id)",
        "a b",
        "../../etc/passwd",
        "HEAD:x",
        "0000",
        "\0",
    ],
)
def test_a_ref_that_is_none_is_refused(repo: Path, name: str) -> None:
    with pytest.raises(AgentloopError) as raised:
        history(str(repo), since=name)
    assert raised.value.code is ErrorCode.REQUEST_INVALID
    assert raised.value.details["field"] == "task_params.changed_since"


@pytest.mark.req("C3")
@pytest.mark.parametrize("packed", [False, True])
def test_a_large_blob_is_seen_by_its_size_only(repo: Path, packed: bool) -> None:
    commit(repo, "large", 11, **{"large.txt": "0123456789\n" * 200_000})
    if packed:
        git(repo, "gc", "-q")
    change = history(str(repo)).commits[0]
    assert [(file.path, file.left_out) for file in change.files] == [("large.txt", "too_large")]
    with open_store(str(repo)) as store:
        assert isinstance(store, GitStore)
        with pytest.raises(TooLargeError):
            blob_at(store, change.commit, "large.txt", 1_000_000)
        assert blob_at(store, change.commit, "sub/é.md", 99) == b"one\ntwo\n"
        with pytest.raises(KeyError):
            blob_at(store, change.commit, "sub/none", 99)


def test_limits_cut_a_history_and_say_so(repo: Path) -> None:
    found = history(str(repo), limits=HistoryLimits(max_commits=3))
    assert (len(found.commits), found.truncated) == (2, True)
    assert history(str(repo), limits=HistoryLimits(max_changes=4)).truncated
    assert not history(str(repo)).truncated


@pytest.mark.req("B12")
@pytest.mark.req("C2")
def test_shallow_bare_worktree_and_submodule(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{repo}", "shallow")
    found = history(str(tmp_path / "shallow"))
    assert found.note == "a shallow clone"
    assert [change.subject for change in found.commits] == []
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    assert by_us(tmp_path / "bare.git") == by_git(repo)
    bare = find(tmp_path / "bare.git")
    assert paths(bare) == ["src/a.py", "sub/é.md"]
    assert {file.commit for file in bare.files} == {git(repo, "rev-parse", "HEAD")}
    git(repo, "worktree", "add", "-q", str(repo / "tree"))
    assert find(repo).inputs[0].commit
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "submodule", "add", "-q", str(repo), "inner")
    write(outer, **{".git/modules/inner/info/exclude": "*.tmp\n", "inner/x.tmp": "x\n", "x.tmp": "x\n"})
    assert left_out(find(outer))["inner/x.tmp"] == "ignored"
    assert "x.tmp" in paths(find(outer))


@pytest.mark.req("C2")
def test_alternates_outside_of_the_input_are_refused(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--shared", str(repo), "shared")
    found = history(str(tmp_path / "shared"))
    assert (found.commits, found.note) == ((), "its object alternates lie outside of the input")
    info = find(tmp_path / "shared").inputs[0]
    assert info.commit
    assert info.tree == ""
    shutil.move(repo, tmp_path / "shared/.git/objects/below")
    write(tmp_path / "shared", **{".git/objects/info/alternates": "below/.git/objects\n"})
    assert len(history(str(tmp_path / "shared")).commits) == 9


@pytest.mark.req("C2")
def test_missing_objects_end_what_needs_them(repo: Path) -> None:
    blob = git(repo, "rev-parse", "HEAD~1:src/a.py")
    (repo / ".git/objects" / blob[:2] / blob[2:]).unlink()
    change = next(c for c in history(str(repo)).commits if c.subject == "day 7")
    assert change.files[0].left_out == "missing"
    tree = git(repo, "rev-parse", "HEAD~5^{tree}")
    (repo / ".git/objects" / tree[:2] / tree[2:]).unlink()
    found = history(str(repo))
    assert found.note == "objects are missing (a partial clone)"
    assert found.commits


@pytest.mark.req("C2")
def test_linked_objects_are_not_followed(repo: Path, tmp_path: Path) -> None:
    thief = tmp_path / "thief"
    git(tmp_path, "init", "-q", "-b", "main", "thief")
    shutil.rmtree(thief / ".git/objects")
    (thief / ".git/objects").symlink_to(repo / ".git/objects")
    write(thief, **{".git/refs/heads/main": git(repo, "rev-parse", "HEAD") + "\n", "a.md": "x\n"})
    assert history(str(thief)).commits == ()
    assert find(thief).inputs[0].tree == ""


@pytest.mark.req("C2")
def test_a_bare_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "empty.git")
    assert failure(tmp_path / "empty.git").details["reason"] == "no_commit"


@pytest.mark.req("C3")
def test_damaged_packs_and_objects_are_errors_not_crashes(repo: Path) -> None:
    git(repo, "gc", "-q")
    (pack,) = (repo / ".git/objects/pack").glob("*.pack")
    data = bytearray(pack.read_bytes())
    pack.chmod(0o600)
    for at in range(12, len(data), len(data) // 40):
        broken = bytearray(data)
        broken[at] ^= 0x55
        pack.write_bytes(broken)
        history(str(repo))
    pack.write_bytes(data[: len(data) // 2])
    history(str(repo))


@pytest.mark.req("C3")
def test_a_loose_bomb_is_refused_by_its_header(repo: Path) -> None:
    oid = git(repo, "rev-parse", "HEAD:src/a.py")
    path = repo / ".git/objects" / oid[:2] / oid[2:]
    path.chmod(0o600)
    path.write_bytes(zlib.compress(b"blob 1000000000\0" + b"A" * 50_000_000))
    with open_store(str(repo)) as store:
        assert isinstance(store, GitStore)
        with pytest.raises(TooLargeError):
            store.blob(oid, 1_000_000)
        path.write_bytes(zlib.compress(b"blob 5\0" + b"A" * 50_000_000))
        with pytest.raises(DamagedError):
            store.blob(oid, 1_000_000)


def test_deltas() -> None:
    base = bytes(range(200))
    copy = bytes([200 | 0x00, 1, 5, 0x91, 100, 3, 2]) + b"hi"
    assert apply_delta(base, copy, 99) == base[100:103] + b"hi"
    with pytest.raises(TooLargeError):
        apply_delta(base, struct.pack("BBB", 0xC8, 1, 0x7F), 99)
    for bad in (b"", b"\xc8", copy[:-1], copy[:3], b"\xc9\x01\x01\x01a"):
        with pytest.raises(DamagedError):
            apply_delta(base, bad, 99)


def blame(root: Path, path: str) -> dict[int, str]:
    """Line -> commit, as git tells it."""
    out = git(root, "blame", "--porcelain", path)
    rows = (line.split() for line in out.splitlines() if not line.startswith("\t"))
    return {int(row[2]): row[0] for row in rows if len(row) >= 3 and len(row[0]) == 40 and row[2].isdigit()}


@pytest.mark.parametrize("seed", range(4))
def test_touched_lines_agree_with_blame(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    git(tmp_path, "init", "-q")
    lines = [f"unique {n}" for n in range(30)]
    for day in range(1, 12):
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(lines))
            new = [f"unique {day} {rng.random()}" for _ in range(rng.randint(0, 3))]
            lines[at : at + rng.randint(0, 3)] = new
        lines = lines or ["unique again"]
        commit(tmp_path, f"day {day}", day, **{"a.txt": "\n".join(lines) + "\n"})
    ours = {
        line: span.commit.commit
        for span in touched_lines(history(str(tmp_path)))["a.txt"]
        if not span.removed_only
        for line in range(span.line_start, span.line_end + 1)
    }
    assert ours == blame(tmp_path, "a.txt")


def test_touched_lines_of_a_removal_and_of_deleted_files(repo: Path) -> None:
    text = (repo / "src/a.py").read_text().split("\n")
    commit(repo, "shorter", 12, **{"src/a.py": "\n".join(text[:4] + text[6:])})
    found = touched_lines(history(str(repo), since="2024-03-11"))
    assert {
        path: [(s.line_start, s.line_end, s.removed_only) for s in spans] for path, spans in found.items()
    } == {"src/a.py": [(5, 5, True)]}
    assert "gone.txt" not in touched_lines(history(str(repo)))


def test_recent_changes_in_the_lines_of_the_work_tree(repo: Path) -> None:
    text = (repo / "src/a.py").read_text().split("\n")
    edited = ["# a new first line", *text[:35], "edited", *text[36:]]
    write(repo, **{"src/a.py": "\n".join(edited), "new.py": "x = 1\ny = 2\n"})
    corpus = find(repo)
    index = {file.path: file.index for file in corpus.files}
    found = recent_changes(corpus, since="2024-03-06", now=datetime(2024, 3, 12, tzinfo=UTC))
    told = [(s.line_start, s.line_end, s.commit.subject) for s in found.files[index["src/a.py"]]]
    assert told == [(1, 1, "uncommitted"), (32, 32, "day 6"), (37, 37, "uncommitted")]
    assert edited[31] == "changed on day 6"
    assert [(s.line_start, s.line_end, s.commit.commit) for s in found.files[index["new.py"]]] == [(1, 2, "")]
    assert [change.subject for change in found.commits] == ["delete", "side work", "day 7", "day 6"]
    assert index["sub/é.md"] in found.files


def test_recent_changes_see_no_edit_in_converted_line_ends(repo: Path) -> None:
    data = (repo / "src/a.py").read_bytes().replace(b"\n", b"\r\n")
    write(repo, **{"src/a.py": data})
    found = recent_changes(find(repo), since="2024-03-12")
    assert found.files == {}
