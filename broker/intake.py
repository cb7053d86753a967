"""From a request to a job: rights, backend, inputs, plan, whether it is split."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.request import Classification, CompressRequest, InputRef, InputType, Mode, TaskType
from broker.auth import Principal, Role
from broker.backends.base import Backend
from broker.config import Settings
from broker.errors import BrokerCode, BrokerError
from broker.fitness import refuse_misfit, refuse_unknown
from broker.jobs.artifacts import EVIDENCE_PACK, INPUT_MANIFEST, LOCAL_INDEX, read_artifact
from broker.jobs.model import Artifact, Job, new_id
from broker.jobs.store import Store
from broker.offload import Offload
from broker.planner import ELEVATED_QOS, QOS_DEFAULT, Tier, make_plan
from broker.policy import ARTIFACT_SCHEME, Authorised, authorise, roots_of, verify_declared
from broker.shards import ShardLimits, Sizes


class Intake:
    """Makes the job of a request, checked but not stored yet."""

    def __init__(self, store: Store, backends: Mapping[str, Backend], settings: Settings) -> None:
        self._store = store
        self._backends = backends
        self._settings = settings
        self._sizes = Sizes(ShardLimits.of(settings))
        self._offload = Offload()

    def _at_once(self, request: CompressRequest) -> bool:
        """Whether nothing has to be hashed or walked to measure a request's inputs."""
        refs = request.input_refs
        return all(ref.content_hash is None and self._sizes.known(ref.uri) for ref in refs)

    async def new_job(self, caller: Principal, request: CompressRequest, digest: str) -> Job:
        """The job of a request; `digest` is the request's hash.

        Raises:
            AgentloopError, BrokerError: as `Service.submit`.
        """
        profile = request.execution_profile
        if profile.qos in ELEVATED_QOS:
            caller.require(Role.PRIORITY)
        if profile.qos not in {None, QOS_DEFAULT, *ELEVATED_QOS}:
            raise _invalid("execution_profile.qos", "is `preemptible`, `normal` or `high`")
        if profile.tier is not None and profile.tier not in list(Tier):
            raise _invalid("execution_profile.tier", f"is one of {', '.join(Tier)}")
        backend = self._backends.get(profile.backend or self._settings.backend)
        if backend is None:
            raise BrokerError(
                BrokerCode.NO_BACKEND,
                f"This broker has no backend {profile.backend!r}; it has {', '.join(self._backends)}.",
                retry_after=60,
            )
        request = await self.with_indexes(caller, request)
        artifacts = await self.referenced(caller, request)
        settings, rules = self._settings, self._settings.rules(caller.namespace)
        chains = backend.name == "slurm" and settings.slurm_chain_mb > 0

        def measure(allowed: Authorised) -> tuple[bool, int]:
            """Whether the request is split, and the bytes of its inputs where a chain depends on them."""
            verify_declared(allowed.request)
            broad = self._sizes.broad(allowed.request)
            if broad or not chains:
                return broad, 0
            return broad, sum(self._sizes.of(ref.uri).bytes for ref in allowed.request.input_refs)

        def look() -> tuple[Authorised, tuple[bool, int] | None]:
            """All that touches the file system, on a thread: it may be slow, and hang on NFS."""
            allowed = authorise(request, rules, artifacts, settings.home)
            return allowed, measure(allowed) if self._at_once(allowed.request) else None

        allowed, measured = await self._offload.run(roots_of(request, rules.roots), look)
        broad, size = measured if measured is not None else await asyncio.to_thread(measure, allowed)
        size >>= 20
        chain = 0 < settings.slurm_chain_mb <= size and Tier.CPU in backend.tiers
        planned = make_plan(request, settings, chain=chain, estimate={"input_mb": size} if size else None)
        if profile.model_profile:
            await asyncio.to_thread(refuse_unknown, settings, planned.model_profile)
        if backend.name == "slurm" and request.task_params.mode is Mode.AGENTIC:
            await asyncio.to_thread(refuse_misfit, settings, planned.model_profile, planned.tier)
        plan = planned.to_json()
        if broad:
            plan["root"] = True  # split when it starts: see broker.jobs.roots
        tier = Tier(plan["tier"])
        now = self._store.now()
        return Job(
            job_id=new_id("job"),
            namespace=caller.namespace,
            principal=caller.name,
            task_type=str(request.task_type),
            request=allowed.request.model_dump(mode="json", exclude_none=True),
            request_hash=digest,
            created_at=now,
            updated_at=now,
            priority=str(profile.priority),
            idempotency_key=request.idempotency_key,
            backend=backend.name,
            tier=str(tier),
            qos=plan["qos"],
            model_profile=plan["model_profile"],
            mode=str(request.task_params.mode),
            plan=plan,
            cache={"status": "bypass"} if self._settings.cache == "off" else {"status": "miss"},
            warnings=() if tier in backend.tiers else (_substituted(tier, backend.name),),
            classification=str(allowed.classification),
        )

    async def with_indexes(self, caller: Principal, request: CompressRequest) -> CompressRequest:
        """The request with each `artifact://` ref to an index replaced by what the index was made of.

        The hashes of then are declared: inputs that have changed are refused, the same ones find the
        index kept. They are authorised like any others, for the caller's grants of now.

        Raises:
            BrokerError: ARTIFACT_CORRUPT.
        """
        if not any(ref.uri.startswith(ARTIFACT_SCHEME) for ref in request.input_refs):
            return request
        refs: list[InputRef] = []
        for ref in request.input_refs:
            name = ref.uri.removeprefix(ARTIFACT_SCHEME)
            found = await self._store.artifact(caller.namespace, name) if name != ref.uri else None
            refs += await self._indexed(found) if found is not None and found.kind == LOCAL_INDEX else [ref]
        return request.model_copy(update={"input_refs": tuple(refs)})

    async def _indexed(self, index: Artifact) -> list[InputRef]:
        """The inputs of the job that left an index, each with its hash."""
        job = await self._store.get(index.job_id)
        beside = {artifact.kind: artifact for artifact in await self._store.artifacts(index.job_id)}
        if job is None or INPUT_MANIFEST not in beside:
            return []
        home = self._settings.home_path
        await asyncio.to_thread(read_artifact, index, home)
        manifest = json.loads(await asyncio.to_thread(read_artifact, beside[INPUT_MANIFEST], home))
        return [
            InputRef.model_validate({**ref, "content_hash": info["content_hash"]})
            for ref, info in zip(job.request["input_refs"], manifest["inputs"], strict=True)
            if ref["type"] != InputType.ARTIFACT
        ]

    async def referenced(
        self, caller: Principal, request: CompressRequest
    ) -> dict[str, tuple[str, Classification]]:
        """Files behind the request's `artifact://` refs, of the caller's namespace only."""
        found = {}
        for ref in request.input_refs:
            if ref.uri.startswith(ARTIFACT_SCHEME):
                name = ref.uri.removeprefix(ARTIFACT_SCHEME)
                artifact = await self._store.artifact(caller.namespace, name)
                if artifact is not None and artifact.kind == EVIDENCE_PACK:
                    path = str(self._settings.home_path.resolve() / artifact.path)
                    found[name] = (path, Classification(artifact.classification))
        return found


def with_task(data: Any, task_type: TaskType | None) -> Any:
    """The request with the endpoint's task; a body that names another is refused."""
    if not isinstance(data, dict) or task_type is None:
        return data
    named = data.get("task_type", task_type)
    if named != task_type:
        raise _invalid("task_type", f"is {task_type} here; use POST /v1/jobs for other tasks")
    return {**data, "task_type": task_type}


def _invalid(field: str, reason: str) -> AgentloopError:
    return AgentloopError(
        ErrorCode.REQUEST_INVALID,
        f"The request is not valid: {field} {reason}.",
        Stage.REQUEST,
        {"fields": [{"field": field, "reason": reason}]},
    )


def _substituted(tier: Tier, backend: str) -> dict[str, Any]:
    return {
        "code": "TIER_SUBSTITUTED",
        "message": f"The {backend} backend has no {tier}; the job runs on what it has.",
        "stage": str(Stage.DISPATCH),
    }
