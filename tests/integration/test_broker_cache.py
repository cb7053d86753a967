"""Caches of a real broker: hits, partial reuse, one changed file, namespaces, bypass."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from broker.auth import create_token
from broker.client import BrokerClient
from tests.integration.broker_server import Server, finished, server


def age(root: Path) -> None:
    """Give every file a time well before now, as files of a working day have."""
    for path in [root, *root.rglob("*")]:
        os.utime(path, (1_700_000_000, 1_700_000_000))


def content(pack: dict[str, Any]) -> dict[str, Any]:
    """A pack without what may differ between two runs."""
    return {name: value for name, value in pack.items() if name != "provenance"}


async def answered(
    client: BrokerClient, broker: Server, query: str, **more: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The record and the pack of a request."""
    handle = await client.submit(broker.request(query, **more))
    record = await finished(client, handle["job_id"])
    assert record["state"] == "succeeded", record
    return record, await client.result(handle["job_id"])


async def settled(client: BrokerClient, broker: Server, query: str) -> dict[str, Any]:
    """Ask until the identities are old enough to be trusted by a look alone; the record of a cache hit."""
    async with asyncio.timeout(30):
        while True:
            record, _ = await answered(client, broker, query)
            looked = await client.call("POST", "/v1/rag/cache:lookup", body=broker.request(query))
            if record["cache"]["status"] == looked["status"] == "hit":
                return record
            await asyncio.sleep(0.2)


async def test_the_same_question_hits_and_another_reuses_the_layers_below(tmp_path: Path) -> None:
    with server(tmp_path, BROKER_WORKERS="2") as broker:
        age(broker.roots)
        async with broker.client() as client:
            asked = broker.request("header colon")
            looked = await client.call("POST", "/v1/rag/cache:lookup", body=asked)
            assert looked["status"] == "miss"
            first, pack = await answered(client, broker, "header colon")
            assert first["cache"]["status"] == "miss"
            await settled(client, broker, "header colon")
            record, again = await answered(client, broker, "header colon")
            assert record["cache"]["status"] == "hit"
            assert "evidence_pack" in record["cache"]["layers"]
            assert content(again) == content(pack)
            assert again["provenance"]["job_id"] == record["job_id"]
            looked = await client.call("POST", "/v1/rag/cache:lookup", body=asked)
            assert looked["status"] == "hit"
            other, _ = await answered(client, broker, "how long is the back off?")
            assert other["cache"]["status"] == "partial"
            assert {"file_hash", "chunks", "index"} <= set(other["cache"]["layers"])


@pytest.mark.req("B5")
async def test_one_changed_file_is_seen_and_only_it_is_read_again(tmp_path: Path) -> None:
    with server(tmp_path) as broker:
        age(broker.roots)
        async with broker.client() as client:
            await settled(client, broker, "back off seconds")
            file = broker.roots / "src" / "retry.py"
            file.write_text(file.read_text().replace("30", "45"))
            record, pack = await answered(client, broker, "back off seconds")
            assert record["cache"]["status"] == "partial"
            assert "chunks" in record["cache"]["layers"]
            fresh = Server(tmp_path / "fresh", broker.roots, {"AGENTLOOP_CACHE": "off"})
            fresh.start()
            try:
                async with fresh.client() as other:
                    plain, cold = await answered(other, fresh, "back off seconds")
            finally:
                fresh.stop()
            assert plain["cache"]["status"] == "bypass"
            assert content(cold) == content(pack)


@pytest.mark.req("B5")
async def test_an_edit_that_keeps_time_and_size_is_seen(tmp_path: Path) -> None:
    with server(tmp_path) as broker:
        age(broker.roots)
        async with broker.client() as client:
            await settled(client, broker, "back off seconds")
            file = broker.roots / "src" / "retry.py"
            file.write_text(file.read_text().replace("30", "45"))
            os.utime(file, (1_700_000_000, 1_700_000_000))
            record, _ = await answered(client, broker, "back off seconds")
            assert record["cache"]["status"] == "partial"


@pytest.mark.req("F1")
async def test_a_hit_never_crosses_namespaces(tmp_path: Path) -> None:
    home = tmp_path / "home"
    tokens = {name: create_token(home, name, namespace=name) for name in ("red", "blue")}
    with server(tmp_path) as broker:
        age(broker.roots)
        async with BrokerClient(broker.url, tokens["red"]) as red:
            await settled(red, broker, "header colon")
        async with BrokerClient(broker.url, tokens["blue"]) as blue:
            looked = await blue.call("POST", "/v1/rag/cache:lookup", body=broker.request("header colon"))
            assert looked["status"] == "miss"
            record, _ = await answered(blue, broker, "header colon")
            assert record["cache"]["status"] == "miss"


async def test_concurrent_jobs_on_one_tree_index_it_once(tmp_path: Path) -> None:
    with server(tmp_path, BROKER_WORKERS="4") as broker:
        age(broker.roots)
        async with broker.client() as client:
            handles = [await client.submit(broker.request(f"question {n} header")) for n in range(12)]
            records = [await finished(client, handle["job_id"]) for handle in handles]
            made = [r for r in records if "index" not in r["cache"]["layers"]]
            assert len(made) == 1


async def test_records_are_not_cached_unless_allowed(tmp_path: Path) -> None:
    with server(tmp_path) as broker:
        talk = broker.roots / "talk.jsonl"
        talk.write_text('{"speaker": "a", "text": "canary-42 is our fee code"}\n' * 3)
        refs = [{"type": "records", "uri": str(talk)}]
        age(broker.roots)
        async with broker.client() as client:
            await answered(client, broker, "fee code", input_refs=refs)
            record, _ = await answered(client, broker, "fee code", input_refs=refs)
            assert record["cache"]["status"] == "miss"
        kept = b"".join(p.read_bytes() for p in (broker.home / "cache").rglob("*") if p.is_file())
        assert b"canary-42" not in kept
