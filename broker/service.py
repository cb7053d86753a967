"""The one place that HTTP and MCP call. Every method takes the caller and checks what it may do."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentloop import __version__
from agentloop.cache import FileCache, value_hash
from agentloop.cache import packs as packcache
from agentloop.clock import Clock
from agentloop.errors import AgentloopError
from agentloop.request import (
    Mode,
    Strategy,
    TaskType,
    parse_request,
)
from broker import views
from broker.auth import Principal, Role
from broker.backends.base import Backend
from broker.config import Settings
from broker.errors import BrokerCode, BrokerError, not_found
from broker.evidence import expand
from broker.intake import Intake, with_task
from broker.jobs.artifacts import EVIDENCE_PACK, LOCAL_INDEX, RESULT, read_artifact
from broker.jobs.bus import Bus
from broker.jobs.dispatch import Dispatcher
from broker.jobs.model import Artifact, Event, Job, State
from broker.jobs.store import LAST, Filters, Limits, Store
from broker.planner import Tier, make_plan
from broker.policy import authorise
from broker.release import screen

MAX_WAIT_SECONDS = 60.0
MAX_PAGE = 200
LEAST_ROOM = 4 << 20  # bytes: a job's run directory takes about a tenth of it
LOOKUP_LAYERS: dict[str, tuple[str, ...]] = {
    "hit": ("manifest", "evidence_pack"),
    "partial": ("manifest",),
    "miss": (),
}


@dataclass(frozen=True, slots=True)
class Parts:
    """What a service is made of."""

    store: Store
    dispatcher: Dispatcher
    backends: Mapping[str, Backend]
    settings: Settings
    clock: Clock
    bus: Bus


class Service:
    """Submit, look, wait, fetch, cancel; metadata, evidence, capabilities."""

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store
        self._dispatcher = parts.dispatcher
        self._backends = parts.backends
        self._settings = parts.settings
        self._clock = parts.clock
        self._bus = parts.bus
        self._intake = Intake(parts.store, parts.backends, parts.settings)

    # --- submit -------------------------------------------------------------------------------------

    async def submit(self, caller: Principal, data: Any, task_type: TaskType | None = None) -> Job:
        """Accept a request, durably; the job, which an earlier call with its idempotency key may have made.

        Args:
            data: decoded JSON of the request.
            task_type: the task that the endpoint or tool stands for; the body may repeat it, not differ.

        Raises:
            AgentloopError: REQUEST_INVALID, INPUT_DISCOVERY_FAILED, INPUT_HASH_MISMATCH.
            BrokerError: POLICY_DENIED, IDEMPOTENCY_CONFLICT, QUEUE_FULL, NO_BACKEND, DRAINING, STORAGE_FULL.
        """
        caller.require(Role.USER)
        request = parse_request(with_task(data, task_type))
        digest = value_hash(request.model_dump(mode="json", exclude={"idempotency_key"}))
        if request.idempotency_key is not None:
            earlier = await self._store.by_key(caller.namespace, request.idempotency_key)
            if earlier is not None and earlier.request_hash == digest:
                return earlier
        if self._dispatcher.draining:
            raise BrokerError(
                BrokerCode.DRAINING, "The broker is shutting down; try again soon.", retry_after=5
            )
        try:
            job = await self._intake.new_job(caller, request, digest)
        except (AgentloopError, BrokerError) as exc:
            if str(exc.code) in {"POLICY_DENIED", "INPUT_DISCOVERY_FAILED"}:
                detail = {"code": str(exc.code), "reason": exc.details.get("reason", "")}
                await self._store.audit(caller.namespace, caller.name, "deny", detail)
            raise
        limits = Limits(self._settings.max_queued_per_namespace, self._settings.max_queued)
        stored, _ = await self._store.insert(job, limits)
        return stored

    # --- look ---------------------------------------------------------------------------------------

    async def get(self, caller: Principal, job_id: str) -> Job:
        """A job of the caller's namespace.

        Raises:
            BrokerError: NOT_FOUND, for another namespace's too.
        """
        caller.require(Role.READER)
        job = await self._store.get(job_id)
        if job is None or job.namespace != caller.namespace:
            raise not_found()
        return job

    async def wait(self, caller: Principal, job_id: str, seconds: float) -> Job:
        """A job as soon as it is in a terminal state, or as it is after `seconds` (at most 60).

        Raises:
            BrokerError: NOT_FOUND.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(seconds, MAX_WAIT_SECONDS)
        with self._bus.subscribe(job_id) as changed:
            while True:
                changed.clear()
                job = await self.get(caller, job_id)
                left = deadline - loop.time()
                if job.state.terminal or left <= 0:
                    return job
                try:
                    await asyncio.wait_for(changed.wait(), left)
                except TimeoutError:
                    return await self.get(caller, job_id)

    async def list(
        self, caller: Principal, filters: Filters, cursor: str | None = None, limit: int = 50
    ) -> views.JobPage:
        """A page of the caller's jobs, newest first.

        Raises:
            BrokerError: BAD_REQUEST, the cursor is not one that a page gave.
        """
        caller.require(Role.READER)
        before = LAST
        if cursor is not None:
            if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 19):
                raise BrokerError(BrokerCode.BAD_REQUEST, "cursor is the next_cursor of an earlier page.")
            before = int(cursor)
        size = min(limit, MAX_PAGE)
        jobs = await self._store.page(caller.namespace, filters, before, size + 1)
        more = jobs[size - 1].seq if len(jobs) > size else None
        return views.JobPage(
            jobs=tuple(views.status(job) for job in jobs[:size]),
            next_cursor=None if more is None else str(more),
        )

    async def logs(self, caller: Principal, job_id: str, after: int = 0) -> views.JobLogs:
        """A job's structured events above `after`.

        Raises:
            BrokerError: NOT_FOUND.
        """
        await self.get(caller, job_id)
        return views.logs(job_id, await self._store.events(job_id, after))

    async def follow(self, caller: Principal, job_id: str, after: int = 0) -> AsyncIterator[Event | Job]:
        """A job's events from `after` on as they come, at last the terminal job.

        Raises:
            BrokerError: NOT_FOUND.
        """
        with self._bus.subscribe(job_id) as changed:
            while True:
                changed.clear()
                job = await self.get(caller, job_id)
                for event in await self._store.events(job_id, after):
                    after = event.seq
                    yield event
                if job.state.terminal:
                    yield job
                    return
                await changed.wait()

    async def root(self, caller: Principal, root_id: str) -> views.RootView:
        """The aggregate of a root job; a job without shards is its own root.

        Raises:
            BrokerError: NOT_FOUND.
        """
        job = await self.get(caller, root_id)
        if job.root_id is not None:
            raise not_found()
        return views.root(job, await self._store.children(root_id))

    # --- results ------------------------------------------------------------------------------------

    async def result(
        self, caller: Principal, job_id: str, *, include_artifacts: bool = False
    ) -> dict[str, Any]:
        """The released pack of a job that succeeded, screened by today's policy and audited.

        With `include_artifacts` the metadata of the job's local artifacts stands under `artifacts`.

        Raises:
            BrokerError: NOT_FOUND; RESULT_NOT_READY; NO_RESULT (it ended without one); ARTIFACT_CORRUPT.
            AgentloopError: POLICY_REDACTION_REQUIRED, today's policy forbids what the pack holds.
        """
        job = await self.get(caller, job_id)
        if not job.state.terminal:
            raise BrokerError(
                BrokerCode.RESULT_NOT_READY,
                f"The job is {job.state}; wait for it.",
                details={"job_id": job_id, "state": str(job.state)},
                retry_after=1,
            )
        if job.state is not State.SUCCEEDED:
            raise BrokerError(
                BrokerCode.NO_RESULT,
                f"The job is {job.state} and has no result; its record says why.",
                details={"job_id": job_id, "state": str(job.state)},
            )
        artifacts = await self._store.artifacts(job_id)
        released = next(a for a in artifacts if a.kind == RESULT)
        data = await asyncio.to_thread(read_artifact, released, self._settings.home_path)
        pack: dict[str, Any] = json.loads(data)
        screen(pack, self._settings.policy(job.namespace))
        await self._store.audit(
            caller.namespace, caller.name, "release", {"sha256": released.sha256}, job_id=job_id
        )
        if include_artifacts:
            pack["artifacts"] = [views.artifact(a).model_dump(mode="json") for a in artifacts]
        return pack

    async def artifact(self, caller: Principal, artifact_id: str, kind: str) -> views.ArtifactView:
        """Metadata of an artifact: `evidence_pack` or `local_index`.

        Raises:
            BrokerError: NOT_FOUND; ARTIFACT_CORRUPT.
        """
        caller.require(Role.READER)
        found = await self._artifact(caller, artifact_id)
        if found.kind != kind:
            raise not_found()
        await asyncio.to_thread(read_artifact, found, self._settings.home_path)
        return views.artifact(found)

    async def _artifact(self, caller: Principal, artifact_id: str) -> Artifact:
        found = await self._store.artifact(caller.namespace, artifact_id)
        if found is None:
            raise not_found()
        return found

    async def evidence_pack(self, caller: Principal, artifact_id: str) -> views.ArtifactView:
        """Metadata of an evidence pack, by artifact id or `provenance.pack_id`."""
        return await self.artifact(caller, artifact_id, EVIDENCE_PACK)

    async def index(self, caller: Principal, artifact_id: str) -> views.ArtifactView:
        """Metadata of a local index."""
        return await self.artifact(caller, artifact_id, LOCAL_INDEX)

    async def read_evidence(self, caller: Principal, asked: views.ReadEvidence) -> views.EvidenceText:
        """The source behind a ref of a job's pack, bounded, screened by policy, its hash checked.

        Raises:
            BrokerError: NOT_FOUND, also of the evidence id or ref; NO_RESULT; ARTIFACT_CORRUPT.
        """
        job = await self.get(caller, asked.job_id)
        packs = [a for a in await self._store.artifacts(job.job_id) if a.kind == EVIDENCE_PACK]
        if not packs:
            raise BrokerError(BrokerCode.NO_RESULT, f"The job is {job.state} and has no evidence.")
        data = await asyncio.to_thread(read_artifact, packs[0], self._settings.home_path)
        policy = self._settings.policy(job.namespace)
        text = await asyncio.to_thread(expand, json.loads(data), job.request, asked, policy)
        detail = {"evidence": asked.evidence_id, "withheld": text.withheld}
        await self._store.audit(caller.namespace, caller.name, "read_evidence", detail, job_id=job.job_id)
        return text

    # --- act ----------------------------------------------------------------------------------------

    async def cancel(self, caller: Principal, job_id: str) -> Job:
        """Ask for a job's end; a queued one is cancelled at once, a finished one stays as it is.

        Raises:
            BrokerError: NOT_FOUND, POLICY_DENIED.
        """
        caller.require(Role.USER)
        await self.get(caller, job_id)
        now = self._store.now()

        def step(job: Job) -> Job:
            if job.state.terminal or job.cancel_requested:
                return job
            if job.state is State.QUEUED:
                return job.move(State.CANCELLED, now, cancel_requested=True)
            return job.evolve(cancel_requested=True, updated_at=now)

        jobs = await self._store.change_tree(
            job_id, step, event="cancel_requested", audit="cancel", actor=caller.name
        )
        running = [job.job_id for job in jobs if not job.state.terminal]
        if not running:
            return jobs[0]
        await self._dispatcher.cancel(running)
        return await self._store.get(job_id) or jobs[0]

    # --- about --------------------------------------------------------------------------------------

    async def cache_lookup(self, caller: Principal, data: Any) -> views.CacheLookup:
        """Whether a request's pack, or layers under it, are in the cache now.

        Raises:
            AgentloopError: as `submit`.
        """
        caller.require(Role.READER)
        request = await self._intake.with_indexes(caller, parse_request(data))
        artifacts = await self._intake.referenced(caller, request)
        rules = self._settings.rules(caller.namespace)
        allowed = await asyncio.to_thread(authorise, request, rules, artifacts, self._settings.home)
        if self._settings.cache == "off":
            return views.CacheLookup(status="bypass")
        settings = self._settings
        cache = FileCache(settings.home_path / "cache", settings.cache_max_mb << 20)
        policy = settings.policy(caller.namespace)
        names = (
            make_plan(request, settings).model_profile,
            settings.embeddings_profile,
            settings.rerank_profile,
        )

        def look() -> str:
            from agentloop.loop.places import ModelPlaces

            places = ModelPlaces.under(settings.home_path, settings.model_profiles_file)
            models = packcache.models_part(names, places)
            return packcache.look_up(cache, allowed.request, policy, settings.caps(), models)

        found = await asyncio.to_thread(look)
        return views.CacheLookup(status=found, layers=LOOKUP_LAYERS[found])

    def capabilities(self, caller: Principal) -> views.Capabilities:
        """What this broker can do for the caller."""
        caller.require(Role.READER)
        settings = self._settings
        tiers = {tier for backend in self._backends.values() for tier in backend.tiers}
        models = {
            Tier.CPU: settings.model_profile_cpu,
            Tier.P40: settings.model_profile_p40,
            Tier.A100: settings.model_profile_a100,
        }
        return views.Capabilities(
            version=__version__,
            tasks=tuple(TaskType),
            modes=tuple(Mode),
            strategies=tuple(Strategy),
            tiers={str(tier): tier in tiers for tier in Tier},
            backends=tuple(sorted(self._backends)),
            models={str(tier): name or "builtin" for tier, name in models.items()},
            roots=settings.rules(caller.namespace).roots,
            limits={
                "max_body_bytes": settings.max_body_bytes,
                "max_queued_per_namespace": settings.max_queued_per_namespace,
                "max_wait_seconds": int(MAX_WAIT_SECONDS),
                "max_attempts": settings.max_attempts,
            },
            health="draining" if self._dispatcher.draining else "ok",
        )

    async def ready(self) -> views.Health:
        """Whether jobs can be taken now: the store answers, the dispatcher claims, the disk has room."""
        checks = {"dispatch": "draining" if self._dispatcher.draining else "ok"}
        try:
            await self._store.counts()
            checks["store"] = "ok"
        except BrokerError as exc:
            checks["store"] = str(exc.code)
        room = await asyncio.to_thread(os.statvfs, self._settings.home)
        full = room.f_bavail * room.f_frsize < LEAST_ROOM
        checks["room"] = str(BrokerCode.STORAGE_FULL) if full else "ok"
        good = all(found == "ok" for found in checks.values())
        return views.Health(status="ok" if good else "unavailable", checks=checks)

    async def counts(self) -> dict[tuple[str, str], int]:
        """Unfinished jobs by (namespace, state), for metrics."""
        return await self._store.counts()
