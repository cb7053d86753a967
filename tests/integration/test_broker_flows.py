"""The specification's UX flows, each over HTTP against a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client import BrokerClient, Refused
from tests.integration.broker_server import Server, finished, server, until

SOURCE = '''\
"""Authorisation of jobs."""


class Authorizer:
    """Decides who sees a job."""

    def may_read(self, actor: str, owner: str) -> bool:
        """An actor reads its own jobs."""
        return actor == owner or actor == "admin"


def get_job(actor: str, job: dict) -> dict:
    """The handler behind GET /jobs."""
    if not Authorizer().may_read(actor, job["owner"]):
        raise PermissionError("forbidden")
    return job
'''
LOG = """\
2026-07-01T13:00:00Z INFO  collecting tests
2026-07-01T13:00:01Z INFO  tests/test_authz.py::test_get_job_forbidden_for_different_actor FAILED
2026-07-01T13:00:01Z ERROR Traceback (most recent call last):
  File "src/authz.py", line 15, in get_job
    raise PermissionError("forbidden")
PermissionError: forbidden
2026-07-01T13:00:02Z WARN  retrying connection to cache
2026-07-01T13:00:03Z WARN  retrying connection to cache
2026-07-01T13:00:04Z WARN  retrying connection to cache
2026-07-01T13:00:05Z ERROR 1 failed, 12 passed
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("flows")
    repo = folder / "data" / "repo"
    with server(folder) as found:
        (repo / "src").mkdir(parents=True)
        (repo / "src" / "authz.py").write_text(SOURCE)
        (repo / "README.md").write_text("# Jobs\n\nJobs are read through `get_job`.\n")
        (found.roots / "test.log").write_text(LOG)
        yield found


def ref(broker: Server, kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "uri": f"file://{broker.roots / name}"}


async def through(client: BrokerClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Submit, poll the status, fetch the result."""
    handle = await client.call("POST", path, body=body)
    assert handle["state"] == "queued"
    record = await finished(client, handle["job_id"])
    assert record["state"] == "succeeded", record["error"]
    return await client.result(handle["job_id"])


def places(pack: dict[str, Any]) -> set[str]:
    return {r["path"] for item in pack["payload"]["evidence"] for r in item["source_refs"]}


async def test_interactive_debugging_then_a_narrower_question(broker: Server) -> None:
    inputs = [ref(broker, "repo", "repo"), ref(broker, "log", "test.log")]
    async with broker.client() as client:
        pack = await through(
            client,
            "/v1/rag/debug-sessions",
            {
                "problem": "test_get_job_forbidden_for_different_actor fails after the authz refactor.",
                "input_refs": inputs,
                "task_params": {"failing_tests": ["test_get_job_forbidden_for_different_actor"]},
            },
        )
        assert pack["schema_name"] == "debug_evidence_pack_v1"
        assert {"test.log", "src/authz.py"} <= places(pack)
        narrower = await through(
            client,
            "/v1/rag/compressions",
            {"query": "may_read", "input_refs": inputs[:1], "task_params": {"paths": ["src"]}},
        )
        assert places(narrower) == {"src/authz.py"}


async def test_log_summary_cites_the_failure(broker: Server) -> None:
    async with broker.client() as client:
        pack = await through(
            client,
            "/v1/logs:summarize",
            {
                "input_refs": [ref(broker, "log", "test.log")],
                "task_params": {"query": "Find the root failure and related warnings."},
            },
        )
        lines = [
            range(r["line_start"], r["line_end"] + 1)
            for item in pack["payload"]["evidence"]
            for r in item["source_refs"]
        ]
        assert any(6 in span for span in lines)


async def test_repository_inspection(broker: Server) -> None:
    async with broker.client() as client:
        pack = await through(
            client,
            "/v1/repos:inspect",
            {
                "input_refs": [ref(broker, "repo", "repo")],
                "task_params": {"query": "Explain the auth boundary of get_job.", "languages": ["python"]},
            },
        )
        assert pack["schema_name"] == "repo_inspection_pack_v1"
        assert "src/authz.py" in places(pack)


async def test_patch_proposal_from_an_earlier_pack(broker: Server) -> None:
    async with broker.client() as client:
        first = await through(
            client,
            "/v1/rag/compressions",
            {"query": "may_read forbidden", "input_refs": [ref(broker, "repo", "repo")]},
        )
        pack_id = first["provenance"]["pack_id"]
        found = await client.call("GET", f"/v1/rag/evidence-packs/{pack_id}/metadata")
        assert found["metadata"]["evidence_count"] >= 1
        handle = await client.call(
            "POST",
            "/v1/patches:propose",
            body={
                "problem": f"Fix the authorisation regression identified by {pack_id}.",
                "input_refs": [
                    ref(broker, "repo", "repo"),
                    {"type": "artifact", "uri": f"artifact://{pack_id}"},
                ],
                "task_params": {"patch_style": "minimal", "allowed_paths": ["src"]},
                "execution_profile": {"tier": "a100-reasoning"},
            },
        )
        assert handle["warnings"][0]["code"] == "TIER_SUBSTITUTED"
        record = await finished(client, handle["job_id"])
        assert record["state"] == "succeeded", record["error"]
        assert (await client.result(handle["job_id"]))["schema_name"] == "patch_proposal_pack_v1"


async def test_background_investigation_is_followed_by_its_root(tmp_path: Path) -> None:
    with server(tmp_path, BROKER_SHARD_INPUTS="2") as own:
        refs = []
        for name in ("a", "b", "c", "d"):
            (own.roots / f"{name}.py").write_text(f"def job_{name}(owner):\n    return owner\n")
            refs.append({"type": "file", "uri": str(own.roots / f"{name}.py")})
        async with own.client() as client:
            asked = own.request("job owner", input_refs=refs, execution_profile={"priority": "background"})
            handle = await client.submit(asked)

            async def done() -> bool:
                view = await client.root(handle["job_id"])
                assert 0 <= view["percent"] <= 100
                return view["state"] == "succeeded"

            await until(done, 120)
            view = await client.root(handle["job_id"])
            assert all(shard["priority"] == "background" for shard in view["shards"])
            pack = await client.result(handle["job_id"])
            assert len(places(pack)) == 4
            follow_up = await client.submit(asked)
            record = await finished(client, follow_up["job_id"], 120)
            assert record["state"] == "succeeded"
            view = await client.root(follow_up["job_id"])
            statuses = {shard["cache"]["status"] for shard in view["shards"]}
            assert statuses <= {"hit", "partial"}


async def test_protected_inputs_release_no_raw_text(broker: Server) -> None:
    protected = {**ref(broker, "repo", "repo"), "classification": "restricted"}
    async with broker.client() as client:
        pack = await through(
            client,
            "/v1/rag/compressions",
            {
                "query": "who may read a job",
                "input_refs": [protected],
                "task_params": {"include_inline_excerpts": True},
                "constraints": {"confidentiality": "evidence_only"},
            },
        )
        assert pack["payload"]["input_scope"]["classification"] == "restricted"
        assert "INLINE_EXCERPTS_WITHHELD" in {w["code"] for w in pack["payload"]["warnings"]}
        text = json.dumps(pack)
        assert "An actor reads its own jobs" not in text
        assert 'raise PermissionError("forbidden")' not in text


async def test_a_namespace_without_paths_gets_ids_and_hashes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "broker.toml").write_text("[namespaces.local]\nallow_paths = false\n")
    with server(tmp_path) as own:
        async with own.client() as client:
            handle = await client.submit(own.request("header"))
            assert (await finished(client, handle["job_id"]))["state"] == "succeeded"
            pack = await client.result(handle["job_id"])
            for item in pack["payload"]["evidence"]:
                assert all("path" not in r and r["content_hash"] for r in item["source_refs"])
            body = {"job_id": handle["job_id"], "evidence_id": "ev_001"}
            read = await client.call("POST", "/v1/rag/evidence:read", body=body)
            assert read["path"] is None
            with pytest.raises(Refused):
                await client.call("POST", "/v1/rag/evidence:read", body={**body, "ref": 9})


async def test_an_index_stands_for_the_inputs_that_it_was_made_of(broker: Server) -> None:
    folder = broker.roots / "indexed"
    folder.mkdir()
    (folder / "fees.py").write_text("def fee(amount):\n    return round(amount, 2)\n")
    async with broker.client() as client:
        handle = await client.submit(
            broker.request("where is the fee rounded?", input_refs=[ref(broker, "directory", "indexed")])
        )
        assert (await finished(client, handle["job_id"]))["state"] == "succeeded"
        kept = (await client.result(handle["job_id"], include_artifacts=True))["artifacts"]
        index = next(a["artifact_id"] for a in kept if a["kind"] == "local_index")
        asked = {
            "query": "which function takes an amount?",
            "input_refs": [{"type": "artifact", "uri": f"artifact://{index}"}],
        }
        again = await through(client, "/v1/rag/compressions", asked)
        assert places(again) == {"fees.py"}
        (folder / "fees.py").write_text("def fee(amount):\n    return amount\n")
        changed = await client.call(
            "POST", "/v1/rag/compressions", body={**asked, "query": "which amount is taken?"}
        )
        record = await finished(client, changed["job_id"])
        assert (record["state"], record["error"]["code"]) == ("failed", "INPUT_HASH_MISMATCH")
