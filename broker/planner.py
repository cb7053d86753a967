"""The plan of a job: tier, model profile, stages, resources, and the reason for the choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agentloop.request import CompressRequest, Mode, Strategy, TaskType
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
EMBED_STAGE = ("embed", "rag_embed", Tier.P40)
PATCH_STAGE = ("patch", "rag_patch_generate", Tier.A100)

A100_CONTEXT_TOKENS = 100_000  # above this a P40's 24 GB hold no practical KV cache beside a 20B model
QOS_DEFAULT = "preemptible"
AHEAD = frozenset({"discovery", "index"})
"""Stages that a chain runs ahead of the GPU, in one job: moving the corpus costs more than a stage."""
ONE_WORKER = "all stages run in one worker: moving the corpus costs more than the stages"
CHAIN = (
    "a chain: the inputs are large, so discovery and index are made on the CPU tier before a GPU is held; "
    "the stages after them share one job, for they share what is in memory"
)
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
    chain: bool = False  # discovery and index in a job of their own, on the CPU tier

    @property
    def own_stage(self) -> str:
        """The stage that names the job of the tier."""
        return "patch" if PATCH_STAGE in self.stages else "compress"

    def to_json(self) -> dict[str, Any]:
        """`execution_plan.json`, and the plan on the job."""
        return {
            "tier": str(self.tier),
            "model_profile": self.model_profile,
            "qos": self.qos,
            "reason": self.reason,
            "stages": [
                {
                    "stage": stage,
                    "job_type": job_type,
                    "default_tier": str(tier),
                    "tier": str(Tier.CPU if self.chain and stage in AHEAD else self.tier),
                    "job": "index" if self.chain and stage in AHEAD else self.own_stage,
                }
                for stage, job_type, tier in self.stages
            ],
            **({"chain": CHAIN} if self.chain else {"one_worker": ONE_WORKER}),
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


def resources_of(tier: Tier, runtime_seconds: int) -> Resources:
    """What a run on a tier asks for."""
    cpus, memory, gpus, gpu_type = RESOURCES[tier]
    return Resources(cpus, memory, gpus, gpu_type, runtime_seconds + OVERHEAD_SECONDS)


def _stages(request: CompressRequest, settings: Settings) -> tuple[tuple[str, str, Tier], ...]:
    stages = list(STAGES)
    if settings.embeddings_profile and Strategy.EMBEDDINGS in (
        request.task_params.retrieval_strategies or ()
    ):
        stages.insert(2, EMBED_STAGE)
    if request.task_type is TaskType.PROPOSE_PATCH:
        stages.append(PATCH_STAGE)
    return tuple(stages)


def make_plan(
    request: CompressRequest,
    settings: Settings,
    *,
    tier: str = "",
    estimate: Mapping[str, int] | None = None,
    chain: bool = False,
) -> Plan:
    """The plan of one attempt; `tier` overrides the request's (a retry that escalates).

    `chain`: the backend can run stages ahead on the CPU tier, and the inputs are worth it; a run that is
    on that tier anyway has no chain.

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
    return Plan(
        tier=chosen,
        model_profile=profile.model_profile or _profile(settings, chosen),
        qos=profile.qos or QOS_DEFAULT,
        reason=reason,
        stages=_stages(request, settings),
        resources=resources_of(chosen, request.constraints.max_runtime_seconds),
        estimate=estimate or {},
        chain=chain and chosen is not Tier.CPU,
    )
