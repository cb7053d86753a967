"""Faults and attacks on a real broker process: kills, a second broker, odd callers, altered files."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from broker.auth import create_token
from broker.client import BrokerClient, NoBroker, Refused
from tests.integration.broker_server import Server, finished, server, small_tree, until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("faults")) as found:
        yield found


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


@pytest.mark.req("A14")
def test_a_second_broker_is_refused_with_a_clear_message(broker: Server) -> None:
    second = Server(broker.home, broker.roots)
    announced = (broker.home / "broker.json").read_text()
    second.start(check=False)
    assert second.process is not None
    status = second.process.wait(timeout=60)
    assert second.process.stdout is not None
    second.process.stdout.close()
    (broker.home / "broker.json").write_text(announced)  # Server.start cleared it for its own wait
    assert status != 0
    assert "another broker" in second.errors()


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


@pytest.mark.req("F3")
async def test_another_namespaces_id_is_as_unknown_as_a_guess(broker: Server) -> None:
    token = create_token(broker.home, "stranger", namespace="elsewhere", roles=["user"])
    async with broker.client() as client:
        mine = (await client.submit(broker.request("header")))["job_id"]
        record = await finished(client, mine)
    guess = "job_" + "0" * 26
    auth = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(broker.url, headers=auth) as http:
        for method, path in (
            ("GET", "/v1/jobs/{}"),
            ("GET", "/v1/jobs/{}/result"),
            ("GET", "/v1/jobs/{}/logs"),
            ("GET", "/v1/jobs/{}/events"),
            ("GET", "/v1/roots/{}"),
            ("POST", "/v1/jobs/{}:cancel"),
        ):
            seen = []
            for job_id in (mine, guess):
                async with http.request(method, path.format(job_id)) as response:
                    seen.append((response.status, await response.text()))
            assert seen[0] == seen[1]
            assert seen[0][0] == 404
        pack = record["evidence_pack_id"]
        async with http.get(f"/v1/rag/evidence-packs/{pack}/metadata") as response:
            assert response.status == 404
        body = broker.request(input_refs=[{"type": "artifact", "uri": f"artifact://{pack}"}])
        async with http.post("/v1/jobs", json=body) as response:
            assert response.status == 422
        async with http.get("/v1/jobs") as response:
            assert (await response.json())["jobs"] == []


@pytest.mark.req("F7")
@pytest.mark.req("F8")
async def test_hosts_origins_and_tokens_are_checked_before_anything(broker: Server) -> None:
    good = {"Authorization": f"Bearer {broker.token}"}
    cases: list[tuple[dict[str, str], int]] = [
        (good, 200),
        ({**good, "Origin": "http://localhost:3000"}, 200),
        ({**good, "Origin": "https://evil.example"}, 403),
        ({**good, "Origin": "null"}, 403),
        ({**good, "Host": "evil.example"}, 403),
        ({**good, "Host": "127.0.0.1.evil.example"}, 403),
        ({}, 401),
        ({"Authorization": "Bearer " + "A" * 43}, 401),
    ]
    async with aiohttp.ClientSession(broker.url) as http:
        for headers, status in cases:
            async with http.get("/v1/jobs", headers=headers) as response:
                assert response.status == status, headers
        async with http.get("/healthz", headers={"Host": "evil.example"}) as response:
            assert response.status == 403


@pytest.mark.req("F9")
async def test_logs_are_json_lines_without_tokens_bodies_or_injected_lines(broker: Server) -> None:
    canary = "canary-9f2c-in-a-body"
    headers = {
        "Authorization": f"Bearer {broker.token}",
        "User-Agent": 'x","level":"fatal',
        "X-Request-ID": 'forged"} {"level":"fatal"',
    }
    async with aiohttp.ClientSession(broker.url, headers=headers) as http:
        body = broker.request(canary, input_refs=[{"type": "file", "uri": "/etc/%0a" + canary}])
        async with http.post("/v1/jobs", json=body) as response:
            assert response.status == 422
            assert response.headers["X-Request-ID"] != headers["X-Request-ID"]
        async with http.get("/v1/jobs/%0a%1b[31mforged") as response:
            assert response.status == 404
    text = broker.errors()
    assert canary not in text
    assert broker.token not in text
    assert "\x1b" not in text
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert all(line["level"] != "fatal" for line in lines)
    assert len(lines) >= 2


@pytest.mark.req("F10")
async def test_an_altered_or_missing_artifact_is_never_served(tmp_path: Path) -> None:
    with server(tmp_path) as broker:
        async with broker.client() as client:
            job_id = (await client.submit(broker.request("header")))["job_id"]
            record = await finished(client, job_id)
            attempt = broker.home / "runs" / job_id[-2:] / job_id / "attempts" / "1"
            result, whole = attempt / "result.json", attempt / "artifacts" / "evidence_pack.json"
            before = result.read_bytes()
            result.write_bytes(before.replace(b"parse_header", b"parse_footer"))
            whole.write_bytes(b"{}")
            for path in (
                f"/v1/jobs/{job_id}/result",
                f"/v1/rag/evidence-packs/{record['evidence_pack_id']}/metadata",
            ):
                with pytest.raises(Refused) as refusal:
                    await client.call("GET", path)
                assert (refusal.value.status, refusal.value.code) == (410, "ARTIFACT_CORRUPT")
            result.unlink()
            result.symlink_to("/etc/hostname")
            with pytest.raises(Refused) as refusal:
                await client.result(job_id)
            assert refusal.value.status == 410
            result.unlink()
            result.write_bytes(before)
            assert (await client.result(job_id))["schema_name"] == "rag_evidence_pack_v1"


@pytest.mark.req("F6")
async def test_idle_and_slow_connections_leave_others_served(broker: Server) -> None:
    host, port = broker.url.removeprefix("http://").split(":")
    held = [socket.create_connection((host, int(port))) for _ in range(200)]
    try:
        for slow in held[::2]:
            slow.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: local")
        async with broker.client() as client:
            handle = await client.submit(broker.request("header"))
            slow_reader = socket.create_connection((host, int(port)))
            held.append(slow_reader)
            slow_reader.sendall(
                f"GET /v1/jobs/{handle['job_id']}/events HTTP/1.1\r\nHost: {host}\r\n"
                f"Authorization: Bearer {broker.token}\r\n\r\n".encode()
            )
            assert (await finished(client, handle["job_id"]))["state"] == "succeeded"
    finally:
        for one in held:
            one.close()


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


async def test_a_planted_secret_reaches_no_pack_log_or_database(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"[:36]
    with server(tmp_path) as broker:
        (broker.roots / "deploy.py").write_text(f'def deploy():\n    token = "{secret}"\n    push(token)\n')
        async with broker.client() as client:
            job_id = (await client.submit(broker.request("which token does deploy push?")))["job_id"]
            await finished(client, job_id)
            answers: list[Any] = [
                await client.result(job_id),
                await client.status(job_id),
                await client.logs(job_id),
            ]
        assert secret not in json.dumps(answers)
        assert secret not in broker.errors()
        for file in broker.home.glob("broker.db*"):
            assert secret.encode() not in file.read_bytes()
        for file in (broker.home / "cache").rglob("*"):
            assert not file.is_file() or secret.encode() not in file.read_bytes()


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
