"""The backend on a real cluster: submit, follow, cancel, lose, requeue, look up, recover."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.backends.base import BackendRejected, BackendUnavailable, Run, RunState, RunUpdate, SubmitUnknown
from broker.backends.slurm import SlurmBackend
from broker.config import Settings, load
from broker.planner import Resources, Tier
from tests.slurm.cluster import Cluster, wait_until

pytestmark = pytest.mark.slurm


def settings(cluster: Cluster, script: str = "", **more: object) -> Settings:
    environ = {
        "BROKER_HOME": str(cluster.root / "home"),
        "BROKER_BACKEND": "slurm",
        "BROKER_SLURM_PARTITION_CPU": "cpu",
        "BROKER_SLURM_PARTITION_P40": "hpc",
        "BROKER_SLURM_PARTITION_A100": "gpu-a100",
        "BROKER_SLURM_NODELIST_P40": "pllimsksparky[1-4]",
        "BROKER_SLURM_POLL_SECONDS": "1",
        "BROKER_SLURM_SCRIPT_PATH": script,
    }
    return load(environ, {k: v for k, v in more.items() if v is not None})


def script(folder: Path, body: str) -> str:
    path = folder / f"{secrets.token_hex(4)}.sh"
    path.write_text(f"#!/bin/bash\n{body}\n")
    return str(path)


def run_of(folder: Path, tier: Tier = Tier.CPU, **more: object) -> Run:
    gpus = {Tier.CPU: (0, ""), Tier.P40: (1, "p40"), Tier.A100: (1, "a100")}[tier]
    token = secrets.token_hex(8)
    run_dir = folder / token
    run_dir.mkdir()
    fields = {
        "job_id": f"job_{token}",
        "namespace": "local",
        "task_type": "rag_compress",
        "stage": "compress",
        "token": token,
        "label": "1",
        "run_dir": run_dir,
        "tier": tier,
        "qos": "preemptible",
        "resources": Resources(1, 100, *gpus, 60),
    }
    return Run(**{**fields, **more})  # type: ignore[arg-type]


@pytest.fixture
async def backend(cluster: Cluster, tmp_path: Path) -> AsyncIterator[SlurmBackend]:
    made = SlurmBackend(
        settings(cluster, script(tmp_path, 'echo "$1 $2 $SLURM_JOB_PARTITION"')), environ=cluster.env
    )
    await made.start()
    yield made
    await made.close()


async def states(backend: SlurmBackend, run: Run) -> list[RunUpdate]:
    async def collect() -> list[RunUpdate]:
        return [update async for update in backend.watch(run)]

    return await asyncio.wait_for(collect(), 60)


@pytest.mark.parametrize("tier", list(Tier))
async def test_a_run_on_each_tier(backend: SlurmBackend, tmp_path: Path, tier: Tier) -> None:
    run = run_of(tmp_path, tier)
    assert (await backend.submit(run)).isdecimal()
    assert (await states(backend, run))[-1].state is RunState.EXITED
    partition = {Tier.CPU: "cpu", Tier.P40: "hpc", Tier.A100: "gpu-a100"}[tier]
    log = Path(await backend.logs(run))
    assert log.read_text() == f"{run.run_dir} 1 {partition}\n"


async def test_names_are_of_our_own_words(cluster: Cluster, backend: SlurmBackend, tmp_path: Path) -> None:
    run = run_of(tmp_path)
    backend_id = await backend.submit(run)
    shown = cluster.run("scontrol", "-o", "show", "job", backend_id)
    assert f"JobName=broker-rag_compress-compress-{run.token} " in shown
    assert f"Comment={run.token} " in shown
    await states(backend, run)


@pytest.mark.req("G7")
async def test_hostile_surroundings_reach_nothing(cluster: Cluster, tmp_path: Path) -> None:
    odd = tmp_path / "-run $(touch pwned) %j"
    odd.mkdir()
    body = script(tmp_path, 'printf "%s" "$1"; env | grep -c "^SBATCH_\\|^SECRET" >&2')
    environ = {**cluster.env, "SBATCH_PARTITION": "deadp", "SBATCH_WRAP": "true", "SECRET": "x"}
    made = SlurmBackend(settings(cluster, body), environ=environ)
    await made.start()
    run = run_of(odd)
    await made.submit(run)
    assert (await states(made, run))[-1].state is RunState.EXITED
    assert Path(await made.logs(run)).read_text() == f"{run.run_dir}0\n"
    assert not list(tmp_path.rglob("pwned"))
    await made.close()


async def test_a_refusal_that_is_final(cluster: Cluster, tmp_path: Path) -> None:
    made = SlurmBackend(
        settings(cluster, script(tmp_path, "true"), slurm_partition_cpu="nowhere"), environ=cluster.env
    )
    with pytest.raises(BackendRejected, match="partition"):
        await made.submit(run_of(tmp_path))


async def test_cancel_is_confirmed(cluster: Cluster, tmp_path: Path) -> None:
    made = SlurmBackend(settings(cluster, script(tmp_path, "exec sleep 60")), environ=cluster.env)
    run = run_of(tmp_path)
    await made.submit(run)
    seen = []
    async for update in made.watch(run):
        seen.append(update.state)
        if update.state is RunState.RUNNING:
            await made.cancel(run)
    assert seen[-1] is RunState.CANCELLED
    await made.close()


@pytest.mark.req("G1")
async def test_an_unknown_outcome_is_looked_up_by_token(cluster: Cluster, tmp_path: Path) -> None:
    """The controller hangs, takes the job, and never says so: the run is adopted, not submitted again."""
    made = SlurmBackend(settings(cluster, script(tmp_path, "sleep 1")), environ=cluster.env)
    run = run_of(tmp_path)
    cluster.pause_controller(paused=True)
    submitting = asyncio.create_task(made.submit(run))
    with pytest.raises(SubmitUnknown):
        await submitting
    cluster.pause_controller(paused=False)
    update = (await states(made, run))[-1]
    assert update.state in (RunState.EXITED, RunState.LOST)
    names = cluster.run("squeue", "-h", "-t", "all", "-o", "%j").split()
    assert names.count(f"broker-rag_compress-compress-{run.token}") == (update.state is RunState.EXITED)
    await made.close()


async def test_a_controller_that_is_down_takes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    made = SlurmBackend(settings(cluster, script(tmp_path, "true")), environ=cluster.env)
    cluster.stop_controller()
    try:
        with pytest.raises(BackendUnavailable):
            await made.submit(run_of(tmp_path))
    finally:
        cluster.start_controller()


@pytest.mark.req("G2")
async def test_an_outage_is_no_information(cluster: Cluster, tmp_path: Path) -> None:
    made = SlurmBackend(settings(cluster, script(tmp_path, "sleep 14")), environ=cluster.env)
    run = run_of(tmp_path)
    await made.submit(run)
    seen: list[RunState] = []

    async def follow() -> None:
        async for update in made.watch(run):
            seen.append(update.state)

    following = asyncio.create_task(follow())
    while RunState.RUNNING not in seen:
        await asyncio.sleep(0.1)
    cluster.stop_controller()
    while RunState.UNKNOWN not in seen:
        await asyncio.sleep(0.1)
    cluster.start_controller()
    await asyncio.wait_for(following, 60)
    assert seen[-1] is RunState.EXITED
    await made.close()


async def test_a_token_that_slurm_never_saw_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    made = SlurmBackend(settings(cluster, script(tmp_path, "true")), environ=cluster.env)
    run = run_of(tmp_path)
    assert (await made.recover([run]))[run.token].state is RunState.LOST


async def test_recovery_finds_a_run_by_its_token_alone(cluster: Cluster, tmp_path: Path) -> None:
    body = script(tmp_path, "sleep 5")
    first = SlurmBackend(settings(cluster, body), environ=cluster.env)
    run = run_of(tmp_path)
    backend_id = await first.submit(run)
    second = SlurmBackend(settings(cluster, body), environ=cluster.env)
    found = (await second.recover([run]))[run.token]
    assert found.backend_id == backend_id
    assert not found.state.final
    assert (await states(second, run))[-1].state is RunState.EXITED
    await second.close()


@pytest.mark.req("G3")
async def test_a_requeued_run_is_followed_under_its_restart(cluster: Cluster, tmp_path: Path) -> None:
    body = script(tmp_path, '[ "${SLURM_RESTART_COUNT:-0}" = 1 ] || exec sleep 60')
    made = SlurmBackend(settings(cluster, body), environ=cluster.env)
    run = run_of(tmp_path)
    backend_id = await made.submit(run)
    updates = []
    async for update in made.watch(run):
        updates.append(update)
        if update.state is RunState.RUNNING and update.restart == 0:
            cluster.run("scontrol", "requeue", backend_id)
    assert RunState.REQUEUED in [u.state for u in updates]
    assert (updates[-1].state, updates[-1].restart) == (RunState.EXITED, 1)
    await made.close()


async def test_a_tier_that_is_busy_gives_up_in_time(cluster: Cluster, tmp_path: Path) -> None:
    holder = ["--partition=gpu-a100", "--gres=gpu:a100:1", "--output=/dev/null", "--wrap=sleep 60"]
    held = cluster.run("sbatch", "--parsable", "--time=2", *holder).strip()
    made = SlurmBackend(
        settings(cluster, script(tmp_path, "true"), slurm_start_seconds=2), environ=cluster.env
    )
    run = run_of(tmp_path, Tier.A100)
    await made.submit(run)
    assert (await states(made, run))[-1].state is RunState.NOT_STARTED
    await asyncio.to_thread(
        wait_until,
        lambda: run.token not in cluster.run("squeue", "-h", "-t", "pending", "-o", "%j"),
        "withdrawal",
    )
    cluster.run("scancel", held)
    await made.close()


async def test_one_squeue_a_tick_for_all_runs(cluster: Cluster, tmp_path: Path) -> None:
    made = SlurmBackend(settings(cluster, script(tmp_path, "sleep 2")), environ=cluster.env)
    runs = [run_of(tmp_path) for _ in range(8)]
    for run in runs:
        await made.submit(run)
    ends = await asyncio.gather(*[states(made, run) for run in runs])
    assert {updates[-1].state for updates in ends} == {RunState.EXITED}
    assert made.polls < 8 * 4
    await made.close()


async def test_a_qos_is_passed_and_preemption_requeues(accounting_cluster: Cluster, tmp_path: Path) -> None:
    """A preemptible run makes room for a normal job and runs again under the same id."""
    body = script(tmp_path, '[ "${SLURM_RESTART_COUNT:-0}" = 1 ] || exec sleep 60')
    made = SlurmBackend(
        settings(accounting_cluster, body, slurm_qos_preemptible="preemptible"),
        environ=accounting_cluster.env,
    )
    run = run_of(tmp_path, Tier.A100)
    await made.submit(run)
    updates = []
    async for update in made.watch(run):
        updates.append(update)
        if update.state is RunState.RUNNING and update.restart == 0:
            urgent = ["--partition=gpu-a100", "--gres=gpu:a100:1", "--qos=normal", "--output=/dev/null"]
            accounting_cluster.run("sbatch", "--time=1", *urgent, "--wrap=sleep 1")
    assert (updates[-1].state, updates[-1].restart) == (RunState.EXITED, 1)
    await made.close()


@pytest.mark.req("G4")
async def test_an_older_job_of_the_same_id_is_no_evidence(
    accounting_cluster: Cluster, tmp_path: Path
) -> None:
    """Accounting is asked by name: a finished job of another name with our id says nothing of our run."""
    made = SlurmBackend(
        settings(accounting_cluster, script(tmp_path, "true")), environ=accounting_cluster.env
    )
    old = run_of(tmp_path)
    old_id = await made.submit(old)
    assert (await states(made, old))[-1].state is RunState.EXITED
    fresh = run_of(tmp_path, backend_id=old_id)
    found = (await made.recover([fresh]))[fresh.token]
    assert found.state in (RunState.LOST, RunState.UNKNOWN)
    await made.close()
