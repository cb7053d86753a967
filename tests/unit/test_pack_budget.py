"""Budgets: every bound holds, what was dropped is told, and a budget that is too small says what would do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentloop import tokens
from agentloop.errors import AgentloopError, ErrorCode
from agentloop.pack import canonical, final_pack_tokens
from tests.unit.pack_case import PackCase

QUESTION = "How long are the turbine inspection intervals?"
FILES = {
    f"plant/unit{n:02d}.md": f"# Unit {n}\n\n## Inspection\n\nThe turbine of unit {n} has inspection "
    f"intervals of {n + 10} days. A {('red', 'blue', 'green')[n % 3]} tag number {n * 37} hangs on it.\n"
    for n in range(40)
}


def case(root: Path, **constraints: Any) -> PackCase:
    """Forty alike but different sections, and constraints."""
    return PackCase(root, FILES, QUESTION, constraints=constraints)


def count_as_the_design_says(pack: dict[str, Any]) -> int:
    """The contract's own words, apart from the product's function."""
    bare = {key: value for key, value in pack.items() if key != "provenance"}
    text = canonical(bare)
    stated = pack["payload"]["budget"]["final_pack_tokens"]
    return tokens.count(text.replace(f'"final_pack_tokens":{stated}', '"final_pack_tokens":00000000'))


@pytest.mark.parametrize("budget", [450, 700, 1000, 2000, 2999, 3001, 4000, 9000])
def test_the_pack_is_within_its_budget_and_counts_itself(tmp_path: Path, budget: int) -> None:
    pack = case(tmp_path, final_evidence_pack_budget=budget).pack()
    stated = pack["payload"]["budget"]["final_pack_tokens"]
    assert stated == count_as_the_design_says(pack) == final_pack_tokens(pack)
    assert stated <= budget
    assert len(pack["payload"]["evidence"]) >= 1


def test_a_small_budget_holds_many_items(tmp_path: Path) -> None:
    pack = case(tmp_path, final_evidence_pack_budget=2000).pack()
    assert len(pack["payload"]["evidence"]) >= 11


def test_more_budget_never_holds_fewer_items(tmp_path: Path) -> None:
    one = case(tmp_path)
    counts = []
    for budget in range(400, 2400, 200):
        made = PackCase(tmp_path, {}, QUESTION, constraints={"final_evidence_pack_budget": budget})
        counts.append(len(made.pack()["payload"]["evidence"]))
    assert counts == sorted(counts)
    assert len(one.drafts) >= counts[-1]


def test_what_did_not_fit_is_told_exactly(tmp_path: Path) -> None:
    made = case(tmp_path, final_evidence_pack_budget=1500)
    pack = made.pack()
    left = len(made.drafts) - len(pack["payload"]["evidence"])
    warned = [w for w in pack["payload"]["warnings"] if w["code"] == "EVIDENCE_TRIMMED"]
    assert left > 0
    assert len(warned) == 1
    assert str(left) in warned[0]["message"].split()


def test_items_stay_in_rank_order(tmp_path: Path) -> None:
    made = case(tmp_path, final_evidence_pack_budget=1500)
    pack = made.pack()
    shown = [item["claim"] for item in pack["payload"]["evidence"]]
    assert [d.claim for d in made.drafts[: len(shown)]] == shown
    assert pack["evidence_refs"] == [f"ev_{n:03d}" for n in range(1, len(shown) + 1)]


@pytest.mark.req("N9")
def test_a_budget_too_small_for_one_claim_names_the_least_that_would_do(tmp_path: Path) -> None:
    with pytest.raises(AgentloopError) as caught:
        case(tmp_path, final_evidence_pack_budget=60).build()
    assert caught.value.code is ErrorCode.EVIDENCE_PACK_OVER_BUDGET
    least = caught.value.details["least"]
    assert str(least) in caught.value.message
    again = PackCase(tmp_path, {}, QUESTION, constraints={"final_evidence_pack_budget": least})
    assert len(again.pack()["payload"]["evidence"]) == 1
    with pytest.raises(AgentloopError):
        PackCase(tmp_path, {}, QUESTION, constraints={"final_evidence_pack_budget": least - 1}).build()


def test_the_remote_budget_bounds_the_whole_response(tmp_path: Path) -> None:
    pack = case(tmp_path, remote_model_context_budget=1500).pack()
    assert tokens.count(canonical(pack)) <= 1500
    with pytest.raises(AgentloopError) as caught:
        PackCase(tmp_path, {}, QUESTION, constraints={"remote_model_context_budget": 300}).build()
    assert caught.value.code is ErrorCode.REMOTE_CONTEXT_BUDGET_EXCEEDED
    least = caught.value.details["least"]
    PackCase(tmp_path, {}, QUESTION, constraints={"remote_model_context_budget": least}).pack()


@pytest.mark.parametrize("limit", [150, 200, 384])
def test_each_item_is_bounded(tmp_path: Path, limit: int) -> None:
    words = " ".join(f"intervals{n} inspection turbine" for n in range(300))
    PackCase(tmp_path, {"long.md": f"# T\n\nThe {words}.\n"}, QUESTION)
    pack = case(tmp_path, per_chunk_compression_budget=limit).pack()
    for item in pack["payload"]["evidence"]:
        assert tokens.count(canonical(item)) <= limit
        assert abs(item["tokens"] - tokens.count(canonical(item))) <= 1


def test_an_item_budget_that_no_item_meets_names_the_least(tmp_path: Path) -> None:
    with pytest.raises(AgentloopError) as caught:
        case(tmp_path, per_chunk_compression_budget=40).build()
    assert caught.value.code is ErrorCode.EVIDENCE_PACK_OVER_BUDGET
    least = caught.value.details["least"]
    PackCase(tmp_path, {}, QUESTION, constraints={"per_chunk_compression_budget": least}).pack()


def test_examples_of_coverage_shrink_before_items(tmp_path: Path) -> None:
    noise = {f"build/deep/folder/object{n:03d}.o": b"\0\1\2" * 40 for n in range(60)}
    with_noise = PackCase(
        tmp_path, {**FILES, **noise}, QUESTION, constraints={"final_evidence_pack_budget": 700}
    )
    small = with_noise.pack()
    large = PackCase(tmp_path, {}, QUESTION).pack()
    assert small["payload"]["coverage"]["skipped"]["binary"]["count"] == 60
    assert len(large["payload"]["coverage"]["skipped"]["binary"].get("examples", [])) > 0
    assert len(small["payload"]["evidence"]) >= 2


def test_provenance_is_small_and_nothing_else_differs_between_two_runs(tmp_path: Path) -> None:
    one, two = case(tmp_path).pack(), PackCase(tmp_path, {}, QUESTION).pack()
    assert tokens.count(canonical(one["provenance"])) <= 300
    del one["provenance"]
    del two["provenance"]
    assert canonical(one) == canonical(two)


@pytest.mark.req("N7")
def test_a_huge_question_is_echoed_bounded(tmp_path: Path) -> None:
    question = QUESTION + " turbine" * 12_000
    pack = PackCase(tmp_path, FILES, question).pack()
    assert tokens.count(pack["payload"]["query"]) <= 200
    assert pack["payload"]["query"].startswith("How long")


@pytest.mark.req("N8")
def test_no_hit_is_an_empty_pack_with_low_coverage(tmp_path: Path) -> None:
    pack = PackCase(tmp_path, {"a.md": "Soup is served at noon.\n"}, "zyxwv quux").pack()
    assert pack["payload"]["evidence"] == []
    assert pack["evidence_refs"] == []
    assert pack["quality_signals"]["low_coverage"] is True
    assert "LOW_COVERAGE" in {w["code"] for w in pack["payload"]["warnings"]}
