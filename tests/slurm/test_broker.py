"""A broker process in front of a real cluster: jobs, kills at the worst moments, drains, cancels."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.client import BrokerClient
from tests.slurm.cluster import Cluster, wait_until

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(180)]
SHOP = Path(__file__).resolve().parents[2] / "examples" / "shop"


class Site:
    """A BROKER_HOME on the cluster, and the broker that serves it."""

    def __init__(self, cluster: Cluster, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.cluster, self.home = cluster, folder / "home"
        self.settings = {"BROKER_ALLOWED_ROOTS": str(folder / "data"), **settings} if settings else {}
        self.bin = folder / "bin"
        self.bin.mkdir()

    def env(self, *, shims: bool) -> dict[str, str]:
        path = f"{self.bin}:{self.cluster.env['PATH']}" if shims else self.cluster.env["PATH"]
        return {
            **self.cluster.env,
            "PATH": path,
            "BROKER_HOME": str(self.home),
            "BROKER_LISTEN": "127.0.0.1:0",
            "BROKER_ALLOWED_ROOTS": str(SHOP),
            "BROKER_BACKEND": "slurm",
            "BROKER_SLURM_PARTITION_CPU": "cpu",
            "BROKER_SLURM_POLL_SECONDS": "1",
            **self.settings,
        }

    def shim(self, body: str) -> None:
        """An sbatch in front of the real one, which `$REAL` names."""
        real = shutil.which("sbatch", path=self.cluster.env["PATH"])
        file = self.bin / "sbatch"
        file.write_text(f"#!/bin/bash\nREAL={real}\n{body}\n")
        file.chmod(0o755)

    @contextmanager
    def serving(self, *, shims: bool = False) -> Iterator[subprocess.Popen[bytes]]:
        """A broker process until the block ends."""
        with open(self.home.parent / "broker.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "broker.cli", "serve"],
                env=self.env(shims=shims),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            wait_until(lambda: self._up(process), "a broker that answers", 60)
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(60)

    def _up(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether this process announced itself: one that was killed leaves its announcement behind."""
        assert process.poll() is None, (self.home.parent / "broker.log").read_text("utf-8")
        try:
            found: dict[str, Any] = json.loads((self.home / "broker.json").read_text())
        except FileNotFoundError:
            return False
        return bool(found["pid"] == process.pid)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[BrokerClient]:
        async with BrokerClient.local(self.home) as client:
            yield client

    def jobs(self) -> list[str]:
        """Names of all broker jobs that the controller knows."""
        names = self.cluster.run("squeue", "-h", "-t", "all", "-o", "%j").split()
        return [name for name in names if name.startswith("broker-")]

    def slurm_id(self, token: str) -> str:
        """Slurm's id of the run that carries a token."""
        rows = self.cluster.run("squeue", "-h", "-o", "%i %j").splitlines()
        return next(row.split()[0] for row in rows if row.endswith(token))


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Site:
    return Site(cluster, tmp_path)


REQUEST: dict[str, Any] = {
    "task_type": "rag_compress",
    "query": "How is the bulk discount computed?",
    "input_refs": [{"type": "directory", "uri": str(SHOP)}],
    "task_params": {"mode": "single_shot"},
}


async def finished(client: BrokerClient, job_id: str) -> dict[str, Any]:
    """The status of a job once it has ended."""
    status: dict[str, Any] = {}
    for _ in range(12):
        status = await client.status(job_id, wait=10)
        if status["state"] in ("succeeded", "failed", "cancelled", "timed_out"):
            break
    return status


async def test_a_job_runs_on_the_cluster(site: Site) -> None:
    with site.serving():
        async with site.client() as client:
            handle = await client.submit(REQUEST)
            status = await finished(client, handle["job_id"])
            assert (status["state"], status["backend"]) == ("succeeded", "slurm")
            pack = await client.result(handle["job_id"])
    assert pack["payload"]["evidence"][0]["source_refs"][0]["path"] == "shop/pricing.py"


@pytest.mark.req("A1")
async def test_killed_after_sbatch_accepted_the_run_is_adopted(site: Site) -> None:
    accepted = site.home.parent / "accepted"
    site.shim(f'out=$("$REAL" "$@"); touch {accepted}; sleep 60; echo "$out"')
    before = len(site.jobs())
    with site.serving(shims=True) as broker:
        async with site.client() as client:
            job_id = (await client.submit(REQUEST))["job_id"]
            await asyncio.to_thread(wait_until, accepted.exists, "sbatch")
            os.killpg(broker.pid, signal.SIGKILL)
            broker.wait()
    with site.serving():
        async with site.client() as client:
            assert (await finished(client, job_id))["state"] == "succeeded"
            assert (await client.result(job_id))["payload"]["evidence"]
    assert len(site.jobs()) == before + 1


@pytest.mark.req("A2")
async def test_killed_before_sbatch_ran_the_run_is_submitted_once(site: Site) -> None:
    called = site.home.parent / "called"
    site.shim(f"touch {called}; sleep 60")
    before = len(site.jobs())
    with site.serving(shims=True) as broker:
        async with site.client() as client:
            job_id = (await client.submit(REQUEST))["job_id"]
            await asyncio.to_thread(wait_until, called.exists, "sbatch")
            os.killpg(broker.pid, signal.SIGKILL)
            broker.wait()
    with site.serving():
        async with site.client() as client:
            assert (await finished(client, job_id))["state"] == "succeeded"
    assert len(site.jobs()) == before + 1


@pytest.mark.req("A13")
async def test_a_drained_broker_leaves_its_runs_to_the_next(site: Site, cluster: Cluster) -> None:
    cluster.run("scontrol", "update", "PartitionName=cpu", "State=DOWN")
    with site.serving() as broker:
        async with site.client() as client:
            job_id = (await client.submit(REQUEST))["job_id"]
            await asyncio.to_thread(wait_until, lambda: any(site.jobs()), "submission")
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(60) == 0
    cluster.run("scontrol", "update", "PartitionName=cpu", "State=UP")
    with site.serving():
        async with site.client() as client:
            assert (await finished(client, job_id))["state"] == "succeeded"


def corpus(folder: Path) -> Path:
    """Enough text for its chunks and index to be kept as a checkpoint (8 MiB), one function of interest."""
    folder.mkdir(parents=True)
    for number in range(30):
        lines = (f"def step_{number}_{n}(value):\n    return value + {n}\n\n\n" for n in range(6500))
        (folder / f"steps_{number}.py").write_text("".join(lines))
    (folder / "tariff.py").write_text("def tariff(weight):\n    return 3 * weight\n")
    return folder


@pytest.mark.req("G3")
async def test_a_job_requeued_after_its_index_takes_it_from_the_checkpoint(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = corpus(tmp_path / "data" / "steps")
    site = Site(cluster, tmp_path, {"BROKER_WARM_HOSTS": "0"})
    ref = {"type": "directory", "uri": str(folder)}
    asked = {"query": "how is the tariff of a weight made?", "input_refs": [ref]}
    with site.serving():
        async with site.client() as client:
            job_id = (await client.submit({**REQUEST, **asked}))["job_id"]
            run_dir = site.home / "runs" / job_id[-2:] / job_id

            def indexed() -> bool:
                return any(run_dir.glob("checkpoints/1/*/stages.json"))

            await asyncio.to_thread(wait_until, indexed, "checkpoint", 90)
            first = run_dir / "attempts" / "1"
            worker = json.loads((first / "claim.json").read_text())["pid"]
            os.kill(worker, signal.SIGSTOP)  # it goes no further before Slurm takes it off its node
            assert not (first / "result.json").exists()
            token = json.loads((run_dir / "execution_plan.json").read_text())["token"]
            cluster.run("scontrol", "requeue", site.slurm_id(token))
            status = await finished(client, job_id)
            assert status["state"] == "succeeded", status
            assert status["attempt"] == 1
            assert {"chunks", "index"} <= set(status["cache"]["layers"])
            pack = await client.result(job_id)
    assert pack["payload"]["evidence"][0]["source_refs"][0]["path"] == "tariff.py"
    assert not (first / "result.json").exists()
    assert (run_dir / "attempts" / "1.1" / "result.json").exists()
    assert not (run_dir / "checkpoints" / "1").exists()


@pytest.mark.req("G5")
async def test_cancel_races_completion(site: Site) -> None:
    with site.serving():
        async with site.client() as client:
            ids = [(await client.submit(REQUEST))["job_id"] for _ in range(4)]
            for number, job_id in enumerate(ids):
                await asyncio.sleep(0.4 * number)
                await client.cancel(job_id)
            for job_id in ids:
                status = await finished(client, job_id)
                assert status["state"] in ("succeeded", "cancelled")
                visible = await client.call("GET", f"/v1/jobs/{job_id}") | {}
                assert bool(visible["evidence_pack_id"]) == (status["state"] == "succeeded")


async def test_metadata_names_the_run(site: Site) -> None:
    with site.serving():
        async with site.client() as client:
            job_id = (await client.submit(REQUEST))["job_id"]
            assert (await finished(client, job_id))["state"] == "succeeded"
    run_dir = next((site.home / "runs").rglob("execution_plan.json")).parent
    plan = json.loads((run_dir / "execution_plan.json").read_text())
    assert plan["stages"][0]["job_type"] == "rag_discovery"
    assert plan["one_worker"]
