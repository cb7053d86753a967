"""The plan of a job: tier, model profile, stages, resources, and the reason for the choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agentloop.request import CompressRequest, Mode, TaskType
from broker.config import Settings


class Tier(StrEnum):
    """The tiers of the specification, lowest contention first: retries escalate in this order."""

    CPU = "cpu-rag-indexing"
    P40 = "p40-rag-compression"
    A100 = "a100-reasoning"

    @property
    def next_up(self) -> Tier | None:
        """The tier that a retry escalates to."""
        tiers = list(Tier)
        place = tiers.index(self) + 1
        return tiers[place] if place < len(tiers) else None


@dataclass(frozen=True, slots=True)
class Resources:
    """What an attempt asks for: cores, MiB of memory, GPUs (by type name), wall seconds."""

    cpus: int
    memory_mb: int
    gpus: int
    gpu_type: str
    seconds: int


RESOURCES: dict[Tier, tuple[int, int, int, str]] = {
    Tier.CPU: (2, 8192, 0, ""),
    Tier.P40: (4, 16384, 1, "p40"),
    Tier.A100: (8, 32768, 1, "a100"),
}
OVERHEAD_SECONDS = 120  # start-up, staging and publishing beside max_runtime_seconds

STAGES: tuple[tuple[str, str, Tier], ...] = (
    ("discovery", "rag_discovery", Tier.CPU),
    ("index", "rag_chunk_index", Tier.CPU),
    ("retrieve", "rag_retrieve_rerank", Tier.CPU),
    ("compress", "rag_compress", Tier.P40),
    ("validate", "rag_validate_pack", Tier.CPU),
)
PATCH_STAGE = ("patch", "rag_patch_generate", Tier.A100)

A100_CONTEXT_TOKENS = 100_000  # above this a P40's 24 GB hold no practical KV cache beside a 20B model
QOS_DEFAULT = "preemptible"
ELEVATED_QOS = frozenset({"normal", "high"})


@dataclass(frozen=True, slots=True)
class Plan:
    """Where and how a job runs. `stages` run in one worker unless a backend splits them."""

    tier: Tier
    model_profile: str
    qos: str
    reason: str
    stages: tuple[tuple[str, str, Tier], ...]
    resources: Resources
    estimate: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """`execution_plan.json`, and the plan on the job."""
        return {
            "tier": str(self.tier),
            "model_profile": self.model_profile,
            "qos": self.qos,
            "reason": self.reason,
            "stages": [
                {"stage": stage, "job_type": job_type, "default_tier": str(tier)}
                for stage, job_type, tier in self.stages
            ],
            "one_worker": "all stages run in one worker: moving the corpus costs more than the stages",
            "resources": {
                "cpus": self.resources.cpus,
                "memory_mb": self.resources.memory_mb,
                "gpus": self.resources.gpus,
                "gpu_type": self.resources.gpu_type,
                "seconds": self.resources.seconds,
            },
            "estimate": dict(self.estimate),
        }


def _profile(settings: Settings, tier: Tier) -> str:
    return {
        Tier.CPU: settings.model_profile_cpu,
        Tier.P40: settings.model_profile_p40,
        Tier.A100: settings.model_profile_a100,
    }[tier]


def choose_tier(request: CompressRequest, settings: Settings) -> tuple[Tier, str]:
    """The tier for a request that names none, and why."""
    constraints = request.constraints
    context = constraints.remote_model_context_budget + constraints.retrieved_chunk_budget
    if request.task_type is TaskType.PROPOSE_PATCH and settings.model_profile_a100:
        return Tier.A100, "patch synthesis needs hard reasoning"
    if settings.model_profile_a100 and context > A100_CONTEXT_TOKENS * 2:
        return Tier.A100, f"an estimated {context} tokens of context don't fit a P40"
    if request.task_params.mode is Mode.AGENTIC and settings.model_profile_p40:
        return Tier.P40, "the tool loop calls a local model, and a P40 is the first choice for it"
    return Tier.CPU, "no local model is called, so no GPU is asked for"


def make_plan(
    request: CompressRequest, settings: Settings, *, tier: str = "", estimate: Mapping[str, int] | None = None
) -> Plan:
    """The plan of one attempt; `tier` overrides the request's (a retry that escalates).

    Raises:
        ValueError: the tier is not one of the three.
    """
    profile = request.execution_profile
    asked = tier or profile.tier
    if asked:
        chosen = Tier(asked)
        reason = "a retry escalates to this tier" if tier and tier != profile.tier else "the request names it"
    else:
        chosen, reason = choose_tier(request, settings)
    stages = (*STAGES, PATCH_STAGE) if request.task_type is TaskType.PROPOSE_PATCH else STAGES
    cpus, memory, gpus, gpu_type = RESOURCES[chosen]
    seconds = request.constraints.max_runtime_seconds + OVERHEAD_SECONDS
    return Plan(
        tier=chosen,
        model_profile=profile.model_profile or _profile(settings, chosen),
        qos=profile.qos or QOS_DEFAULT,
        reason=reason,
        stages=stages,
        resources=Resources(cpus, memory, gpus, gpu_type, seconds),
        estimate=estimate or {},
    )
