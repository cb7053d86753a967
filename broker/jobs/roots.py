"""Root jobs: a broad request as child jobs over parts of its inputs, and one merged pack at the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from agentloop.errors import AgentloopError, ErrorCode, WarningCode
from agentloop.merge import Empty, Merged, Part, Stamp, merge_packs
from agentloop.pack import Pack
from agentloop.request import CompressRequest
from agentloop.rundir import RunDir
from agentloop.sources.manifest import entries_hash
from agentloop.sources.report import check_declared
from broker.config import Settings
from broker.jobs.artifacts import EVIDENCE_PACK, INPUT_MANIFEST, read_artifact
from broker.jobs.model import Artifact, Job, State, new_id
from broker.jobs.store import Limits, Store
from broker.shards import (
    Shard,
    ShardLimits,
    child_parts,
    child_request,
    from_json,
    plan_shards,
    to_json,
)
from broker.views import stamp

UNBOUNDED = Limits(0, 0)  # children are bounded by their root, which was counted at its submit
BACKGROUND_FACTOR = 4  # how much more a background continuation may retrieve than what it continues


def child_of(root: Job, number: int, shard: Shard, count: int) -> Job:
    """The job of one shard. Its id is the root's with the shard's number: made again, it is the same job."""
    plan = {name: value for name, value in root.plan.items() if name not in {"root", "shards"}}
    parts = [asdict(part) for part in child_parts(shard)]
    return replace(
        root,
        job_id=f"{root.job_id}-{number:04d}",
        request=child_request(root.request, shard),
        idempotency_key=f"shard:{root.job_id}:{number}",
        root_id=root.job_id,
        shard=number,
        state=State.QUEUED,
        attempt=0,
        failures=0,
        version=0,
        token="",
        started_at=None,
        plan={**plan, "shard_count": count, **({"parts": parts} if parts else {})},
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
        job,
        job_id=new_id("job"),
        idempotency_key=f"continue:{job.job_id}",
        request={name: value for name, value in request.items() if name != "idempotency_key"},
        root_id=job.job_id,
        state=State.QUEUED,
        attempt=0,
        failures=0,
        version=0,
        token="",
        started_at=None,
        plan={name: value for name, value in job.plan.items() if name not in {"root", "shards"}},
        warnings=(),
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

    async def children(self, root: Job) -> Job:
        """Make the root's children, those that an earlier broker made not again; the root with its shards.

        The plan is stored before the first child: after a kill the same shards are made.
        """
        if "shards" not in root.plan:
            root = await self._planned(root)
        shards = from_json(root.plan["shards"])
        children = [child_of(root, number, shard, len(shards)) for number, shard in enumerate(shards)]
        await self._store.insert_children(root.job_id, children)
        return root

    async def _planned(self, root: Job) -> Job:
        request = CompressRequest.model_validate(dict(root.request))
        settings = self._settings
        roots = settings.rules(root.namespace).roots
        shards = to_json(
            await asyncio.to_thread(plan_shards, request, ShardLimits.of(settings), settings.caps(), roots)
        )

        def step(job: Job) -> Job:
            return job.evolve(plan={**job.plan, "shards": shards})

        return await self._store.change(root.job_id, step, event="split", data={"shards": len(shards)})

    async def ended(self, root: Job, changed: asyncio.Event) -> list[Job]:
        """Wait until every child is in a terminal state; `changed` is set when one may be."""
        while True:
            changed.clear()
            shards = [c for c in await self._store.children(root.job_id) if c.shard is not None]
            if all(shard.state.terminal for shard in shards) and (shards or await self._called_off(root)):
                return shards
            await changed.wait()
            # every change of any job wakes us, and a look reads all shards: of a thousand once a second
            await asyncio.sleep(min(1.0, len(shards) / 1000))

    async def _called_off(self, root: Job) -> bool:
        """Whether a root's end was asked for before it was split: then it has no children."""
        current = await self._store.get(root.job_id)
        return current is None or current.cancel_requested

    async def merge(self, root: Job, shards: Sequence[Job], run_dir: RunDir) -> dict[str, Any] | None:
        """Publish the merged pack as the root's attempt; the error object when there is nothing to merge."""
        request = CompressRequest.model_validate(dict(root.request))
        plan = from_json(root.plan["shards"])
        parts: list[Part] = []
        manifests: list[str] = []
        empty: list[Empty] = []
        failed: list[str] = []
        for shard in shards:
            pieces = plan[shard.shard or 0]
            beside = await self._store.artifacts(shard.job_id)
            pack = await self._pack(shard, beside)
            if pack is not None:
                manifests += [a.public_id for a in beside if a.kind == INPUT_MANIFEST]
                parts.append(Part(f"shard {shard.shard}", pack, tuple(piece.input for piece in pieces)))
            elif child_parts(pieces) and _held_nothing(shard):
                empty.append(Empty(dict((shard.error or {})["details"].get("skipped", {}))))
            else:
                failed.append(f"shard {shard.shard}")
        if not parts:
            errors = [shard.error for shard in shards if shard.error is not None]
            return dict(errors[0]) if errors else {}
        now = self._store.now()
        made = Stamp(root.job_id, stamp(now), now - root.created_at)
        try:
            hashes = await self._folder_hashes(request, shards, plan)
            merged = await asyncio.to_thread(merge_packs, request, parts, failed, made, empty, hashes)
        except AgentloopError as exc:
            found: dict[str, Any] = exc.to_json()["error"]
            return found
        await asyncio.to_thread(publish_merged, run_dir, str(root.attempt), merged, manifests)
        return None

    async def _folder_hashes(
        self, request: CompressRequest, shards: Sequence[Job], plan: Sequence[Shard]
    ) -> dict[int, str]:
        """The hash of each cut folder by its input number, from its shards' manifests; empty where one lacks.

        Raises:
            AgentloopError: INPUT_HASH_MISMATCH, another one was declared.
        """
        entries: dict[int, list[dict[str, Any]]] = {}
        unknown: set[int] = set()
        for shard in shards:
            pieces = plan[shard.shard or 0]
            cut = {part.input: pieces[part.input].input for part in child_parts(pieces)}
            beside = await self._store.artifacts(shard.job_id) if cut else ()
            manifest = await self._read(beside, INPUT_MANIFEST)
            if manifest is None and not _held_nothing(shard):
                unknown.update(cut.values())
            for entry in manifest["files"] if manifest is not None else ():
                own = int(entry["input_id"].removeprefix("in")) - 1
                if own in cut:
                    entries.setdefault(cut[own], []).append(entry)
        found = dict.fromkeys(unknown, "")
        for number in sorted(entries.keys() - unknown):
            found[number] = await asyncio.to_thread(entries_hash, entries[number])
            check_declared(request.input_refs[number], f"in{number + 1}", found[number])
        return found

    async def _pack(self, shard: Job, beside: Sequence[Artifact]) -> Pack | None:
        if shard.state is not State.SUCCEEDED:
            return None
        found = await self._read(beside, EVIDENCE_PACK)
        return None if found is None else Pack.model_validate(found)

    async def _read(self, beside: Sequence[Artifact], kind: str) -> Any:
        """A JSON artifact of a shard among its artifacts, None where it has none."""
        for artifact in beside:
            if artifact.kind == kind:
                data = await asyncio.to_thread(read_artifact, artifact, self._settings.home_path)
                return await asyncio.to_thread(json.loads, data)
        return None


def _held_nothing(shard: Job) -> bool:
    """Whether a shard failed only because its part of a folder holds nothing that can be read."""
    error = shard.error or {}
    reason = error.get("details", {}).get("reason")
    return error.get("code") == ErrorCode.INPUT_DISCOVERY_FAILED and reason == "nothing_to_index"


def publish_merged(run_dir: RunDir, label: str, merged: Merged, manifests: Sequence[str]) -> None:
    """Publish a merged pack as a worker publishes its own; `manifests` are the ids of its shards'.

    Raises:
        OSError: see `rundir.publish`.
    """
    run_dir.create({})
    attempt = run_dir.start_attempt(label)
    attempt.publish_json("run-metadata.json", {"cache": {}, "manifest_ids": list(manifests)})
    attempt.write_artifacts(merged.artifacts)
    attempt.publish_json("result.json", merged.released)
