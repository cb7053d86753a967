"""Root jobs: a broad request as child jobs over parts of its inputs, and one merged pack at the end."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentloop.errors import AgentloopError, WarningCode
from agentloop.merge import Merged, Part, Stamp, merge_packs
from agentloop.pack import Pack
from agentloop.request import CompressRequest, InputRole
from agentloop.rundir import RunDir
from broker.config import Settings
from broker.jobs.artifacts import EVIDENCE_PACK, read_artifact
from broker.jobs.model import Job, State, new_id
from broker.jobs.store import Limits, Store
from broker.views import stamp

UNBOUNDED = Limits(0, 0)  # children are bounded by their root, which was counted at its submit
BACKGROUND_FACTOR = 4  # how much more a background continuation may retrieve than what it continues
MOST_ENTRIES = 20_000  # files looked at to size an input; a larger one counts as larger than a shard


def shards_of(request: CompressRequest, settings: Settings) -> list[list[int]]:
    """Input numbers, from 0, by shard; one shard where nothing is to be split.

    A baseline is compared with, so a request that has one is not split. Inputs stay whole and in order.
    """
    refs = request.input_refs
    if len(refs) == 1 or any(ref.role is InputRole.BASELINE for ref in refs):
        return [list(range(len(refs)))]
    shards: list[list[int]] = []
    room, left = settings.shard_mb << 20, 0
    for number, ref in enumerate(refs):
        size = input_size(ref.uri, room)
        full = not shards or len(shards[-1]) >= settings.shard_inputs or size > left
        if full:
            shards.append([number])
            left = room - size
        else:
            shards[-1].append(number)
            left -= size
    return shards


def input_size(path: str, enough: int) -> int:
    """Bytes of a file or below a folder, looked at until `enough` or too many files are seen."""
    if not os.path.isdir(path):
        return os.path.getsize(path) if os.path.exists(path) else 0
    total = seen = 0
    for folder, _, names in os.walk(path):
        for name in names:
            seen += 1
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
        if total > enough or seen > MOST_ENTRIES:
            return enough + 1
    return total


def child_of(root: Job, number: int, inputs: Sequence[int]) -> Job:
    """The job of one shard. Its id is the root's with the shard's number: made again, it is the same job."""
    request = dict(root.request)
    request["input_refs"] = [root.request["input_refs"][n] for n in inputs]
    request.pop("idempotency_key", None)
    plan = {name: value for name, value in root.plan.items() if name not in {"root", "shards"}}
    return replace(
        root,
        job_id=f"{root.job_id}-{number:04d}",
        request=request,
        idempotency_key=f"shard:{root.job_id}:{number}",
        root_id=root.job_id,
        shard=number,
        state=State.QUEUED,
        attempt=0,
        failures=0,
        version=0,
        token="",
        started_at=None,
        plan=plan,
        warnings=(),
    )


def continuation_of(job: Job) -> Job | None:
    """The background job that goes on where a request stopped at its retrieval budget, when it asked so."""
    asked = job.request.get("task_params", {}).get("continue_in_background", False)
    stopped = any(w.get("code") == WarningCode.RETRIEVAL_BUDGET_REACHED for w in job.warnings)
    if not (asked and stopped and job.state is State.SUCCEEDED and job.root_id is None):
        return None
    constraints = dict(job.request["constraints"])
    constraints["retrieved_chunk_budget"] = min(
        10_000_000, constraints["retrieved_chunk_budget"] * BACKGROUND_FACTOR
    )
    params = {**job.request["task_params"], "continue_in_background": False}
    request = {**job.request, "constraints": constraints, "task_params": params}
    return replace(
        child_of(job, 0, range(len(request["input_refs"]))),
        job_id=new_id("job"),
        idempotency_key=f"continue:{job.job_id}",
        request=request,
        priority="background",
        shard=None,
        finished_at=None,
        error=None,
        retry=None,
        stage="",
        percent=0.0,
        pack_artifact="",
        backend_id="",
        tool_calls=None,
    )


class Reducer:
    """Runs the children of a root to their end and merges what they gave."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    async def children(self, root: Job) -> None:
        """Make the root's children, those that an earlier broker made not again."""
        for number, inputs in enumerate(root.plan["shards"]):
            await self._store.insert(child_of(root, number, inputs), UNBOUNDED)

    async def ended(self, root: Job, changed: asyncio.Event) -> list[Job]:
        """Wait until every child is in a terminal state; `changed` is set when one may be."""
        while True:
            changed.clear()
            shards = [c for c in await self._store.children(root.job_id) if c.shard is not None]
            if shards and all(shard.state.terminal for shard in shards):
                return shards
            await changed.wait()

    async def merge(self, root: Job, shards: Sequence[Job], run_dir: RunDir) -> dict[str, Any] | None:
        """Publish the merged pack as the root's attempt; the error object when there is nothing to merge."""
        parts, failed = [], []
        for shard in shards:
            pack = await self._pack(shard)
            name = f"shard {shard.shard}"
            if pack is None:
                failed.append(name)
            else:
                parts.append(Part(name, pack, tuple(root.plan["shards"][shard.shard or 0])))
        if not parts:
            errors = [shard.error for shard in shards if shard.error is not None]
            return dict(errors[0]) if errors else {}
        now = self._store.now()
        made = Stamp(root.job_id, stamp(now), now - root.created_at)
        request = CompressRequest.model_validate(dict(root.request))
        try:
            merged = await asyncio.to_thread(merge_packs, request, parts, failed, made)
        except AgentloopError as exc:
            found: dict[str, Any] = exc.to_json()["error"]
            return found
        await asyncio.to_thread(publish_merged, run_dir, str(root.attempt), merged)
        return None

    async def _pack(self, shard: Job) -> Pack | None:
        if shard.state is not State.SUCCEEDED:
            return None
        for artifact in await self._store.artifacts(shard.job_id):
            if artifact.kind == EVIDENCE_PACK:
                data = await asyncio.to_thread(read_artifact, artifact, self._settings.home_path)
                return Pack.model_validate(json.loads(data))
        return None


def publish_merged(run_dir: RunDir, label: str, merged: Merged) -> None:
    """Publish a merged pack as a worker publishes its own.

    Raises:
        OSError: see `rundir.publish`.
    """
    run_dir.create({})
    attempt = run_dir.start_attempt(label)
    attempt.publish_json("run-metadata.json", {"cache": {}})
    attempt.write_artifacts(merged.artifacts)
    attempt.publish_json("result.json", merged.released)
