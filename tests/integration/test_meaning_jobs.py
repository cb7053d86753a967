"""Jobs of a real broker with an embeddings profile: vectors in a worker, and what of it is cached."""

from __future__ import annotations

import os
from pathlib import Path

from tests.fakes.endpoint import FakeEndpoint, fails
from tests.fakes.meaning import DIMENSIONS, vectors
from tests.integration.broker_server import finished, server
from tests.unit.retrieval_case import write

NOTES = {
    "a.md": "# Trip\n\nThe station is closed, so the train leaves from the depot.\n",
    "b.md": "# House\n\nThe boiler makes a banging noise at dawn.\n",
}
PARAMS = {"retrieval_strategies": ["bm25", "embeddings"], "mode": "single_shot"}


async def test_a_job_embeds_in_its_worker_and_a_failure_is_not_cached(tmp_path: Path) -> None:
    steps = [fails(401), vectors()]  # the first job's only call fails
    async with FakeEndpoint(steps, repeat_last=True).serving() as endpoint:
        profile = tmp_path / "profiles.toml"
        profile.write_text(
            f'[e5]\nkind = "embeddings"\nendpoint = "{endpoint.url}"\ndimensions = {DIMENSIONS}\n'
        )
        settings = {"BROKER_EMBEDDINGS_PROFILE": "e5", "BROKER_MODEL_PROFILES_FILE": str(profile)}
        with server(tmp_path, **settings) as broker:
            write(broker.roots / "notes", NOTES)
            for path in (broker.roots / "notes").iterdir():
                os.utime(path, (1_700_000_000, 1_700_000_000))
            refs = [{"type": "directory", "uri": str(broker.roots / "notes")}]
            async with broker.client() as client:
                told = []
                for _ in range(3):
                    request = broker.request("Dlaczego kopciuch rzęzi?", input_refs=refs, task_params=PARAMS)
                    handle = await client.submit(request)
                    record = await finished(client, handle["job_id"])
                    assert record["state"] == "succeeded", record
                    pack = await client.result(handle["job_id"])
                    codes = {w["code"] for w in pack["payload"]["warnings"]}
                    told.append(("STRATEGY_UNAVAILABLE" in codes, [
                        ref["path"] for item in pack["payload"]["evidence"] for ref in item["source_refs"]
                    ][:1]))  # fmt: skip
        assert told == [(True, []), (False, ["b.md"]), (False, ["b.md"])]
