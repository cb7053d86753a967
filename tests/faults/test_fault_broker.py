"""Faults of a real broker process: kills, workers that die, children left behind, a full disk."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from broker.client import BrokerClient, NoBroker, Refused
from tests.integration.broker_server import Server, finished, server, small_tree, until


def sound(home: Path) -> None:
    """The database's own checks."""
    with closing(sqlite3.connect(home / "broker.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        results = "SELECT job_id, count(*) FROM artifacts WHERE kind = 'result' GROUP BY job_id"
        assert all(count == 1 for _, count in db.execute(results))
        orphans = "SELECT count(*) FROM artifacts JOIN jobs USING (job_id) WHERE jobs.state <> 'succeeded'"
        assert db.execute(orphans).fetchone()[0] == 0


@pytest.mark.req("A3")
@pytest.mark.req("A5")
async def test_kill_9_in_a_storm_loses_no_accepted_job_and_doubles_none(tmp_path: Path) -> None:
    broker = Server(tmp_path / "home", small_tree(tmp_path / "data"))
    accepted: dict[str, str] = {}
    try:
        for round_number in range(2):
            broker.start()
            async with broker.client() as client:

                async def one(key: str, client: BrokerClient = client) -> None:
                    handle = await client.submit(broker.request("header", idempotency_key=key))
                    assert accepted.setdefault(key, handle["job_id"]) == handle["job_id"]

                keys = [f"key-{n}" for n in range(8 * (round_number + 1))]
                storm = asyncio.gather(*(one(key) for key in keys), return_exceptions=True)
                enough = 4 * round_number + 2
                await until(lambda enough=enough: asyncio.sleep(0, len(accepted) > enough))  # type: ignore[misc]
                broker.kill(signal.SIGKILL)
                for outcome in await storm:
                    assert outcome is None or isinstance(outcome, NoBroker), outcome
            sound(broker.home)
        broker.start()
        async with broker.client() as client:
            for key, job_id in list(accepted.items()):
                again = await client.submit(broker.request("header", idempotency_key=key))
                assert again["job_id"] == job_id
                assert (await finished(client, job_id))["state"] == "succeeded"
            page = await client.list(limit="200")
            assert len({job["job_id"] for job in page["jobs"]}) == len(page["jobs"])
        broker.kill(signal.SIGTERM)
        sound(broker.home)
    finally:
        broker.stop()


@pytest.mark.req("A13")
async def test_sigterm_drains_and_the_rest_runs_after_the_restart(tmp_path: Path) -> None:
    broker = Server(tmp_path / "home", small_tree(tmp_path / "data"), {"BROKER_WORKERS": "1"})
    broker.start()
    try:
        async with broker.client() as client:
            ids = [(await client.submit(broker.request(f"header {n}")))["job_id"] for n in range(4)]
            await until(lambda: _is(client, ids[0], {"running", "succeeded"}))
        assert broker.kill(signal.SIGTERM) == 0
        assert not (broker.home / "broker.json").exists()
        sound(broker.home)
        broker.start()
        async with broker.client() as client:
            for job_id in ids:
                assert (await finished(client, job_id))["state"] == "succeeded"
    finally:
        broker.stop()


async def _is(client: BrokerClient, job_id: str, states: set[str]) -> bool:
    return (await client.status(job_id))["state"] in states


@pytest.mark.req("A4")
@pytest.mark.req("A15")
async def test_a_worker_killed_each_time_ends_its_job_and_no_other(tmp_path: Path) -> None:
    with server(tmp_path, BROKER_MAX_ATTEMPTS="2", BROKER_WARM_HOSTS="0") as broker:
        async with broker.client() as client:
            victim = (await client.submit(broker.request("header")))["job_id"]
            attempts = broker.home / "runs" / victim[-2:] / victim / "attempts"
            for label in ("1", "2"):
                beat = attempts / label / "heartbeat.json"
                await until(lambda beat=beat: asyncio.sleep(0, beat.exists()))  # type: ignore[misc]
                _kill(int(json.loads(beat.read_bytes())["pid"]))
            record = await finished(client, victim)
            assert record["state"] == "failed"
            assert record["attempt"] == 2
            assert record["retry"]["recommended"] is True
            with pytest.raises(Refused) as refusal:
                await client.call("GET", f"/v1/rag/evidence-packs/{victim}/metadata")
            assert refusal.value.status == 404
            assert "error" in await client.result(victim)
            other = (await client.submit(broker.request("back_off")))["job_id"]
            assert (await finished(client, other))["state"] == "succeeded"


def _kill(pid: int) -> None:
    import os

    os.kill(pid, signal.SIGKILL)


async def test_cancel_stops_a_running_job_and_repeats_harmlessly(tmp_path: Path) -> None:
    with server(tmp_path, BROKER_WORKERS="1") as broker:
        async with broker.client() as client:
            running = (await client.submit(broker.request("header")))["job_id"]
            queued = (await client.submit(broker.request("back_off")))["job_id"]
            assert (await client.cancel(queued))["state"] == "cancelled"
            await client.cancel(running)
            record = await finished(client, running)
            assert record["state"] in {"cancelled", "succeeded"}
            assert (await client.cancel(running))["state"] == record["state"]
            body = await client.call("GET", f"/v1/jobs/{queued}")
            assert body["cancel_requested"] is True
            with pytest.raises(Refused) as refusal:
                await client.result(queued)
            assert refusal.value.code == "NO_RESULT"


_LEAVES_A_CHILD = """
import os, subprocess, sys, time
from broker.backends.forking import Order, fork_worker, reap
order = Order("t", sys.argv[1], "1", 0, 0, 0)
order.attempt.mkdir(parents=True)


def run():
    child = subprocess.Popen(["sleep", "600"])
    print(child.pid, flush=True)
    return 0

pid = fork_worker(order, run)
while not (ended := reap()):
    time.sleep(0.01)
print(ended == [(pid, 0)])
"""


@pytest.mark.req("F13")
def test_a_child_that_a_worker_left_behind_is_gone_with_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LEAVES_A_CHILD, str(tmp_path)], capture_output=True, timeout=60, check=True
    )
    assert done.stdout.decode().strip() == "True"
    child = int((tmp_path / "attempts" / "1" / "stdout.log").read_text())

    def gone() -> bool:
        try:
            state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        return state == "Z"

    async def check() -> bool:
        return gone()

    asyncio.run(until(check, 5))


def children(pid: int) -> list[int]:
    """Child processes, from /proc."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


@pytest.mark.req("A4")
@pytest.mark.req("F13")
async def test_the_processes_behind_workers_may_die_and_are_replaced(tmp_path: Path) -> None:
    with server(tmp_path, BROKER_WORKERS="1") as broker:
        assert broker.process is not None
        async with broker.client() as client:
            first = (await client.submit(broker.request("header")))["job_id"]
            await finished(client, first)
            (zygote,) = children(broker.process.pid)
            (host,) = children(zygote)
            second = (await client.submit(broker.request("header colon")))["job_id"]
            await until(lambda: _is(client, second, {"running", "succeeded"}))
            _kill(host)
            assert (await finished(client, second))["state"] == "succeeded"
            third = (await client.submit(broker.request("back_off")))["job_id"]
            await until(lambda: _is(client, third, {"running", "succeeded"}))
            _kill(zygote)
            assert (await finished(client, third))["state"] == "succeeded"
            assert zygote not in children(broker.process.pid)
        left = children(broker.process.pid)
    for pid in [zygote, host, *left]:
        assert not Path(f"/proc/{pid}").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MB; skipped where none can be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("needs the right to mount a tmpfs")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.req("A6")
async def test_a_full_disk_refuses_submits_and_all_recovers_with_room(
    tmp_path: Path, small_disk: Path
) -> None:
    broker = Server(small_disk / "home", small_tree(tmp_path / "data"))
    broker.start()
    try:
        async with broker.client() as client:
            before = (await client.submit(broker.request("header")))["job_id"]
            await finished(client, before)
            fill(small_disk / "fill")
            for number in range(5):
                with pytest.raises(Refused) as refusal:
                    await client.submit(broker.request(f"{number} " + "y" * 90_000))
                assert (refusal.value.status, refusal.value.code) == (507, "STORAGE_FULL")
                assert refusal.value.retry_after is not None
            with pytest.raises(Refused):
                await client.call("GET", "/readyz")
            assert len((await client.list())["jobs"]) == 1
            (small_disk / "fill").unlink()
            after = (await client.submit(broker.request("back_off")))["job_id"]
            assert (await finished(client, after))["state"] == "succeeded"
            assert (await client.call("GET", "/readyz"))["status"] == "ok"
        broker.kill(signal.SIGTERM)
        sound(broker.home)
    finally:
        broker.stop()


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 65_536)
