"""A root of many shards as one Slurm array, hurt in every way that G3, A1 and an outage name.

The size is 50; `--slow` runs 1,000 too.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from broker.client import BrokerClient
from tests.slurm.cluster import Cluster, wait_until
from tests.slurm.test_broker import Site

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(3600)]
DONE = ("succeeded", "failed", "cancelled", "timed_out")


def corpus(folder: Path, count: int) -> None:
    """A file a shard, each with an answer of its own."""
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"pump_{number:04d}.py").write_text(
            f'"""Pump {number} of the plant."""\n\n\n'
            f"def pressure_limit_{number:04d}(flow):\n"
            f'    """The pressure limit of pump {number:04d} in bar."""\n'
            f"    return flow * {number + 3} + {number * 7}\n"
        )


def request(folder: Path) -> dict[str, Any]:
    return {
        "task_type": "rag_compress",
        "query": "What is the pressure limit of each pump?",
        "input_refs": [{"type": "directory", "uri": str(folder)}],
        "task_params": {"mode": "single_shot"},
        "constraints": {
            "final_evidence_pack_budget": 900_000,
            "remote_model_context_budget": 2_000_000,
            "max_runtime_seconds": 3600,
        },
    }


def running(cluster: Cluster) -> list[str]:
    out = cluster.run("squeue", "-h", "-r", "-t", "running", "-o", "%i %j", check=False).splitlines()
    return [line.split()[0] for line in out if " broker-" in line]


async def hurt(cluster: Cluster, count: int, client: BrokerClient, root: str) -> int:
    """Requeue a tenth of the tasks, at random, while they run; how many it were."""
    chance = random.Random(7)
    hit: set[str] = set()
    while len(hit) < count // 10:
        if (await client.status(root))["state"] in DONE:
            break
        ids = sorted(set(await asyncio.to_thread(running, cluster)) - hit)
        for task in chance.sample(ids, min(2, len(ids), count // 10 - len(hit))):
            await asyncio.to_thread(cluster.run, "scontrol", "requeue", task, check=False)
            hit.add(task)
        await asyncio.sleep(0.5)
    return len(hit)


async def survive(site: Site, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The root's status and pack after requeues, a controller restart and a broker kill."""
    folder = site.home.parent / "data"
    corpus(folder, count)
    with site.serving() as broker:
        async with site.client() as client:
            root = (await client.submit(request(folder)))["job_id"]
            await asyncio.to_thread(wait_until, lambda: bool(running(site.cluster)), "a task", 120)
            assert await hurt(site.cluster, count, client, root)
            await asyncio.to_thread(site.cluster.stop_controller)
            await asyncio.to_thread(site.cluster.start_controller)
            assert (await client.status(root))["state"] == "running"
        os.killpg(broker.pid, signal.SIGKILL)
        broker.wait()
    with site.serving():
        async with site.client() as client:
            while (status := await client.status(root, wait=30))["state"] not in DONE:
                pass
            return status, await client.result(root)


def check(site: Site, status: dict[str, Any], pack: dict[str, Any], count: int) -> None:
    assert status["state"] == "succeeded"
    assert pack["payload"]["coverage"].get("shards_failed", []) == []
    cited = Counter(item["source_refs"][0]["path"] for item in pack["payload"]["evidence"])
    assert cited == {f"pump_{number:04d}.py": 1 for number in range(count)}
    results = [run.parent.parent.name for run in (site.home / "runs").rglob("attempts/*/result.json")]
    assert len(results) >= count + 1  # the shards, and the root's own


async def test_fifty_shards_survive(cluster: Cluster, tmp_path: Path) -> None:
    site = Site(cluster, tmp_path, {"BROKER_SHARD_FILES": "1", "BROKER_SLURM_ARRAY_RUNNING": "6"})
    before = set(site.jobs())
    status, pack = await survive(site, 50)
    check(site, status, pack, 50)
    assert len(set(site.jobs()) - before) <= 2  # one array; the kill may have cut the shards in two


@pytest.mark.slow
async def test_a_thousand_shards_survive(cluster: Cluster, tmp_path: Path) -> None:
    site = Site(cluster, tmp_path, {"BROKER_SHARD_FILES": "1", "BROKER_SLURM_ARRAY_RUNNING": "8"})
    status, pack = await survive(site, 1000)
    check(site, status, pack, 1000)
