"""The run directory: publishing under faults, claims, fences, and what is not read from it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentloop.rundir import RunDir, RunDirError, publish, read_bytes, read_json
from broker.jobs.artifacts import Owner, collect
from tests.fakes.broker_parts import pack

STEPS = ("open", "fsync", "rename")


@pytest.mark.req("A4")
@pytest.mark.req("A7")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_publish_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    target = tmp_path / "result.json"
    publish(target, b"old")

    def fails(*args: Any, **kwargs: Any) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(f"agentloop.rundir.os.{step}", fails)
        with pytest.raises(OSError):
            publish(target, b"new")
    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]
    publish(target, b"new")
    assert target.read_bytes() == b"new"


def attempt_with_pack(folder: Path) -> Any:
    attempt = RunDir(folder).attempt("1")
    attempt.path.mkdir(parents=True)
    attempt.write_artifacts({"evidence_pack.json": json.dumps(pack()).encode()})
    attempt.publish_json("result.json", pack())
    return attempt


@pytest.mark.req("A4")
def test_a_worker_that_stops_between_any_two_steps_shows_nothing_or_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner("job_x", "local", tmp_path, 1.0)
    real = os.rename
    outcomes = []
    for stop_after in range(6):
        folder = tmp_path / str(stop_after)
        left = [stop_after]

        def rename(source: Any, target: Any, left: list[int] = left) -> None:
            if left[0] == 0:
                raise KeyboardInterrupt  # as a kill: nothing after this point runs
            left[0] -= 1
            real(source, target)

        with monkeypatch.context() as patched:
            patched.setattr("agentloop.rundir.os.rename", rename)
            with contextlib.suppress(KeyboardInterrupt):
                attempt_with_pack(folder)
        found = collect(RunDir(folder).attempt("1"), owner)
        outcomes.append(found is not None and found.pack is not None)
    assert outcomes == [False, False, False, True, True, True]


@pytest.mark.req("F12")
def test_links_hard_links_and_altered_files_are_not_collected(tmp_path: Path) -> None:
    owner = Owner("job_x", "local", tmp_path, 1.0)
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(pack()))
    for number, spoil in enumerate(
        (
            lambda a: ((a / "result.json").unlink(), (a / "result.json").symlink_to(secret)),
            lambda a: ((a / "result.json").unlink(), os.link(secret, a / "result.json")),
            lambda a: (a / "artifacts" / "evidence_pack.json").write_text("{}"),
            lambda a: (a / "artifacts" / "evidence_pack.json").unlink(),
            lambda a: (a / "artifacts.json").write_text('[{"name": "../../x", "sha256": "", "size": 0}]'),
            lambda a: (a / "result.json").write_text("[]"),
            lambda a: ((a / "result.json").unlink(), (a / "result.json").mkdir()),
        )
    ):
        attempt = attempt_with_pack(tmp_path / f"run{number}")
        spoil(attempt.path)
        found = collect(attempt, owner)
        assert found is not None
        assert found.pack is None
        assert found.error is not None
        assert found.error["code"] == "RAG_SCHEMA_INVALID"


def test_an_attempt_is_claimed_once_and_fenced_by_the_next(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    run_dir.create({"job_spec.json": {}})
    first = run_dir.start_attempt("1")
    first.claim({"pid": 1})
    with pytest.raises(RunDirError):
        first.claim({"pid": 2})
    assert run_dir.fenced() == "1"
    run_dir.start_attempt("1.1")
    assert run_dir.fenced() == "1.1"
    for label in ("../1", "1/..", "", "x", "1.2.3"):
        with pytest.raises(RunDirError):
            run_dir.attempt(label)


def test_only_plain_bounded_json_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with pytest.raises(FileNotFoundError):
        read_json(file)
    file.write_text("{")
    with pytest.raises(RunDirError):
        read_json(file)
    file.write_bytes(b"x" * 100)
    with pytest.raises(RunDirError):
        read_bytes(file, 99)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RunDirError):
        read_bytes(tmp_path / "pipe")
