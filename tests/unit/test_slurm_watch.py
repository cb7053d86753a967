"""Watching runs that Slurm's controller no longer shows, with tools that print what it prints then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentloop.clock import SystemClock
from broker.backends.base import Run, RunState
from broker.backends.slurm.arrays import Place
from broker.backends.slurm.watch import Watcher
from broker.planner import Resources, Tier

TOOLS = {
    "squeue": "",
    "sacct": "echo 'Slurm accounting storage is disabled' >&2; exit 1",
    "scancel": "",
}


@pytest.fixture
def watcher(tmp_path: Path) -> Watcher:
    for name, body in TOOLS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    place: Callable[[Run], Place] = lambda run: Place(run.token, run.shard)  # noqa: E731
    return Watcher({"PATH": f"{tmp_path}:/usr/bin:/bin"}, SystemClock(), 0.01, 60.0, place)


def run_of(folder: Path) -> Run:
    resources = Resources(1, 100, 0, "", 60)
    return Run(
        job_id="job_1-0000", namespace="local", task_type="rag_compress", stage="compress", token="t1",
        label="1", run_dir=folder, tier=Tier.CPU, qos="preemptible", resources=resources,
        submitted_at=1.0, root_id="job_1", shard=0, shard_count=3,
    )  # fmt: skip


@pytest.mark.req("G5")
@pytest.mark.parametrize(("stopped", "state"), [(True, RunState.CANCELLED), (False, RunState.LOST)])
async def test_a_run_that_is_gone_was_cancelled_if_we_stopped_it(
    watcher: Watcher, tmp_path: Path, *, stopped: bool, state: RunState
) -> None:
    """Of an array that was cancelled while all of it was pending, a restarted controller knows nothing."""
    run = run_of(tmp_path)
    if stopped:
        await watcher.stop(run, "12_0")  # it may come before the watch begins
    updates = [update async for update in watcher.follow(run, "12_0")]
    assert [update.state for update in updates] == [state]
    await watcher.close()
