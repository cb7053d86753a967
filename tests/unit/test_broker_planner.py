"""Where a job runs and why: tiers, reasons on record, escalation, rights, stages, chains, and what fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentloop.errors import AgentloopError, ErrorCode
from agentloop.request import CompressRequest, parse_request
from broker.auth import Principal, Role
from broker.backends.slurm import parse
from broker.config import Settings, load
from broker.errors import BrokerError
from broker.fitness import refuse_misfit
from broker.intake import Intake
from broker.jobs.model import State
from broker.jobs.outcome import End, escalated, failure, settle
from broker.planner import Tier, make_plan
from tests.fakes import broker_parts
from tests.fakes.broker_parts import HeldClock, ScriptedBackend, stored
from tests.unit.test_serving import gguf


def settings(home: Path, **environ: str) -> Settings:
    return load(
        {
            "BROKER_HOME": str(home),
            "BROKER_MODEL_PROFILE_P40": "gpt-oss-20b.p40",
            "BROKER_MODEL_PROFILE_A100": "qwen3-coder-30b.a100",
            "BROKER_ALLOWED_ROOTS": str(home),
            **environ,
        }
    )


def request(**changes: Any) -> CompressRequest:
    value = {"task_type": "rag_compress", "query": "q", "input_refs": [{"type": "file", "uri": "/x"}]}
    if changes.get("task_type") == "propose_patch":
        value.pop("query")
    return parse_request({**value, **changes})


PATCH = {"task_type": "propose_patch", "problem": "p"}


@pytest.mark.parametrize(
    ("changes", "tier", "reason"),
    [
        ({}, Tier.P40, "P40 is the first choice"),
        ({"task_params": {"mode": "single_shot"}}, Tier.CPU, "no GPU"),
        (PATCH, Tier.A100, "patch"),
        ({"constraints": {"retrieved_chunk_budget": 400_000}}, Tier.A100, "412000 tokens"),
        ({"execution_profile": {"tier": "a100-reasoning"}}, Tier.A100, "the request names it"),
    ],
)
def test_an_a100_has_a_reason_on_record(
    tmp_path: Path, changes: dict[str, Any], tier: Tier, reason: str
) -> None:
    plan = make_plan(request(**changes), settings(tmp_path))
    assert plan.tier is tier
    assert reason in plan.to_json()["reason"]
    assert plan.to_json()["resources"]["gpus"] == int(tier is not Tier.CPU)


def test_retries_climb_as_far_as_there_are_partitions() -> None:
    everywhere = frozenset(Tier)
    assert escalated(Tier.CPU, everywhere) == Tier.P40
    assert escalated(Tier.P40, everywhere) == Tier.A100
    assert escalated(Tier.A100, everywhere) == Tier.A100
    assert escalated(Tier.CPU, frozenset({Tier.CPU})) == Tier.CPU
    job = broker_parts.job(tier=str(Tier.CPU), state=State.RUNNING, attempt=1)
    error = failure("GPU_TIER_UNAVAILABLE", "x", retryable=True)
    seen = []
    for number in range(3):
        job = settle(job, End(error=error), 2.0 + number, 4, everywhere)
        seen.append(job.tier)
        job = job.move(State.DISPATCHING, 3.0, attempt=job.attempt + 1).move(State.RUNNING, 3.0)
    assert seen == [Tier.P40, Tier.A100, Tier.A100]


@pytest.mark.parametrize("qos", ["normal", "high"])
async def test_a_higher_priority_is_for_those_who_may_ask_for_it(tmp_path: Path, qos: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.txt").write_text("x")
    asked = parse_request(
        {
            "task_type": "rag_compress",
            "query": "q",
            "input_refs": [{"type": "file", "uri": str(tmp_path / "in" / "x.txt")}],
            "execution_profile": {"qos": qos},
        }
    )
    async with stored(tmp_path, HeldClock()) as (store, _):
        intake = Intake(store, {"local": ScriptedBackend([])}, load_local(tmp_path))
        plain = Principal("p", "local", frozenset({Role.USER}))
        with pytest.raises(BrokerError) as caught:
            await intake.new_job(plain, asked, "h")
        assert str(caught.value.code) == "POLICY_DENIED"
        trusted = Principal("p", "local", frozenset({Role.USER, Role.PRIORITY}))
        assert (await intake.new_job(trusted, asked, "h")).qos == qos
        usual = asked.model_copy(update={"execution_profile": type(asked.execution_profile)()})
        assert (await intake.new_job(plain, usual, "h")).qos == "preemptible"


def load_local(folder: Path) -> Settings:
    return load({"BROKER_HOME": str(folder / "home"), "BROKER_ALLOWED_ROOTS": str(folder / "in")})


def test_the_plan_tells_each_stage_and_why_they_share_a_job(tmp_path: Path) -> None:
    told = make_plan(request(), settings(tmp_path)).to_json()
    assert [stage["stage"] for stage in told["stages"]] == [
        "discovery",
        "index",
        "retrieve",
        "compress",
        "validate",
    ]
    assert {stage["job"] for stage in told["stages"]} == {"compress"}
    assert "moving the corpus costs more" in told["one_worker"]
    embedding = settings(tmp_path, BROKER_EMBEDDINGS_PROFILE="e5")
    asked = request(task_params={"retrieval_strategies": ["bm25", "embeddings"]})
    stages = make_plan(asked, embedding).to_json()["stages"]
    assert stages[2] == {
        "stage": "embed",
        "job_type": "rag_embed",
        "default_tier": "p40-rag-compression",
        "tier": "p40-rag-compression",
        "job": "compress",
    }


def test_a_chain_prepares_on_the_cpu_tier_and_only_for_a_gpu(tmp_path: Path) -> None:
    told = make_plan(request(), settings(tmp_path), chain=True).to_json()
    assert [(s["job"], s["tier"]) for s in told["stages"]] == [
        *[("index", "cpu-rag-indexing")] * 2,
        *[("compress", "p40-rag-compression")] * 3,
    ]
    assert "before a GPU is held" in told["chain"]
    on_cpu = make_plan(request(task_params={"mode": "single_shot"}), settings(tmp_path), chain=True)
    assert "one_worker" in on_cpu.to_json()


def test_a_model_that_a_tier_cannot_hold_is_refused_with_what_would_fit(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    gguf(models / "m.gguf")
    (models / "m.toml").write_text('gguf = "m.gguf"\ncontext_tokens = 131072\n')
    small = settings(tmp_path, BROKER_SLURM_VRAM_P40_MB="700")
    refuse_misfit(small, "m", Tier.A100)
    refuse_misfit(small, "builtin", Tier.P40)
    told = r"needs \d+ MiB.*p40-rag-compression has 700 MiB\. Set context"
    with pytest.raises(AgentloopError, match=told) as caught:
        refuse_misfit(small, "m", Tier.P40)
    assert caught.value.code is ErrorCode.REQUEST_INVALID
    assert caught.value.details["available_mib"] == 700


@pytest.mark.parametrize(
    ("text", "seconds"), [("0:07", 7), ("1:00:07", 3607), ("2-00:00:01", 172_801), ("INVALID", 0), ("", 0)]
)
def test_the_time_that_a_job_has_run(text: str, seconds: int) -> None:
    assert parse.seconds_of(text) == seconds
