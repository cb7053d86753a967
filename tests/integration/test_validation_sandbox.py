"""Validation commands for real: on a copy, without a network, within their bounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agentloop.api import compress_sync, make_request
from agentloop.clock import SystemClock
from agentloop.config import Policy, Sandbox
from agentloop.environment import Environment, Outcome
from agentloop.loop.messages import Reply
from agentloop.loop.scripted import ScriptedModel
from agentloop.request import TaskType
from agentloop.sandbox import Ran, SandboxError, run_commands

BOUNDS = Sandbox(seconds=20, memory_mb=256, processes=60)
FILES = {"a.txt": b"hello\n", "bin/go": b"#!/bin/sh\necho went\n"}
CODE = "def fee(amount):\n    return 1 if amount > 10 else 2\n"


def run(*commands: str, bounds: Sandbox = BOUNDS) -> list[Ran]:
    clock = SystemClock()
    try:
        return run_commands(FILES, commands, bounds, clock, clock.monotonic() + 120)
    except SandboxError as exc:
        pytest.skip(f"no namespaces here: {exc}")


def test_a_command_sees_a_fresh_copy_each_time() -> None:
    first, second = run("cat a.txt; ./bin/go; echo more > b.txt; ls", "ls; exit 3")
    assert (first.exit_status, first.output) == (0, b"hello\nwent\na.txt\nb.txt\nbin\n")
    assert (second.exit_status, second.output) == (3, b"a.txt\nbin\n")


def test_there_is_no_network_not_even_loopback() -> None:
    (ran,) = run(
        "cat /proc/net/dev | grep -c : ; exec 3<>/dev/tcp/127.0.0.1/80 || cat /proc/net/route | wc -l"
    )
    assert ran.output.split()[0] == b"1"  # `lo` alone, and it is down
    (ran,) = run("python3 -c \"import socket; socket.create_connection(('127.0.0.1', 9), 2)\"")
    assert ran.exit_status != 0
    assert b"unreachable" in ran.output


def test_nothing_outside_the_copy_can_be_written(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (ran,) = run(
        f"echo x > {mark}; echo x > /usr/mark; echo x > {Path(__file__).parent}/mark; echo fine > ok; cat ok"
    )
    assert ran.output.endswith(b"fine\n")
    assert not mark.exists()
    assert not (Path(__file__).parent / "mark").exists()
    (ran,) = run("unshare -Urm mount -o remount,rw,bind / && touch /mark")
    assert ran.exit_status != 0
    assert not Path("/mark").exists()


def test_other_processes_and_temporary_files_are_unseen(tmp_path: Path) -> None:
    (ran,) = run(f"ls /proc | grep -c '^[0-9]'; ls -A /tmp /run | wc -w; ls {tmp_path}")
    numbers = [int(word) for word in ran.output.split()[:2]]
    assert numbers[0] < 8
    assert numbers[1] <= 2  # the names of the two empty folders
    assert ran.exit_status != 0


def test_time_memory_and_processes_are_bounded() -> None:
    (slow,) = run("sleep 60 & sleep 60", bounds=replace(BOUNDS, seconds=1))
    assert (slow.exit_status, slow.stopped) == (None, "time")
    (bomb,) = run("f() { f | f & }; f; sleep 20", bounds=replace(BOUNDS, seconds=3))
    assert bomb.exit_status is None
    assert bomb.stopped in ("processes", "time")
    (large,) = run("python3 -c 'x = bytearray(900 << 20)'")
    assert large.exit_status != 0
    (full,) = run("head -c 900000000 /dev/zero > big")
    assert full.exit_status != 0
    (loud,) = run("head -c 5000000 /dev/zero")
    assert (len(loud.output), loud.truncated) == (1 << 20, True)


def propose(folder: Path, commands: Sequence[str], policy: Policy, reply: str | None) -> Outcome:
    (folder / "fees.py").write_text(CODE)
    (folder / "logo.png").write_bytes(b"\x89PNG\0")
    request = make_request(
        "Ten is charged the wrong fee by `fee`",
        [folder],
        task=TaskType.PROPOSE_PATCH,
        task_params={"validation_commands": list(commands), "mode": "single_shot"},
    )
    model = None if reply is None else ScriptedModel([Reply(text=reply)])
    return compress_sync(request, Environment(model=model, policy=policy))


PATCH = json.dumps(
    {
        "edits": [{"path": "fees.py", "old": "amount > 10", "new": "amount >= 10"}],
        "rationale": "r",
        "risks": [],
    }
)
CHECK = "python3 -c 'import fees; assert fees.fee(10) == 1' && ls logo.png"


def test_commands_run_on_the_patched_copy_and_the_tree_stays(tmp_path: Path) -> None:
    run("true")
    outcome = propose(tmp_path, [CHECK, "touch made; exit 4"], Policy(sandbox=BOUNDS), PATCH)
    rows = outcome.released["payload"]["details"]["validation"]
    assert [(row["exit_status"], row["patched"]) for row in rows] == [(0, True), (4, True)]
    assert outcome.artifacts["validation_1.log"] == b"logo.png\n"
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix != ".pyc") == ["fees.py", "logo.png"]
    assert (tmp_path / "fees.py").read_text() == CODE


def test_without_a_patch_they_run_on_the_tree_as_it_is(tmp_path: Path) -> None:
    run("true")
    outcome = propose(tmp_path, [CHECK], Policy(sandbox=BOUNDS), None)
    (row,) = outcome.released["payload"]["details"]["validation"]
    assert (row["exit_status"], row["patched"]) == (1, False)


def test_nothing_runs_unless_the_operator_allows_it(tmp_path: Path) -> None:
    details = propose(tmp_path, ["touch /tmp/agentloop-ran"], Policy(), PATCH).released["payload"]["details"]
    assert details["validation_commands"] == ["touch /tmp/agentloop-ran"]
    assert "validation" not in details


def test_a_machine_that_cannot_shut_them_off_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child.py"
    child.write_text(
        "import json, os, sys\n"
        "os.fdopen(json.loads(sys.argv[1])['status_fd'], 'w').write('{\"refused\": \"namespaces: no\"}')\n"
    )
    monkeypatch.setattr("agentloop.sandbox.run._CHILD", child)
    tree = tmp_path / "tree"
    tree.mkdir()
    outcome = propose(tree, ["true"], Policy(sandbox=BOUNDS), PATCH)
    payload = outcome.released["payload"]
    assert "validation" not in payload["details"]
    assert "VALIDATION_UNAVAILABLE" in [w["code"] for w in payload["warnings"]]
