"""Slurm, on a real cluster of eight nodes on this machine: what the broker adds, and what watching costs.

    python bench/slurm.py start [--runs 15]      submit -> worker's first line, against bare sbatch
    python bench/slurm.py watch [--shards 1000]  a root of sleeping shards: arrays, squeue calls, processor

Wanted: start at most 0.3 s over bare sbatch; one array, at most one squeue a second, at most 5 % of a core.
Needs what tests/slurm needs: root, and Debian's Slurm packages.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from broker.client import BrokerClient
from tests.slurm.cluster import Cluster, wait_until

SAMPLE_SECONDS = 60.0
TICK = os.sysconf("SC_CLK_TCK")
MARK = "#!/bin/bash\ndate +%s.%N > {mark}.new\nmv {mark}.new {mark}\n"


def request(folder: Path) -> dict[str, Any]:
    """A question over a folder, without loop."""
    return {
        "task_type": "rag_compress",
        "query": "What is the limit of each pump?",
        "input_refs": [{"type": "directory", "uri": str(folder)}],
        "task_params": {"mode": "single_shot"},
    }


@contextmanager
def broker(cluster: Cluster, folder: Path, **settings: str) -> Iterator[int]:
    """A broker process on the cluster; gives its id. squeue is called through a program that counts."""
    real = shutil.which("squeue", path=cluster.env["PATH"])
    shims = folder / "bin"
    shims.mkdir(exist_ok=True)
    squeue = shims / "squeue"
    squeue.write_text(f'#!/bin/sh\necho >> {folder}/polls\nexec {real} "$@"\n')
    squeue.chmod(0o755)
    env = {
        **cluster.env,
        "PATH": f"{shims}:{cluster.env['PATH']}",
        "BROKER_HOME": str(folder / "home"),
        "BROKER_LISTEN": "127.0.0.1:0",
        "BROKER_ALLOWED_ROOTS": str(folder / "data"),
        "BROKER_BACKEND": "slurm",
        "BROKER_SLURM_PARTITION_CPU": "cpu",
        "BROKER_DRAIN_SECONDS": "1",
        **settings,
    }
    with open(folder / "broker.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "broker.cli", "serve"], env=env, stderr=log, stdout=log
        )
    try:
        wait_until((folder / "home" / "broker.json").exists, "a broker", 60)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def processor_seconds(pid: int) -> float:
    """What a process and its ended children took so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICK


async def start(cluster: Cluster, folder: Path, runs: int) -> dict[str, Any]:
    """Seconds from asking to the batch script's first line, bare and through the broker, in turns."""
    (folder / "data").mkdir()
    (folder / "data" / "pump.py").write_text("LIMIT = 3\n")
    mark = folder / "mark"
    script = folder / "mark.sh"
    script.write_text(MARK.format(mark=mark) + 'exec "$AGENTLOOP_PYTHON" -m agentloop.worker "$@"\n')
    bare: list[float] = []
    ours: list[float] = []

    async def marked(began: float) -> float:
        while not mark.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        at = float(mark.read_text())
        mark.unlink()
        return at - began

    argv = ["sbatch", "--parsable", "--partition=cpu", "--cpus-per-task=2", "--mem=8192M", "--time=17"]
    alone = folder / "alone.sh"
    alone.write_text(MARK.format(mark=mark))
    with broker(cluster, folder, BROKER_SLURM_SCRIPT_PATH=str(script), AGENTLOOP_CACHE="off"):
        async with BrokerClient.local(folder / "home") as client:
            for number in range(runs + 1):
                began = time.time()
                await asyncio.to_thread(cluster.run, *argv, "--output=/dev/null", str(alone))
                bare.append(await marked(began))
                began = time.time()
                job = await client.submit(request(folder / "data"))
                ours.append(await marked(began))
                status = await client.status(job["job_id"], wait=50)
                if status["state"] != "succeeded":
                    raise RuntimeError(f"a job is {status['state']}: {status.get('error')}")
                if number == 0:
                    bare.clear()  # the first of each is warm-up
                    ours.clear()
    plain, through = statistics.median(bare), statistics.median(ours)
    return {
        "runs": runs,
        "bare_sbatch_p50": round(plain, 3),
        "broker_p50": round(through, 3),
        "overhead_p50": round(through - plain, 3),
        "load": os.getloadavg()[0],
    }


async def watch(cluster: Cluster, folder: Path, shards: int) -> dict[str, Any]:
    """The steady cost of a root whose shards sleep."""
    (folder / "data").mkdir()
    for number in range(shards):
        (folder / "data" / f"pump_{number:04d}.py").write_text(f"LIMIT = {number}\n")
    script = folder / "sleep.sh"
    script.write_text("#!/bin/bash\nexec sleep 600\n")
    settings = {
        "BROKER_SLURM_SCRIPT_PATH": str(script),
        "BROKER_SHARD_FILES": "1",
        "BROKER_HEARTBEAT_SECONDS": "3600",  # a payload that sleeps says nothing
    }
    with broker(cluster, folder, **settings) as pid:
        async with BrokerClient.local(folder / "home") as client:
            began = time.monotonic()
            root = (await client.submit(request(folder / "data")))["job_id"]
            count = lambda: len(tasks(cluster))  # noqa: E731
            await asyncio.to_thread(wait_until, lambda: count() >= shards, "all tasks", 600)
            submitted = time.monotonic() - began
            await asyncio.sleep(20)
            polls, spent, at = lines(folder), processor_seconds(pid), time.monotonic()
            await asyncio.sleep(SAMPLE_SECONDS)
            elapsed = time.monotonic() - at
            result = {
                "shards": shards,
                "arrays": len({task.partition("_")[0] for task in tasks(cluster)}),
                "submit_seconds": round(submitted, 1),
                "squeue_per_second": round((lines(folder) - polls) / elapsed, 2),
                "core_percent": round(100 * (processor_seconds(pid) - spent) / elapsed, 1),
                "load": os.getloadavg()[0],
            }
            await client.cancel(root)
            await asyncio.to_thread(cluster.run, "scancel", "--user=root")
    return result


def tasks(cluster: Cluster) -> list[str]:
    """Ids of all tasks of the broker's jobs."""
    out = cluster.run("squeue", "-h", "-r", "-o", "%i %j", check=False).splitlines()
    return [line.split()[0] for line in out if " broker-" in line]


def lines(folder: Path) -> int:
    """How often squeue was called by the broker."""
    return (folder / "polls").read_bytes().count(b"\n")


def main() -> None:
    """Start a cluster, measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("start", "watch"))
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--shards", type=int, default=1000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-slurm-") as name:
        cluster = Cluster(Path(name) / "cluster")
        cluster.root.mkdir()
        try:
            cluster.start()
            made = start(cluster, Path(name), args.runs) if args.what == "start" else None
            print(json.dumps(asyncio.run(made or watch(cluster, Path(name), args.shards)), indent=2))
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
