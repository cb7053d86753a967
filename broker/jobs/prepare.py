"""Before a run: the grant is checked once more, and the run directory is written."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import Any

from agentloop.cache import packs as packcache
from agentloop.config import Caps, InputPart
from agentloop.errors import AgentloopError
from agentloop.jobspec import JobSpec
from agentloop.request import CompressRequest, InputType, Mode
from agentloop.rundir import RunDir
from broker.auth import Authenticator
from broker.backends.base import Step
from broker.config import Settings
from broker.fitness import refuse_misfit
from broker.jobs.model import Job
from broker.jobs.outcome import failure
from broker.planner import Plan, Tier, make_plan, resources_of
from broker.policy import recheck


class Preparer:
    """Turns jobs into run directories under `BROKER_HOME/runs`."""

    def __init__(self, settings: Settings, auth: Authenticator) -> None:
        self._settings = settings
        self._auth = auth

    def run_dir(self, job: Job) -> RunDir:
        """The job's run directory: two levels, so that no folder grows too large."""
        return RunDir(self._settings.home_path / "runs" / job.job_id[-2:] / job.job_id)

    async def check(self, job: Job) -> dict[str, Any] | None:
        """The error of a job that may no longer run: its grant is gone, or its roots changed."""
        if not self._auth.still_granted(job.principal, job.namespace):
            return failure("POLICY_DENIED", "The token that submitted this job was revoked.", retryable=False)
        request = self._request(job)
        try:
            recheck(request, self._settings.rules(job.namespace), self._settings.home)
            if job.backend == "slurm" and request.task_params.mode is Mode.AGENTIC:
                plan = self._plan(job, request)
                await asyncio.to_thread(refuse_misfit, self._settings, plan.model_profile, plan.tier)
        except AgentloopError as exc:
            found: dict[str, Any] = exc.to_json()["error"]
            return found
        return None

    def _request(self, job: Job) -> CompressRequest:
        return CompressRequest.model_validate(dict(job.request))

    def _plan(self, job: Job, request: CompressRequest) -> Plan:
        chain = "chain" in job.plan and job.backend == "slurm"
        estimate = job.plan.get("estimate")
        return make_plan(request, self._settings, tier=job.tier, chain=chain, estimate=estimate)

    def before(self, job: Job) -> tuple[Step, ...]:
        """What a job's run has done ahead, on the CPU tier, where its plan is a chain."""
        request = self._request(job)
        if not self._plan(job, request).chain:
            return ()
        seconds = request.constraints.max_runtime_seconds
        return (Step("index", Tier.CPU, resources_of(Tier.CPU, seconds)),)

    def service(self, job: Job) -> str:
        """The profile of the warm service that serves a job's model; a second attempt serves its own."""
        name = self._plan(job, self._request(job)).model_profile
        warm = job.backend == "slurm" and name in self._settings.slurm_services
        return name if warm and job.attempt <= 1 else ""

    def _caps(self, job: Job) -> Caps:
        """The caps of a job; a shard reads parts of folders only."""
        parts = tuple(InputPart(**part) for part in job.plan.get("parts", ()))
        return replace(self._settings.caps(), parts=parts)

    def affinity(self, job: Job) -> str:
        """What this job's inputs have in common with other jobs on them; empty where nothing may be kept."""
        if self._settings.cache == "off" or job.attempt > 1:
            return ""  # a second attempt trusts nothing that is kept
        request, policy = self._request(job), self._settings.policy(job.namespace)
        return packcache.affinity(request, policy, self._caps(job))

    def write(self, job: Job) -> None:
        """Write the input documents and open the attempt.

        Raises:
            OSError: the run directory can't be written.
        """
        settings, request = self._settings, self._request(job)
        policy = settings.policy(job.namespace)
        inputs = [ref.model_dump(mode="json", exclude_none=True) for ref in request.input_refs]
        own = [ref.uri for ref in request.input_refs if ref.type is InputType.ARTIFACT]
        plan = self._plan(job, request)
        run_dir = self.run_dir(job)
        checkpoints = run_dir.path / "checkpoints" / str(job.attempt)
        spec = JobSpec(
            job_id=job.job_id,
            namespace=job.namespace,
            request=request,
            policy=policy,
            caps=self._caps(job),
            cache_dir=str(settings.home_path / "cache") if settings.cache == "on" else "",
            cache_bytes=settings.cache_max_mb << 20,
            model_profile=plan.model_profile,
            home=str(settings.home_path),
            model_profiles_file=settings.model_profiles_file,
            embeddings_profile=settings.embeddings_profile,
            rerank_profile=settings.rerank_profile,
            checkpoint_dir=str(checkpoints) if job.backend == "slurm" else "",
            service=bool(self.service(job)),
        )
        run_dir.create(
            {
                "job_spec.json": spec.to_json(),
                "execution_plan.json": {
                    **plan.to_json(),
                    "job_id": job.job_id,
                    "attempt": job.attempt,
                    "token": job.token,
                    "job_name": f"broker-{job.task_type}-{plan.own_stage}-{job.token}",
                    "resources": asdict(plan.resources),
                },
                "input_manifest.json": {
                    "input_refs": inputs,
                    "roots": [*(policy.allowed_roots or ()), *own],
                },
            }
        )
        run_dir.start_attempt(str(job.attempt))
