"""Shards of one root on a real cluster: one array, bounded and chunked, each task followed on its own."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from pathlib import Path

import pytest

from agentloop import tasklist
from broker.backends.base import Run, RunState, RunUpdate, SubmitUnknown
from broker.backends.slurm import SlurmBackend
from broker.backends.slurm.arrays import array_limit
from tests.slurm.cluster import Cluster, wait_until
from tests.slurm.test_backend import run_of, script, settings, states

pytestmark = pytest.mark.slurm
TASK = 'task=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" "$1"); dir=${task#* * }; '
"""What the worker does with the list: the run directory of its own index."""


def shards(folder: Path, count: int) -> list[Run]:
    root = f"job_{secrets.token_hex(8)}"
    return [run_of(folder, root_id=root, shard=n, shard_count=count) for n in range(count)]


async def started(cluster: Cluster, body: str, **more: object) -> SlurmBackend:
    made = SlurmBackend(settings(cluster, body, **more), environ=cluster.env)  # type: ignore[arg-type]
    await made.start()
    return made


async def submitted(backend: SlurmBackend, runs: list[Run]) -> list[str]:
    return list(await asyncio.gather(*[backend.submit(run) for run in runs]))


async def ends(backend: SlurmBackend, runs: list[Run]) -> list[RunUpdate]:
    return [updates[-1] for updates in await asyncio.gather(*[states(backend, run) for run in runs])]


def names(cluster: Cluster) -> Counter[str]:
    """Tasks of broker jobs that the controller knows, by the job's name."""
    return Counter(cluster.run("squeue", "-h", "-r", "-t", "all", "-o", "%j").split())


async def test_shards_are_one_array(cluster: Cluster, tmp_path: Path) -> None:
    body = script(tmp_path, TASK + 'echo "$2 $SLURM_JOB_NAME" > "$dir/seen"')
    made = await started(cluster, body, slurm_array_running=3)
    runs = shards(tmp_path, 12)
    ids = await submitted(made, runs)
    (array,) = {name.partition("_")[0] for name in ids}
    assert [int(name.partition("_")[2]) for name in ids] == list(range(12))
    assert "ArrayTaskThrottle=3 " in cluster.run("scontrol", "-o", "show", "job", array)
    (file,) = (made_list for made_list in (cluster.root / "home" / "slurm").glob("*.tasks"))
    assert [task.token for task in tasklist.read(file)] == [run.token for run in runs]
    assert {end.state for end in await ends(made, runs)} == {RunState.EXITED}
    assert {(run.run_dir / "seen").read_text() for run in runs} == {
        f"0 broker-rag_compress-compress-{file.stem}\n"
    }
    assert made.polls <= 12
    assert not file.exists()  # all runs are over: a task that comes late finds nothing to do
    await made.close()


async def test_arrays_are_chunked_and_a_retry_makes_its_own(cluster: Cluster, tmp_path: Path) -> None:
    made = await started(cluster, script(tmp_path, "true"), slurm_array_size=5)
    runs = shards(tmp_path, 12)
    ids = await submitted(made, runs)
    assert sorted(Counter(name.partition("_")[0] for name in ids).values()) == [2, 5, 5]
    assert {end.state for end in await ends(made, runs)} == {RunState.EXITED}
    again = run_of(tmp_path, root_id=runs[3].root_id, shard=3, shard_count=12, label="2")
    (alone,) = await submitted(made, [again])
    assert alone.endswith("_0")
    assert [end.state for end in await ends(made, [again])] == [RunState.EXITED]
    await made.close()


@pytest.mark.req("G3")
async def test_one_task_is_requeued_and_another_cancelled(cluster: Cluster, tmp_path: Path) -> None:
    body = script(tmp_path, '[ "${SLURM_RESTART_COUNT:-0}" = 1 ] || exec sleep 7')
    made = await started(cluster, body)
    runs = shards(tmp_path, 4)
    ids = await submitted(made, runs)
    following = asyncio.create_task(ends(made, runs))
    await asyncio.to_thread(
        wait_until, lambda: cluster.run("squeue", "-h", "-r", "-t", "running").count("\n") >= 4, "start"
    )
    cluster.run("scontrol", "requeue", ids[1])
    await made.cancel(runs[2])
    first, requeued, cancelled, last = await asyncio.wait_for(following, 60)
    assert (requeued.state, requeued.restart) == (RunState.EXITED, 1)
    assert cancelled.state is RunState.CANCELLED
    assert [(one.state, one.restart) for one in (first, last)] == [(RunState.EXITED, 0)] * 2
    await made.close()


@pytest.mark.req("A1")
async def test_an_array_of_a_killed_broker_is_found_by_its_list(cluster: Cluster, tmp_path: Path) -> None:
    body = script(tmp_path, "sleep 3")
    first = await started(cluster, body)
    runs = shards(tmp_path, 5)
    await submitted(first, runs)
    before = names(cluster)
    second = await started(cluster, body)
    found = await second.recover(runs)
    assert {update.state for update in found.values()} <= {RunState.PENDING, RunState.RUNNING}
    assert len({update.backend_id for update in found.values()}) == 5
    assert {end.state for end in await ends(second, runs)} == {RunState.EXITED}
    assert names(cluster) == before
    await first.close()
    await second.close()


@pytest.mark.req("G1")
async def test_an_array_of_unknown_outcome_is_adopted_or_lost_as_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    made = await started(cluster, script(tmp_path, "sleep 1"))
    runs = shards(tmp_path, 4)
    cluster.pause_controller(paused=True)
    outcomes = await asyncio.gather(*[made.submit(run) for run in runs], return_exceptions=True)
    cluster.pause_controller(paused=False)
    assert all(isinstance(outcome, SubmitUnknown) for outcome in outcomes)
    found = {end.state for end in await ends(made, runs)}
    assert found in ({RunState.EXITED}, {RunState.LOST})
    await made.close()


async def test_a_list_of_dead_runs_is_deleted(cluster: Cluster, tmp_path: Path) -> None:
    made = await started(cluster, script(tmp_path, "true"))
    old = cluster.root / "home" / "slurm" / "dead.tasks"
    tasklist.write(old, [tasklist.Task("gone", "1", str(tmp_path))])
    await made.recover([])
    assert not old.exists()
    await made.close()


@pytest.mark.parametrize(
    ("config", "most"), [("MaxArraySize            = 10001\n", 10001), ("MaxArraySize = 0\n", 1), ("", 1001)]
)
def test_the_largest_array(config: str, most: int) -> None:
    assert array_limit(config) == most


async def test_shards_are_cancelled_together_also_when_the_controller_is_away(
    cluster: Cluster, tmp_path: Path
) -> None:
    made = await started(cluster, script(tmp_path, "exec sleep 60"))
    runs = shards(tmp_path, 6)
    await submitted(made, runs)
    following = asyncio.create_task(ends(made, runs))
    await asyncio.to_thread(cluster.stop_controller)
    for run in runs:
        await made.cancel(run)
    await asyncio.sleep(0.3)
    await asyncio.to_thread(cluster.start_controller)
    assert {end.state for end in await asyncio.wait_for(following, 90)} == {RunState.CANCELLED}
    await made.close()
