"""The specification's own examples, letter for letter, over HTTP: requests, handles, entities, events."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.broker_server import Server, finished

LOG = """\
2026-07-01T13:00:00Z INFO compiling
2026-07-01T13:00:05Z ERROR service.go:5: fatal error: gen.h: No such file
2026-07-01T13:00:06Z ERROR build failed
"""
TEST_LOG = """\
=== RUN   TestGetJobForbiddenForDifferentActor
--- FAIL: TestGetJobForbiddenForDifferentActor (0.00s)
    service_test.go:12: want forbidden
FAIL\tbroker/pkg/service\t0.01s
"""
SERVICE = """\
package service

// GetJob returns a job to the actor that owns it.
func GetJob(actor string, id string) error {
\tif !Allowed(actor) {
\t\treturn ErrForbidden
\t}
\treturn nil
}
"""
AUTHZ = """\
package authz

// Allowed says whether an actor may read a job.
func Allowed(actor string) bool {
\treturn actor == "admin"
}
"""
P40 = {"tier": "p40-rag-compression"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("spec")
    repo = folder / "workspace" / "repo"
    for name, text in {"service/service.go": SERVICE, "authz/authz.go": AUTHZ}.items():
        (repo / "broker/pkg" / name).parent.mkdir(parents=True)
        (repo / "broker/pkg" / name).write_text(text)
    (folder / "workspace" / "build.log").write_text(LOG)
    (folder / "workspace" / "test.log").write_text(TEST_LOG)
    ours = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "authz refactor"]):
        subprocess.run(["git", *ours, *command], cwd=repo, check=True)
    found = Server(folder / "home", folder / "workspace", {})
    found.start()
    yield found
    found.stop()


def requests(broker: Server) -> dict[str, tuple[str, dict[str, Any]]]:
    """By path: the result schema, and the specification's request with our paths."""
    repo = {"type": "repo", "uri": f"file://{broker.roots}/repo"}
    build, test = ({"type": "log", "uri": f"file://{broker.roots}/{n}.log"} for n in ("build", "test"))
    return {
        "/v1/rag/compressions": (
            "rag_evidence_pack_v1",
            {
                "query": "Why does the build fail?",
                "input_refs": [repo, build],
                "task_params": {
                    "retrieval_strategies": ["ripgrep", "bm25", "stack_trace_path", "git_diff_history"],
                    "include_inline_excerpts": False,
                    "evidence_kinds": ["build_error", "related_code", "recent_change"],
                },
                "constraints": {
                    "retrieved_chunk_budget": 64000,
                    "per_chunk_compression_budget": 384,
                    "final_evidence_pack_budget": 4000,
                    "remote_model_context_budget": 12000,
                    "max_runtime_seconds": 900,
                    "confidentiality": "local_only",
                },
                "execution_profile": {"backend": "local", "qos": "preemptible", **P40},
                "idempotency_key": "optional-client-key",
            },
        ),
        "/v1/rag/debug-sessions": (
            "debug_evidence_pack_v1",
            {
                "problem": "Unit tests fail after the authz refactor.",
                "input_refs": [repo, test],
                "task_params": {
                    "stack_trace": "service_test.go:12: want forbidden",
                    "failing_tests": ["TestGetJobForbiddenForDifferentActor"],
                    "changed_since": "HEAD~5",
                    "suspect_paths": ["broker/pkg/service", "broker/pkg/authz"],
                    "retrieval_strategies": [
                        "stack_trace_path",
                        "ripgrep",
                        "tree_sitter",
                        "git_diff_history",
                    ],
                },
                "constraints": {
                    "retrieved_chunk_budget": 96000,
                    "final_evidence_pack_budget": 6000,
                    "remote_model_context_budget": 16000,
                },
                "execution_profile": P40,
            },
        ),
        "/v1/logs:summarize": (
            "log_evidence_pack_v1",
            {
                "input_refs": [build],
                "task_params": {
                    "query": "Find the root failure and related warnings.",
                    "time_window": {"start": "2026-07-01T13:00:00Z", "end": "2026-07-01T13:30:00Z"},
                    "deduplicate_repeated_lines": True,
                    "cluster_stack_traces": True,
                },
                "constraints": {
                    "retrieved_chunk_budget": 128000,
                    "per_chunk_compression_budget": 256,
                    "final_evidence_pack_budget": 4000,
                },
                "execution_profile": P40,
            },
        ),
        "/v1/repos:inspect": (
            "repo_inspection_pack_v1",
            {
                "input_refs": [repo],
                "task_params": {
                    "query": "Explain the MCP tool dispatch and auth boundaries.",
                    "paths": ["broker/pkg/mcp", "broker/pkg/service", "broker/pkg/authz"],
                    "languages": ["go"],
                    "retrieval_strategies": ["tree_sitter", "ripgrep", "bm25"],
                    "include_dependency_edges": True,
                },
                "constraints": {"retrieved_chunk_budget": 96000, "final_evidence_pack_budget": 5000},
                "execution_profile": P40,
            },
        ),
        "/v1/patches:propose": (
            "patch_proposal_pack_v1",
            {
                "problem": "Fix the authorization regression in GetJob.",
                "input_refs": [repo],
                "task_params": {
                    "patch_style": "minimal",
                    "allowed_paths": ["broker/pkg/service", "broker/pkg/api"],
                    "validation_commands": ["go test ./broker/pkg/service ./broker/pkg/api"],
                },
                "constraints": {
                    "retrieved_chunk_budget": 128000,
                    "final_evidence_pack_budget": 8000,
                    "max_runtime_seconds": 1800,
                },
                "execution_profile": {"tier": "a100-reasoning"},
            },
        ),
    }


@pytest.mark.parametrize(
    "path",
    [
        "/v1/rag/compressions",
        "/v1/rag/debug-sessions",
        "/v1/logs:summarize",
        "/v1/repos:inspect",
        "/v1/patches:propose",
    ],
)
async def test_each_example_becomes_a_pack_of_its_schema(broker: Server, path: str) -> None:
    schema, body = requests(broker)[path]
    async with broker.client() as client:
        handle = await client.call("POST", path, body=body)
        job = handle["job_id"]
        assert (handle["state"], handle["result_schema"]) == ("queued", schema)
        assert handle["cache"]["status"] == "miss"
        assert handle["status_url"] == f"/v1/jobs/{job}"
        assert handle["result_url"] == f"/v1/jobs/{job}/result"
        record = await finished(client, job)
        assert record["state"] == "succeeded", record["error"]
        assert "PARAM_IGNORED" not in {w["code"] for w in record["warnings"]}
        pack = await client.result(job)
        assert (pack["schema_name"], pack["schema_version"]) == (schema, "1.0.0")
        budget, asked = pack["payload"]["budget"], body["constraints"]
        assert budget["final_pack_tokens"] <= asked["final_evidence_pack_budget"]
        assert budget["retrieved_chunk_tokens"] <= asked["retrieved_chunk_budget"]
        assert [i["id"] for i in pack["payload"]["evidence"]] == list(pack["evidence_refs"])
        assert pack["evidence_refs"]


async def test_the_five_entities_are_metadata(broker: Server) -> None:
    async with broker.client() as client:
        handle = await client.submit(broker.request("who may read a job?"))
        record = await finished(client, handle["job_id"])
        pack = await client.result(handle["job_id"], include_artifacts=True)
        entities = {a["kind"]: a for a in pack["artifacts"]}
        manifest = entities["input_manifest"]["metadata"]
        assert manifest["manifest_id"].startswith("manifest_")
        assert manifest["corpus_hash"].startswith("sha256:")
        assert manifest["files"] == pack["payload"]["coverage"]["files_indexed"]
        assert entities["chunks"]["metadata"]["manifest_id"] == manifest["manifest_id"]
        run = entities["retrieval_run"]["metadata"]
        assert set(run["reranked_chunk_ids"]) == set(run["retrieved_chunk_ids"])
        assert len(run["retrieved_chunk_ids"]) == entities["chunks"]["metadata"]["chunks"]
        index = await client.call("GET", f"/v1/rag/indexes/{entities['local_index']['artifact_id']}/metadata")
        assert index["metadata"]["artifact_id"] == index["artifact_id"]
        assert index["metadata"]["manifest_id"] == run["manifest_id"] == manifest["manifest_id"]
        found = await client.call("GET", f"/v1/rag/evidence-packs/{record['evidence_pack_id']}/metadata")
        assert found["metadata"] == {
            "evidence_pack_id": pack["provenance"]["pack_id"],
            "job_id": handle["job_id"],
            "schema_name": "rag_evidence_pack_v1",
            "artifact_id": record["evidence_pack_id"],
            "query_hash": run["query_hash"],
            "source_manifest_ids": [manifest["manifest_id"]],
            "evidence_count": len(pack["payload"]["evidence"]),
            "final_pack_tokens": pack["payload"]["budget"]["final_pack_tokens"],
            "policy_mode": pack["payload"]["policy_mode"],
            "classification": "internal",
        }


async def test_a_job_starts_once_and_its_progress_only_rises(broker: Server, tmp_path: Path) -> None:
    folder = broker.roots / "fresh"
    folder.mkdir()
    (folder / "a.py").write_text("def tariff(weight):\n    return 3 * weight\n")
    async with broker.client() as client:
        refs = [{"type": "directory", "uri": str(folder)}]
        for question in ("what is the tariff?", "which weight?"):  # the second finds the index kept
            handle = await client.submit(broker.request(question, input_refs=refs))
            await finished(client, handle["job_id"])
            events = (await client.logs(handle["job_id"]))["events"]
            kinds = [e["kind"] for e in events]
            assert kinds.count("started") == 1
            assert kinds.index("started") < kinds.index("stage")
            told = [e["data"]["percent"] for e in events if e["kind"] == "stage"]
            assert told == sorted(told)
            assert kinds[-1] == "attempt_ended"
