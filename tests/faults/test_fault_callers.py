"""Odd callers of a real broker process, a second broker beside it, altered files, planted secrets."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from broker.auth import create_token
from broker.client import Refused
from tests.integration.broker_server import Server, finished, server


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("faults")) as found:
        yield found


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


@pytest.mark.req("E8")
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
