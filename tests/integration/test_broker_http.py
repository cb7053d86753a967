"""The HTTP API of a real broker process, and the specification's flows over it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from broker.client import Refused
from tests.integration.broker_server import Server, finished, server


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("http")) as found:
        yield found


async def test_a_submitted_request_becomes_a_pack(broker: Server) -> None:
    async with broker.client() as client:
        handle = await client.submit(broker.request())
        assert set(handle) >= {"job_id", "state", "result_schema", "cache", "status_url", "result_url"}
        assert handle["result_schema"] == "rag_evidence_pack_v1"
        record = await finished(client, handle["job_id"])
        assert record["state"] == "succeeded"
        pack = await client.result(handle["job_id"])
        assert pack["schema_name"] == "rag_evidence_pack_v1"
        assert any("parser" in ref["path"] for e in pack["payload"]["evidence"] for ref in e["source_refs"])
        assert "artifacts" not in pack
        whole = await client.result(handle["job_id"], include_artifacts=True)
        kinds = {artifact["kind"] for artifact in whole["artifacts"]}
        assert {"evidence_pack", "result", "input_manifest"} <= kinds


@pytest.mark.parametrize(
    ("path", "body", "schema"),
    [
        ("/v1/rag/compressions", {"query": "parser?"}, "rag_evidence_pack_v1"),
        ("/v1/rag/debug-sessions", {"problem": "fatal error gen.h"}, "debug_evidence_pack_v1"),
        ("/v1/logs:summarize", {"task_params": {"query": "root failure"}}, "log_evidence_pack_v1"),
        ("/v1/repos:inspect", {"task_params": {"query": "where is back_off?"}}, "repo_inspection_pack_v1"),
    ],
)
async def test_each_convenience_endpoint_is_its_task(
    broker: Server, path: str, body: dict[str, Any], schema: str
) -> None:
    refs = [{"type": "directory", "uri": f"file://{broker.roots}"}]
    async with broker.client() as client:
        handle = await client.call("POST", path, body={**body, "input_refs": refs}, query={"wait": "60"})
        assert handle["state"] == "succeeded"
        assert (await client.result(handle["job_id"]))["schema_name"] == schema
        with pytest.raises(Refused) as refusal:
            await client.call("POST", path, body={**body, "input_refs": refs, "task_type": "nonsense"})
        assert refusal.value.status == 422


async def test_events_stream_to_the_end_and_resume(broker: Server) -> None:
    async with broker.client() as client:
        handle = await client.submit(broker.request("how does back_off work?"))
        seen = [(kind, data) async for kind, data in client.events(handle["job_id"])]
        kinds = [kind for kind, _ in seen]
        assert kinds[0] == "queued"
        assert kinds[-1] == "end"
        assert seen[-1][1]["state"] == "succeeded"
        middle = seen[len(seen) // 2][1]["seq"]
        rest = [data["seq"] async for _, data in client.events(handle["job_id"], middle)]
        assert rest[:-1] == [data["seq"] for _, data in seen if data["seq"] > middle][:-1]


async def test_logs_are_structured_and_hold_no_input_text(broker: Server) -> None:
    async with broker.client() as client:
        handle = await client.submit(broker.request("gen.h No such file"))
        await finished(client, handle["job_id"])
        logs = await client.logs(handle["job_id"])
        assert [e["seq"] for e in logs["events"]] == sorted(e["seq"] for e in logs["events"])
        assert {"queued", "running", "stage", "attempt_ended"} <= {e["kind"] for e in logs["events"]}
        assert "gen.h" not in json.dumps(logs)


async def test_list_pages_newest_first_and_filters(broker: Server) -> None:
    async with broker.client() as client:
        ids = [(await client.submit(broker.request(f"parser {n}")))["job_id"] for n in range(3)]
        for job_id in ids:
            await finished(client, job_id)
        first = await client.list(limit="2")
        assert [job["job_id"] for job in first["jobs"]] == ids[:0:-1]
        second = await client.list(limit="2", cursor=first["next_cursor"])
        assert second["jobs"][0]["job_id"] == ids[0]
        none = await client.list(state="failed", task_type="inspect_repo")
        assert none["jobs"] == []


async def test_statuses_of_refusals(broker: Server) -> None:
    async with aiohttp.ClientSession(broker.url) as http:
        auth = {"Authorization": f"Bearer {broker.token}"}

        async def status(method: str, path: str, **more: Any) -> tuple[int, str]:
            async with http.request(method, path, **{"headers": auth, **more}) as response:
                body = await response.json()
                assert set(body["error"]) == {"code", "message", "retryable", "stage", "details"}
                return response.status, body["error"]["code"]

        assert await status("GET", "/v1/jobs", headers={}) == (401, "UNAUTHENTICATED")
        assert await status("GET", "/v1/jobs/job_none") == (404, "NOT_FOUND")
        assert await status("GET", "/v1/nowhere") == (404, "NOT_FOUND")
        assert await status("DELETE", "/v1/jobs") == (405, "METHOD_NOT_ALLOWED")
        assert await status("POST", "/v1/jobs", data=b"{}") == (422, "REQUEST_INVALID")
        assert await status("POST", "/v1/jobs", json={"query": "x"}) == (422, "REQUEST_INVALID")
        elsewhere = broker.request(input_refs=[{"type": "file", "uri": "/etc/passwd"}])
        assert await status("POST", "/v1/jobs", json=elsewhere) == (422, "INPUT_DISCOVERY_FAILED")
        log = {"type": "log", "uri": f"{broker.roots}/build.log", "content_hash": "sha256:" + "0" * 64}
        assert await status("POST", "/v1/jobs", json=broker.request(input_refs=[log])) == (
            422,
            "INPUT_HASH_MISMATCH",
        )
        other = broker.request(execution_profile={"backend": "slurm"})
        assert await status("POST", "/v1/jobs", json=other) == (503, "NO_BACKEND")
        nobody = broker.request(execution_profile={"model_profile": "nobody"})
        assert await status("POST", "/v1/jobs", json=nobody) == (422, "REQUEST_INVALID")
        qos = broker.request(execution_profile={"tier": "a200"})
        assert await status("POST", "/v1/jobs", json=qos) == (422, "REQUEST_INVALID")
        for wrong in ("state=odd", "limit=0", "limit=201", "limit=2.5", "limit=x"):
            assert await status("GET", f"/v1/jobs?{wrong}") == (400, "BAD_REQUEST"), wrong
        assert await status("GET", "/v1/rag/indexes/none/metadata") == (404, "NOT_FOUND")


async def test_result_before_the_end_is_409_with_retry_after(broker: Server) -> None:
    async with broker.client() as client:
        handles = [await client.submit(broker.request(f"question {n}")) for n in range(6)]
        with pytest.raises(Refused) as refusal:
            await client.result(handles[-1]["job_id"])
        assert refusal.value.status == 409
        assert refusal.value.code == "RESULT_NOT_READY"
        assert refusal.value.retry_after is not None
        for handle in handles:
            await finished(client, handle["job_id"])


async def test_a_tier_that_is_not_here_runs_with_a_warning(broker: Server) -> None:
    async with broker.client() as client:
        asked = broker.request(execution_profile={"tier": "p40-rag-compression"})
        handle = await client.submit(asked)
        assert handle["warnings"][0]["code"] == "TIER_SUBSTITUTED"
        assert (await finished(client, handle["job_id"]))["state"] == "succeeded"


async def test_read_evidence_withholds_expands_and_tells_stale(broker: Server) -> None:
    file = broker.roots / "notes.md"
    file.write_text("# Fees\n\nThe fee is rounded half up to two decimals.\n")
    refs = [{"type": "file", "uri": str(file)}]
    async with broker.client() as client:
        packs = {}
        for level in ("local_only", "evidence_only"):
            asked = broker.request(
                "how is the fee rounded?", input_refs=refs, constraints={"confidentiality": level}
            )
            handle = await client.submit(asked)
            await finished(client, handle["job_id"])
            packs[level] = handle["job_id"]

        async def read(job_id: str) -> dict[str, Any]:
            body = {"job_id": job_id, "evidence_id": "ev_001"}
            found: dict[str, Any] = await client.call("POST", "/v1/rag/evidence:read", body=body)
            return found

        closed = await read(packs["local_only"])
        assert closed["text"] is None
        assert closed["withheld"]
        assert "rounded half up" in (await read(packs["evidence_only"]))["text"]
        file.write_text("# Fees\n\nChanged.\n")
        assert (await read(packs["evidence_only"]))["stale"]
        missing = {"job_id": packs["local_only"], "evidence_id": "ev_999"}
        with pytest.raises(Refused) as refusal:
            await client.call("POST", "/v1/rag/evidence:read", body=missing)
        assert refusal.value.status == 404


async def test_metadata_of_a_pack_by_either_id_and_its_use_as_an_input(broker: Server) -> None:
    async with broker.client() as client:
        handle = await client.submit(broker.request("back_off seconds"))
        record = await finished(client, handle["job_id"])
        pack = await client.result(handle["job_id"])
        for name in (record["evidence_pack_id"], pack["provenance"]["pack_id"]):
            found = await client.call("GET", f"/v1/rag/evidence-packs/{name}/metadata")
            assert found["metadata"]["evidence_count"] == len(pack["payload"]["evidence"])
            assert found["kind"] == "evidence_pack"
        refs = [{"type": "artifact", "uri": f"artifact://{record['evidence_pack_id']}"}]
        follow_up = await client.submit(broker.request("back_off", input_refs=refs))
        assert (await finished(client, follow_up["job_id"]))["state"] == "succeeded"


async def test_health_readiness_metrics_and_document(broker: Server) -> None:
    async with broker.client() as client:
        assert (await client.call("GET", "/healthz"))["status"] == "ok"
        assert (await client.call("GET", "/readyz"))["status"] == "ok"
        document = await client.call("GET", "/openapi.json")
        assert document["openapi"].startswith("3.1")
        capabilities = await client.capabilities()
        assert capabilities["tiers"]["cpu-rag-indexing"] is True
        assert capabilities["roots"] == [str(broker.roots)]
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {broker.token}"}) as http,
        http.get(broker.url + "/metrics") as response,
    ):
        text = await response.text()
        assert 'agentloop_jobs_finished_total{state="succeeded"' in text


async def test_waiters_wake_at_the_end_not_at_their_time(broker: Server) -> None:
    async with broker.client() as client:
        handle = await client.submit(broker.request("header colon"))
        records = await asyncio.gather(*(client.status(handle["job_id"], wait=60) for _ in range(5)))
        assert {record["state"] for record in records} == {"succeeded"}


def test_the_client_says_when_no_broker_runs(tmp_path: Path) -> None:
    from broker.client import BrokerClient, NoBroker

    with pytest.raises(NoBroker, match="agentloop serve"):
        BrokerClient.local(tmp_path)
