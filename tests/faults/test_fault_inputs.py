"""Hostile and broken inputs: FAULTS.md B1 to B13, C2, F4, as far as discovery goes."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from agentloop.budget import Ledger
from agentloop.clock import SystemClock
from agentloop.config import Caps, Policy
from agentloop.errors import ErrorCode, WarningCode
from agentloop.sources import opening, reader
from agentloop.types import FileKind
from tests.source_case import failure, find, left_out, paths, write


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file that lies beside the input folder `in`."""
    write(tmp_path, **{"outside/secret.md": "CANARY-4711 of the neighbour\n", "in/own.md": "our own text\n"})
    return tmp_path


@pytest.mark.req("B1")
def test_no_path_is_opened_when_one_input_is_not_allowed(
    outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("something was opened")

    monkeypatch.setattr(os, "open", never)
    refused = failure(outside / "in", f"{outside}/in/../outside/secret.md")
    assert refused.details == {"input_id": "in2", "reason": "path_not_allowed"}


@pytest.mark.req("B1")
def test_paths_outside_of_the_allowed_roots_are_refused(outside: Path) -> None:
    policy = Policy(allowed_roots=(str(outside / "in"),))
    assert paths(find(outside / "in", policy=policy)) == ["own.md"]
    assert paths(find(outside / "in/own.md", policy=policy)) == ["own.md"]
    for path in (outside / "outside", outside / "in-other", outside, Path("/etc/passwd")):
        assert failure(path, policy=policy).details["reason"] == "path_not_allowed"


@pytest.mark.req("B2")
def test_links_are_listed_and_never_followed(outside: Path) -> None:
    (outside / "in/file-link").symlink_to("../outside/secret.md")
    (outside / "in/dir-link").symlink_to("../outside")
    (outside / "in/loop").symlink_to("loop")
    (outside / "in/deep").mkdir()
    (outside / "in/deep/up").symlink_to("..")
    corpus = find(outside / "in")
    assert paths(corpus) == ["own.md"]
    assert left_out(corpus) == dict.fromkeys(["deep/up", "dir-link", "file-link", "loop"], "symlink")


@pytest.mark.req("B2")
def test_an_input_behind_a_link_is_refused(outside: Path) -> None:
    (outside / "in/dir-link").symlink_to("../outside")
    for path in ("in/dir-link", "in/dir-link/secret.md"):
        refused = failure(outside / path)
        assert refused.code is ErrorCode.INPUT_DISCOVERY_FAILED
        assert refused.details["reason"] == "symlink"
        assert "CANARY" not in refused.message
    policy = Policy(allowed_roots=(str(outside / "in"),))
    assert failure(outside / "in/dir-link/secret.md", policy=policy).details["reason"] == "symlink"


@pytest.mark.req("B2")
def test_an_allowed_root_may_itself_be_a_link(outside: Path) -> None:
    (outside / "data").symlink_to("in")
    policy = Policy(allowed_roots=(str(outside / "data"),))
    assert paths(find(outside / "data", policy=policy)) == ["own.md"]
    assert paths(find(outside / "data/own.md", policy=policy)) == ["own.md"]


@pytest.mark.req("B2")
def test_a_folder_swapped_for_a_link_during_the_walk(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(outside, **{"in/sub/x.md": "x\n"})
    plain = opening.open_dir

    def swapping(name: str, dir_fd: int | None = None) -> int:
        if name == "sub":
            (outside / "in/sub").rename(outside / "in/moved")
            (outside / "in/sub").symlink_to("../outside")
        return plain(name, dir_fd)

    monkeypatch.setattr("agentloop.sources.walk.open_dir", swapping)
    corpus = find(outside / "in")
    assert paths(corpus) == ["own.md"]
    assert left_out(corpus) == {"sub": "symlink"}


@pytest.mark.req("B2")
def test_a_file_swapped_for_a_link_during_the_walk(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = opening.open_file

    def swapping(name: str, dir_fd: int) -> Any:
        if name == "own.md":
            (outside / "in/own.md").unlink()
            (outside / "in/own.md").symlink_to("../outside/secret.md")
        return plain(name, dir_fd)

    monkeypatch.setattr(reader, "open_file", swapping)
    assert failure(outside / "in").details["skipped"] == {"symlink": 1}


@pytest.mark.req("B3")
def test_hard_links_to_the_outside_are_skipped_unless_allowed(outside: Path) -> None:
    os.link(outside / "outside/secret.md", outside / "in/linked.md")
    corpus = find(outside / "in")
    assert paths(corpus) == ["own.md"]
    assert left_out(corpus) == {"linked.md": "hard_link"}
    assert paths(find(outside / "in", caps=Caps(follow_hard_links=True))) == ["linked.md", "own.md"]
    policy = Policy(allowed_roots=(str(outside / "in"),))
    assert failure(outside / "in/linked.md", policy=policy).details["skipped"] == {"hard_link": 1}


@pytest.mark.req("B3")
def test_hard_links_within_the_input_are_read(outside: Path) -> None:
    (outside / "in/sub").mkdir()
    os.link(outside / "in/own.md", outside / "in/sub/same.md")
    corpus = find(outside / "in")
    assert paths(corpus) == ["own.md", "sub/same.md"]
    assert [file.index for file in corpus.files] == [0, 1]


@pytest.mark.req("B4")
@pytest.mark.timeout(20)
def test_special_files_never_block(outside: Path) -> None:
    os.mkfifo(outside / "in/pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(outside / "in/sock"))
        corpus = find(outside / "in")
    assert paths(corpus) == ["own.md"]
    assert left_out(corpus) == {"pipe": "special_file", "sock": "special_file"}
    assert failure(outside / "in/pipe").details["reason"] == "special_file"
    assert failure("/dev/zero").details["reason"] == "special_file"
    assert failure("/proc/version").code is ErrorCode.INPUT_DISCOVERY_FAILED


def _touch_while_read(monkeypatch: pytest.MonkeyPatch, path: Path, times: int) -> list[int]:
    """Append to `path` after each of the first `times` reads of a file."""
    plain, calls = os.read, [0]

    def read(fd: int, size: int) -> bytes:
        data = plain(fd, size)
        if data and calls[0] < times and os.fstat(fd).st_ino == path.stat().st_ino:
            calls[0] += 1
            with path.open("ab") as file:
                file.write(b"more\n")
        return data

    monkeypatch.setattr(os, "read", read)
    return calls


@pytest.mark.req("B5")
def test_a_file_that_changes_once_is_read_again(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _touch_while_read(monkeypatch, outside / "in/own.md", 1)
    file = find(outside / "in").files[0]
    assert file.content.read(0, 99) == b"our own text\nmore\n"


@pytest.mark.req("B5")
def test_a_file_that_keeps_changing_is_left_out(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(outside, **{"in/steady.md": "x\n"})
    _touch_while_read(monkeypatch, outside / "in/own.md", 99)
    ledger = Ledger(SystemClock())
    corpus = find(outside / "in", ledger=ledger)
    assert left_out(corpus) == {"own.md": "changed_while_read"}
    assert [code for code, _, _ in ledger.warnings] == [WarningCode.INPUT_UNREADABLE]


@pytest.mark.req("B5")
def test_the_bytes_stay_those_that_were_hashed(outside: Path) -> None:
    file = find(outside / "in").files[0]
    (outside / "in/own.md").write_text("something else\n")
    assert file.content.read(0, 99) == b"our own text\n"


@pytest.mark.req("B6")
def test_a_sparse_file_of_ten_gigabytes_is_not_read(outside: Path) -> None:
    for name in ("in/huge.txt", "in/huge.py", "in/huge.json"):
        with (outside / name).open("wb") as file:
            file.truncate(10 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ledger = Ledger(SystemClock())
    corpus = find(outside / "in", ledger=ledger)
    assert left_out(corpus) == dict.fromkeys(["huge.json", "huge.py", "huge.txt"], "too_large")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB
    assert ledger.warnings[0][0] is WarningCode.INPUTS_SKIPPED
    assert "huge.json" in ledger.warnings[0][1]


@pytest.mark.req("B7")
def test_limits_of_files_bytes_and_depth_are_told(tmp_path: Path) -> None:
    for number in range(50):
        write(tmp_path, **{f"{number:03d}.txt": "0123456789\n"})
    ledger = Ledger(SystemClock())
    corpus = find(tmp_path, caps=Caps(max_files=10), ledger=ledger)
    assert paths(corpus) == [f"{number:03d}.txt" for number in range(10)]
    assert left_out(corpus)["."] == "file_limit"
    assert ledger.warnings[0][0] is WarningCode.INPUT_TRUNCATED
    bytes_left = find(tmp_path, caps=Caps(max_total_bytes=56))
    assert len(bytes_left.files) == 5
    assert set(left_out(bytes_left).values()) == {"byte_limit"}


@pytest.mark.req("B7")
def test_depth_and_long_names(tmp_path: Path) -> None:
    write(tmp_path, **{"n" * 251 + ".txt": "long name\n"})
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    corpus = find(tmp_path)
    assert len(corpus.files) == 1
    assert list(left_out(corpus).values()) == ["depth_limit"]
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


@pytest.mark.req("B7")
def test_a_walk_gives_up_on_endless_entries(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"{number:03d}.png").write_bytes(b"")
    write(tmp_path, **{"000.md": "text\n"})
    corpus = find(tmp_path, caps=Caps(max_files=5))
    assert paths(corpus) == ["000.md"]
    assert left_out(corpus)["."] == "file_limit"


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
