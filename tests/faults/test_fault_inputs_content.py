"""Odd bytes, names and repositories: FAULTS.md B9 to B13, C1, C2, as far as discovery goes."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from agentloop.api import compress_sync, make_request
from agentloop.budget import Ledger
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.errors import ErrorCode, WarningCode
from agentloop.request import TaskType
from agentloop.sources import opening, reader
from agentloop.types import FileKind
from tests.source_case import failure, find, left_out, paths, write


@pytest.mark.req("B9")
@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfeno text at all \x80\n",
        b"\xef\xbb\xbfwith a mark\r\nand CRLF\r\n",
        b"lone\rcarriage\rreturns",
        "line\u2028separator\u2029\x85\n".encode(),
        b"invalid \xc3\x28 bytes\n",
        b"x" * 50_000 + b"\n",
    ],
)
def test_odd_bytes_stay_as_they_are(tmp_path: Path, data: bytes) -> None:
    write(tmp_path, **{"odd.txt": data})
    file = find(tmp_path).files[0]
    assert file.derived is None
    assert file.content.read(0, file.size) == data


@pytest.mark.req("B9")
def test_a_nul_byte_makes_a_file_binary(tmp_path: Path) -> None:
    write(tmp_path, **{"odd.txt": b"text\0more\n" * 9, "ok.txt": "text\n"})
    assert left_out(find(tmp_path)) == {"odd.txt": "binary"}


@pytest.mark.req("B10")
@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_files_and_folders_are_listed(outside: Path) -> None:
    write(outside, **{"in/shut.md": "x\n", "in/closed/x.md": "x\n"})
    (outside / "in/shut.md").chmod(0)
    (outside / "in/closed").chmod(0)
    ledger = Ledger(SystemClock())
    try:
        corpus = find(outside / "in", ledger=ledger)
        assert failure(outside / "in/shut.md").details["skipped"] == {"unreadable": 1}
    finally:
        (outside / "in/closed").chmod(0o700)
    assert left_out(corpus) == {"shut.md": "unreadable", "closed": "unreadable"}
    assert ledger.warnings[0][0] is WarningCode.INPUT_UNREADABLE


@pytest.mark.req("B10")
def test_a_read_error_is_listed_with_its_reason(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(outside, **{"in/bad.md": "x\n", "in/shut.md": "x\n"})
    plain = os.open

    def opening_fails(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if path == "bad.md":
            raise OSError(5, "Input/output error")
        if path == "shut.md":
            raise PermissionError(13, "Permission denied")
        return plain(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", opening_fails)
    ledger = Ledger(SystemClock())
    corpus = find(outside / "in", ledger=ledger)
    assert paths(corpus) == ["own.md"]
    assert {(left.path, left.detail) for left in corpus.excluded} == {
        ("bad.md", "input/output error"),
        ("shut.md", "permission denied"),
    }
    assert ledger.warnings[0][0] is WarningCode.INPUT_UNREADABLE


@pytest.mark.req("B10")
def test_a_file_that_vanishes_is_listed(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(outside, **{"in/gone.md": "x\n"})
    plain = opening.open_file

    def vanishing(name: str, dir_fd: int) -> Any:
        if name == "gone.md":
            (outside / "in/gone.md").unlink()
        return plain(name, dir_fd)

    monkeypatch.setattr(reader, "open_file", vanishing)
    assert left_out(find(outside / "in")) == {"gone.md": "vanished"}


@pytest.mark.req("B10")
def test_a_missing_input_names_itself(tmp_path: Path) -> None:
    missing = failure(tmp_path / "no/such\x1b[31m")
    assert missing.code is ErrorCode.INPUT_DISCOVERY_FAILED
    assert missing.details == {"input_id": "in1", "reason": "not_found"}
    assert "no/such\\x1b[31m does not exist" in missing.message


@pytest.mark.req("B11")
def test_odd_names_are_lossless_and_escaped_in_messages(tmp_path: Path) -> None:
    names = [b"latin-\xe9.md", b"new\nline.md", "bidi-\u202e.md".encode()]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_text("text\n")
    (tmp_path / os.fsdecode(b"big\xff\n.md")).write_bytes(b"x" * 100)
    ledger = Ledger(SystemClock())
    corpus = find(tmp_path, caps=Caps(max_file_bytes=50), ledger=ledger)
    assert {os.fsencode(path) for path in paths(corpus)} == set(names)
    (message,) = [message for _, message, _ in ledger.warnings]
    assert message.isprintable()
    assert "big\\udcff\\n.md" in message


@pytest.mark.req("B13")
@pytest.mark.parametrize(
    ("files", "skipped"),
    [
        ({}, {}),
        ({"a.png": b"\x89PNG", "b.dat": b"\0\1\2"}, {"binary": 2}),
        ({".gitignore": "*\n", "a.md": "x", "b/c.md": "x"}, {"ignored": 3}),
        ({"a.txt": b"", "b.txt": b""}, {"empty": 2}),
    ],
)
def test_nothing_left_to_index_is_an_error_that_says_why(
    tmp_path: Path, files: dict[str, Any], skipped: dict[str, int]
) -> None:
    write(tmp_path, **files)
    error = failure(tmp_path)
    assert error.code is ErrorCode.INPUT_DISCOVERY_FAILED
    assert error.details["reason"] == "nothing_to_index"
    assert error.details["skipped"] == skipped
    assert str(tmp_path) in error.message


@pytest.mark.req("C2")
@pytest.mark.req("B12")
def test_git_data_outside_of_the_input_is_not_read(outside: Path) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for argv in (
        ["init", "-q", "-b", "main", "main"],
        [
            "-C",
            "main",
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@x",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "first",
        ],
        ["-C", "main", "worktree", "add", "-q", "../tree"],
    ):
        subprocess.run(["git", *argv], cwd=outside, env=env, check=True, capture_output=True)
    write(outside, **{"main/.git/info/exclude": "*.tmp\n", "tree/a.tmp": "x\n", "tree/b.md": "x\n"})
    alone = find(outside / "tree")
    assert alone.inputs[0].commit == ""
    assert paths(alone) == ["a.tmp", "b.md"]
    assert "lies outside of the input" in alone.notes[0]
    whole = find(outside)
    assert "tree/a.tmp" in left_out(whole)
    assert not whole.notes


@pytest.mark.req("C2")
def test_commit_and_tree_are_read_without_git(tmp_path: Path) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*argv: str) -> str:
        argv = ("-c", "user.name=x", "-c", "user.email=x@x", *argv)
        done = subprocess.run(
            ["git", *argv], cwd=tmp_path, env=env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q", "-b", "topic/one")
    write(tmp_path, **{"a.md": "x\n"})
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    info = find(tmp_path).inputs[0]
    assert (info.commit, info.tree) == (git("rev-parse", "HEAD"), git("rev-parse", "HEAD^{tree}"))
    git("pack-refs", "--all")
    assert find(tmp_path).inputs[0].commit == info.commit
    git("checkout", "-q", "--detach")
    assert find(tmp_path).inputs[0].commit == info.commit
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/../../../etc/passwd\n")
    assert find(tmp_path).inputs[0].commit == ""


@pytest.mark.req("C1")
def test_a_hostile_repository_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", str(tmp_path)], env=env, check=True)
    mark = tmp_path.parent / "ran"
    with (tmp_path / ".git/config").open("a") as config:
        config.write(f'[core]\n\tfsmonitor = touch {mark}\n[filter "x"]\n\tclean = touch {mark}\n')
    write(tmp_path, **{".gitattributes": "* filter=x diff=x\n", "a.md": "x\n"})

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(os, "posix_spawn", never)
    monkeypatch.setattr("subprocess.Popen.__init__", never)
    assert paths(find(tmp_path)) == [".gitattributes", "a.md"]
    assert not mark.exists()


def test_descriptors_are_closed(outside: Path) -> None:
    write(outside, **{f"in/d{n}/x{n}.log": "x\n" for n in range(20)})
    (outside / "in/link").symlink_to("own.md")
    before = len(os.listdir("/proc/self/fd"))
    find(outside / "in")
    failure(outside / "in/link")
    failure(outside / "nothing")
    find(outside / "in", caps=Caps(max_files=3))
    assert len(os.listdir("/proc/self/fd")) == before


def test_discovery_runs_in_any_thread(outside: Path) -> None:
    found: list[FileKind] = []
    threads = [
        threading.Thread(target=lambda: found.extend(file.kind for file in find(outside / "in").files))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [FileKind.PROSE] * 4


@pytest.mark.req("C1")
@pytest.mark.req("C2")
def test_no_task_runs_what_a_hostile_repository_configures(tmp_path: Path) -> None:
    """Hooks, filters, textconv, fsmonitor, pagers, aliases, ssh: whole requests that read history."""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    repo, mark = tmp_path / "repo", tmp_path / "ran"
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]

    def git(*args: str) -> None:
        subprocess.run(["git", "-C", str(repo), *identity, *args], env=env, check=True, capture_output=True)

    repo.mkdir()
    git("init", "-q")
    for number in (1, 2):
        write(repo, **{"fees.py": f"def fee(amount):\n    return round(amount, {number})\n"})
        git("add", "fees.py")
        git("commit", "-qm", f"Round to {number}")
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    evil.chmod(0o755)
    with (repo / ".git/config").open("a") as config:
        config.write(
            f"[core]\n\tfsmonitor = {evil}\n\thooksPath = {tmp_path}/hooks\n\tpager = {evil}\n"
            f"\tsshCommand = {evil}\n\tgitProxy = {evil}\n\tattributesFile = {tmp_path}/attributes\n"
            f'[filter "x"]\n\tclean = {evil}\n\tsmudge = {evil}\n\tprocess = {evil}\n'
            f'[diff "x"]\n\ttextconv = {evil}\n\tcommand = {evil}\n[diff]\n\texternal = {evil}\n'
            f"[alias]\n\tlog = !{evil}\n[credential]\n\thelper = !{evil}\n"
            f"[include]\n\tpath = {tmp_path}/included\n"
        )
    (tmp_path / "hooks").mkdir()
    for hook in ("post-checkout", "post-index-change", "pre-commit"):
        (tmp_path / "hooks" / hook).symlink_to(evil)
        (repo / ".git/hooks" / hook).symlink_to(evil)
    write(
        repo, **{".gitattributes": "* filter=x diff=x\n", "fees.py": "def fee(amount):\n    return amount\n"}
    )
    for task, params in (
        ("debug_with_local_context", {"changed_since": "HEAD~1"}),
        ("inspect_repo", {}),
        ("propose_patch", {}),
    ):
        asked = make_request("Why is the fee not rounded?", [repo], task=TaskType(task), task_params=params)
        released = compress_sync(asked).released
        assert released["payload"]["evidence"]
        if task == "debug_with_local_context":
            assert "recent_change" in {item["kind"] for item in released["payload"]["evidence"]}
    assert not mark.exists()
