"""Root jobs of a real broker: shards, merge, partial failure, cancel, restart, background continuation."""

from __future__ import annotations

import gzip
import json
import signal
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agentloop.config import Caps
from agentloop.pack import final_pack_tokens
from agentloop.sources import hash_path
from broker.client import Refused
from tests.integration.broker_server import Server, finished, server, until

WORDS = ("header", "retry", "rounding", "fees")


def inputs(root: Path, count: int = 4) -> list[dict[str, str]]:
    """A few files, each about its own word."""
    refs = []
    for word in WORDS[:count]:
        file = root / f"{word}.py"
        file.write_text(
            f"def handle_{word}(value):\n    '''The {word} of an invoice.'''\n    return {len(word)}\n"
        )
        refs.append({"type": "file", "uri": str(file)})
    return refs


async def test_shards_are_merged_with_the_inputs_of_the_whole_request(tmp_path: Path) -> None:
    with server(tmp_path, BROKER_SHARD_INPUTS="1") as broker:
        async with broker.client() as client:
            asked = broker.request("invoice", input_refs=inputs(broker.roots))
            handle = await client.submit(asked)
            record = await finished(client, handle["job_id"], 120)
            assert record["state"] == "succeeded", record
            view = await client.root(handle["job_id"])
            assert view["children"] == {"succeeded": 4}
            assert view["percent"] == 100
            assert [shard["shard"] for shard in view["shards"]] == [0, 1, 2, 3]
            assert all(shard["root_job_id"] == handle["job_id"] for shard in view["shards"])
            pack = await client.result(handle["job_id"])
            refs = [ref for item in pack["payload"]["evidence"] for ref in item["source_refs"]]
            for ref in refs:
                assert ref["path"] == f"{WORDS[int(ref['input_id'][2:]) - 1]}.py"
            assert {ref["input_id"] for ref in refs} == {"in1", "in2", "in3", "in4"}
            assert len(pack["payload"]["input_scope"]["source_refs"]) == 4
            assert pack["payload"]["coverage"]["files_indexed"] == 4
            assert pack["evidence_refs"] == [item["id"] for item in pack["payload"]["evidence"]]
            assert pack["payload"]["budget"]["final_pack_tokens"] == final_pack_tokens(pack)
            found = await client.list(root_job_id=handle["job_id"])
            assert len(found["jobs"]) == 4


async def test_a_shard_without_a_pack_is_named_in_the_coverage(tmp_path: Path) -> None:
    with server(tmp_path, BROKER_SHARD_INPUTS="1") as broker:
        (broker.roots / "blob.bin").write_bytes(bytes(range(256)) * 40)
        refs = [*inputs(broker.roots, 2), {"type": "file", "uri": str(broker.roots / "blob.bin")}]
        async with broker.client() as client:
            handle = await client.submit(broker.request("invoice", input_refs=refs))
            assert (await finished(client, handle["job_id"], 120))["state"] == "succeeded"
            pack = await client.result(handle["job_id"])
            assert pack["payload"]["coverage"]["shards_failed"] == ["shard 2"]
            assert any("1 of 3 shards" in w["message"] for w in pack["payload"]["warnings"])
            view = await client.root(handle["job_id"])
            assert len(view["failed"]) == 1
            only = await client.submit(broker.request("invoice", input_refs=[refs[2], refs[2]]))
            record = await finished(client, only["job_id"], 120)
            assert record["state"] == "failed"
            assert record["error"]["code"] == "INPUT_DISCOVERY_FAILED"


async def test_a_folder_is_cut_into_parts_and_its_hash_is_that_of_the_whole(tmp_path: Path) -> None:
    with server(tmp_path, BROKER_SHARD_FILES="2") as broker:
        inputs(broker.roots)
        (broker.roots / "zz").mkdir()
        (broker.roots / "zz" / "a.bin").write_bytes(bytes(range(256)) * 40)
        (broker.roots / "zz" / "empty.py").write_text("")
        (broker.roots / "zz" / "empty2.py").write_text("")
        whole = hash_path(str(broker.roots), Caps())
        ref = {"type": "directory", "uri": str(broker.roots), "content_hash": whole}
        async with broker.client() as client:
            body = broker.request(input_refs=[ref], task_type="inspect_repo")
            del body["query"]
            body["task_params"] = {"query": "how are retry and header of an invoice handled?"}
            handle = await client.submit(body)
            record = await finished(client, handle["job_id"], 120)
            assert record["state"] == "succeeded", record
            pack = await client.result(handle["job_id"])
            payload = pack["payload"]
            assert payload["input_scope"]["source_refs"] == [f"directory:{whole[:23]}"]
            assert payload["coverage"]["files_indexed"] == 7
            assert payload["coverage"].get("skipped", {}).get("empty", {"count": 0})["count"] == 2
            assert "shards_failed" not in payload["coverage"]
            refs = [r for item in payload["evidence"] for r in item["source_refs"]]
            assert {"retry.py", "header.py"} <= {r["path"] for r in refs}
            assert {r["input_id"] for r in refs} == {"in1"}
            named = {
                i for rows in payload["details"].values() for row in rows for i in row.get("evidence", ())
            }
            assert named
            assert named <= set(pack["evidence_refs"])
            view = await client.root(handle["job_id"])
            assert len(view["shards"]) >= 4
            wrong = {**ref, "content_hash": "sha256:" + "0" * 64}
            handle = await client.submit(broker.request(input_refs=[wrong]))
            record = await finished(client, handle["job_id"], 120)
            assert (record["state"], record["error"]["code"]) == ("failed", "INPUT_HASH_MISMATCH")


async def test_a_cut_folder_with_archives_has_the_hash_of_the_whole(tmp_path: Path) -> None:
    with server(tmp_path, BROKER_SHARD_FILES="1") as broker:
        inputs(broker.roots)
        with zipfile.ZipFile(broker.roots / "handbook.zip", "w") as packed:
            packed.writestr("fees/rules.md", "# Fees\n\nThe invoice fee is three percent.\n")
            packed.writestr("fees/late.md", "# Late\n\nA late invoice costs five more.\n")
            packed.writestr("logo.bin", bytes(range(256)) * 40)
        with tarfile.open(broker.roots / "old.tar.gz", "w:gz") as tar:
            tar.add(broker.roots / "retry.py", arcname="old/retry.py")
        with zipfile.ZipFile(broker.roots / "pictures.zip", "w") as packed:
            packed.writestr("logo.bin", bytes(range(256)) * 40)  # nothing in it is read
        (broker.roots / "app.log.1.gz").write_bytes(gzip.compress(b"2026-07-01 ERROR invoice lost\n"))
        whole = hash_path(str(broker.roots), Caps())
        ref = {"type": "directory", "uri": str(broker.roots), "content_hash": whole}
        async with broker.client() as client:
            handle = await client.submit(broker.request("invoice fee", input_refs=[ref]))
            record = await finished(client, handle["job_id"], 120)
            assert record["state"] == "succeeded", record
            payload = (await client.result(handle["job_id"]))["payload"]
            assert payload["input_scope"]["source_refs"] == [f"directory:{whole[:23]}"]
            assert "handbook.zip" in {r["path"] for i in payload["evidence"] for r in i["source_refs"]}
            assert len((await client.root(handle["job_id"]))["shards"]) >= 8


async def test_cancelling_a_root_cancels_its_shards(tmp_path: Path) -> None:
    with server(tmp_path, BROKER_SHARD_INPUTS="1", BROKER_WORKERS="1") as broker:
        async with broker.client() as client:
            handle = await client.submit(broker.request("invoice", input_refs=inputs(broker.roots)))

            async def split() -> bool:
                return sum((await client.root(handle["job_id"]))["children"].values()) == 4

            await until(split)
            await client.cancel(handle["job_id"])
            record = await finished(client, handle["job_id"])
            assert record["state"] == "cancelled"
            view = await client.root(handle["job_id"])
            assert set(view["children"]) <= {"cancelled", "succeeded"}
            with pytest.raises(Refused):
                await client.result(handle["job_id"])


@pytest.mark.req("A5")
async def test_a_root_goes_on_after_a_kill_with_each_shard_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    broker = Server(tmp_path / "home", data, {"BROKER_SHARD_INPUTS": "1", "BROKER_WORKERS": "1"})
    broker.start()
    try:
        async with broker.client() as client:
            handle = await client.submit(broker.request("invoice", input_refs=inputs(data)))

            async def one_done() -> bool:
                return "succeeded" in (await client.root(handle["job_id"]))["children"]

            await until(one_done)
        broker.kill(signal.SIGKILL)
        broker.start()
        async with broker.client() as client:
            assert (await finished(client, handle["job_id"], 120))["state"] == "succeeded"
            view = await client.root(handle["job_id"])
            assert view["children"] == {"succeeded": 4}
            pack = await client.result(handle["job_id"])
            spans = [json.dumps(r) for e in pack["payload"]["evidence"] for r in e["source_refs"][:1]]
            assert len(spans) == len(set(spans))
    finally:
        broker.stop()


async def test_a_request_goes_on_in_the_background_when_asked(tmp_path: Path) -> None:
    with server(tmp_path) as broker:
        for number in range(40):
            text = f"def invoice_{number}():\n" + "    total = 'invoice line of some length'\n" * 40
            (broker.roots / f"m{number}.py").write_text(text)
        async with broker.client() as client:
            asked: dict[str, Any] = broker.request(
                "invoice total line",
                constraints={"retrieved_chunk_budget": 256},
                task_params={"continue_in_background": True},
            )
            handle = await client.submit(asked)
            record = await finished(client, handle["job_id"])
            assert record["state"] == "succeeded"
            assert "RETRIEVAL_BUDGET_REACHED" in {w["code"] for w in record["warnings"]}

            async def further() -> bool:
                return bool((await client.root(handle["job_id"]))["shards"])

            await until(further)
            (child,) = (await client.root(handle["job_id"]))["shards"]
            assert child["priority"] == "background"
            assert (await finished(client, child["job_id"]))["state"] == "succeeded"
