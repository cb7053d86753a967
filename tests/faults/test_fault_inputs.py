"""Hostile places and sizes: FAULTS.md B1 to B7, F4, as far as discovery goes."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentloop.budget import Ledger
from agentloop.clock import SystemClock
from agentloop.config import Caps, Policy
from agentloop.errors import ErrorCode, WarningCode
from agentloop.sources import opening, reader
from tests.source_case import failure, find, left_out, paths, write


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
