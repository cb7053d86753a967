"""Models on the nodes of a real cluster: served in the job, shared by an array, kept warm; and chains."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from agentloop.errors import AgentloopError
from agentloop.loop import smollm2
from tests.fakes import llama_server
from tests.slurm.cluster import Cluster, wait_until
from tests.slurm.test_broker import Site, finished
from tests.unit.test_serving import gguf

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]
WHERE = "%j %P %T"


def site_of(cluster: Cluster, folder: Path, script: dict[str, Any] | None = None, **settings: str) -> Site:
    """A site whose tiers all serve the profile `ours` with a stand-in of llama-server."""
    site = Site(
        cluster,
        folder,
        {
            "BROKER_SLURM_PARTITION_P40": "hpc",
            "BROKER_MODEL_PROFILE_P40": "ours",
            "BROKER_MODEL_PROFILE_CPU": "ours",
            **settings,
        },
    )
    models = site.home / "models"
    models.mkdir(parents=True)
    gguf(models / "model.gguf")
    (models / "model.gguf.json").write_text(json.dumps({"log": str(folder / "starts"), **(script or {})}))
    (models / "ours.toml").write_text(
        f'gguf = "model.gguf"\nmodel = "tiny"\nserve = "llama-server"\nwire = "json"\n'
        f'binary = "{llama_server.program(folder)}"\n'
    )
    (folder / "data").mkdir()
    return site


def fill(folder: Path, files: int, lines: int) -> None:
    for number in range(files):
        body = "".join(f"def part_{number}_{line}(): return {line}  # bolt\n" for line in range(lines))
        (folder / f"part_{number:02d}.py").write_text(body)


def request(site: Site, **profile: str) -> dict[str, Any]:
    return {
        "task_type": "rag_compress",
        "query": "Which part has the bolt?",
        "input_refs": [{"type": "directory", "uri": str(site.home.parent / "data")}],
        "task_params": {"max_tool_calls": 1},
        "execution_profile": profile,
    }


def seen(site: Site, *words: str) -> list[list[str]]:
    """Name, partition and state of the broker's jobs whose names hold all words."""
    out = site.cluster.run("squeue", "-h", "-r", "-t", "all", "-o", WHERE).splitlines()
    return [line.split() for line in out if all(word in line for word in words)]


async def test_large_inputs_are_prepared_before_a_gpu_is_held(cluster: Cluster, tmp_path: Path) -> None:
    site = site_of(cluster, tmp_path, BROKER_SLURM_CHAIN_MB="1")
    fill(tmp_path / "data", 12, 2500)
    with site.serving():
        async with site.client() as client:
            job_id = (await client.submit(request(site)))["job_id"]
            status = await finished(client, job_id)
            pack = await client.result(job_id)
    assert status["state"] == "succeeded", status
    assert pack["payload"]["retrieval"]["model"] == "ours"
    run_dir = next((site.home / "runs").rglob("execution_plan.json")).parent
    plan = json.loads((run_dir / "execution_plan.json").read_text())
    token = plan["token"]
    assert [row[:2] for row in sorted(seen(site, token))] == [
        [f"broker-rag_compress-compress-{token}", "hpc"],
        [f"broker-rag_compress-index-{token}", "cpu"],
    ]
    assert "chain" in plan
    assert [(s["stage"], s["job"], s["tier"]) for s in plan["stages"]][1:3] == [
        ("index", "index", "cpu-rag-indexing"),
        ("retrieve", "compress", "p40-rag-compression"),
    ]
    events = [json.loads(line) for line in (run_dir / "attempts/1/events.jsonl").read_text().splitlines()]
    assert [event["stage"] for event in events].count("local_indexing") == 2
    assert not (run_dir / "checkpoints/1").exists()


async def test_a_chain_whose_first_job_fails_fails_with_its_error(cluster: Cluster, tmp_path: Path) -> None:
    site = site_of(cluster, tmp_path, BROKER_SLURM_CHAIN_MB="1", BROKER_MAX_ATTEMPTS="1")
    fill(tmp_path / "data", 12, 2500)
    with site.serving():
        cluster.run("scontrol", "update", "PartitionName=cpu", "State=DOWN")
        async with site.client() as client:
            job_id = (await client.submit(request(site)))["job_id"]
            await asyncio.to_thread(wait_until, lambda: len(seen(site, "PENDING")) >= 2, "a chain")
            (tmp_path / "data").rename(tmp_path / "gone")
            cluster.run("scontrol", "update", "PartitionName=cpu", "State=UP")
            status = await finished(client, job_id)
    assert (status["state"], status["error"]["code"]) == ("failed", "INPUT_DISCOVERY_FAILED"), status


async def test_tasks_of_an_array_share_a_server(cluster: Cluster, tmp_path: Path) -> None:
    site = site_of(cluster, tmp_path, {"load_seconds": 3}, BROKER_SHARD_FILES="1")
    fill(tmp_path / "data", 4, 5)
    with site.serving():
        async with site.client() as client:
            job_id = (await client.submit(request(site, tier="cpu-rag-indexing")))["job_id"]
            status = await finished(client, job_id)
            pack = await client.result(job_id)
    assert status["state"] == "succeeded", status
    assert pack["payload"]["retrieval"]["model"] == "ours"
    assert len((tmp_path / "starts").read_text().splitlines()) < 4


async def test_a_warm_service_serves_jobs_without_gpus_and_ends_alone(
    cluster: Cluster, tmp_path: Path
) -> None:
    site = site_of(cluster, tmp_path, BROKER_SLURM_SERVICES="ours", BROKER_SLURM_SERVICE_IDLE_SECONDS="6")
    fill(tmp_path / "data", 2, 5)
    with site.serving():
        async with site.client() as client:
            first = request(site)
            second = {**request(site), "query": "Where is another bolt?"}
            ids = [(await client.submit(asked))["job_id"] for asked in (first, second)]
            for job_id in ids:
                status = await finished(client, job_id)
                assert status["state"] == "succeeded", status
                assert (await client.result(job_id))["payload"]["retrieval"]["model"] == "ours"
    (service,) = seen(site, "broker-service-ours-")
    assert service[1] == "hpc"
    assert {row[1] for row in seen(site, "broker-rag_compress-compress-")} >= {"cpu"}
    await asyncio.to_thread(
        wait_until, lambda: seen(site, service[0], "COMPLETED") != [], "an end of the idle service", 60
    )
    assert not (site.home / "services" / "ours.json").exists()


async def test_a_model_that_does_not_fit_is_refused_at_submit(cluster: Cluster, tmp_path: Path) -> None:
    site = site_of(cluster, tmp_path)
    profile = site.home / "models" / "ours.toml"
    profile.write_text(profile.read_text() + "min_vram_mb = 30000\n")
    (site.home / "models" / "model.gguf").unlink()
    fill(tmp_path / "data", 1, 5)
    with site.serving():
        async with site.client() as client:
            with pytest.raises(Exception, match="needs 30000 MiB"):
                await client.submit(request(site))
    assert not seen(site, "broker-rag_compress", "hpc", "PENDING")


@pytest.mark.model
async def test_smollm2_drives_a_loop_in_a_slurm_job(
    cluster: Cluster, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    site = site_of(cluster, tmp_path, BROKER_MODEL_PROFILE_P40="smollm2")
    source = Path(os.environ.get("AGENTLOOP_TEST_MODELS") or tmp_path_factory.mktemp("models"))
    try:
        os.link(smollm2.install(source), site.home / "models" / smollm2.FILE)
    except (AgentloopError, OSError) as error:
        pytest.skip(f"the model can't be had here: {error}")
    fill(tmp_path / "data", 2, 5)
    began = time.monotonic()
    with site.serving():
        async with site.client() as client:
            job_id = (await client.submit(request(site)))["job_id"]
            while time.monotonic() - began < 500:
                status = await finished(client, job_id)
                if status["state"] in ("succeeded", "failed"):
                    break
            pack = await client.result(job_id)
    assert status["state"] == "succeeded", status
    assert pack["payload"]["retrieval"]["model"] == "smollm2"
    assert pack["provenance"]["cost"]["model_calls"] >= 1
    assert pack["provenance"]["cost"]["completion_tokens"] > 0
    assert "MODEL_UNAVAILABLE" not in [w["code"] for w in pack["payload"]["warnings"]]
    assert seen(site, "broker-rag_compress-compress-", "hpc")
