"""A patch applies to what was read, stays where it may, parses, and is never invented."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentloop import Environment, compress_sync, make_request
from agentloop.loop.messages import ModelError, Reply
from agentloop.loop.scripted import ScriptedModel
from agentloop.pipeline import Outcome
from agentloop.request import TaskType

CODE = 'def fee(amount):\n    """Fee of an order."""\n    if amount > 10:\n        return 1\n    return 2\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "fees.py").write_text(CODE)
    (tmp_path / "other.py").write_text("def fee_of_others():\n    return 3\n")
    return tmp_path


def propose(
    project: Path, steps: list[Any] | None, constraints: dict[str, Any] | None = None, **params: Any
) -> Outcome:
    request = make_request(
        "Fix the fee: ten must count as more than nine.",
        [project],
        task=TaskType.PROPOSE_PATCH,
        task_params={"mode": "single_shot", **params},
        constraints=constraints or {},
    )
    return compress_sync(request, Environment(model=None if steps is None else ScriptedModel(steps)))


def reply(path: str = "fees.py", old: str = "amount > 10", new: str = "amount >= 10") -> Reply:
    edits = [{"path": path, "old": old, "new": new}]
    return Reply(json.dumps({"edits": edits, "rationale": "the bound is inclusive", "risks": ["none"]}))


def codes(outcome: Outcome) -> list[str]:
    return [w["code"] for w in outcome.released["payload"]["warnings"]]


def test_the_diff_applies_and_lies_in_an_artifact(project: Path) -> None:
    outcome = propose(project, [reply()], validation_commands=["pytest -q"])
    details = outcome.released["payload"]["details"]
    assert details["patch"]["files"] == ["fees.py"]
    assert details["validation_commands"] == ["pytest -q"]
    assert "diff" not in details["patch"], "local_only: no raw text"
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    subprocess.run(["git", "apply", "-"], cwd=project, check=True, input=outcome.artifacts["patch.diff"])
    assert (project / "fees.py").read_text() == CODE.replace("> 10", ">= 10")


def test_the_diff_is_inline_where_policy_and_confidentiality_allow(project: Path) -> None:
    outcome = propose(project, [reply()], {"confidentiality": "evidence_only"})
    assert "+    if amount >= 10:" in outcome.released["payload"]["details"]["patch"]["diff"]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (reply(path="other.py", old="3", new="4"), "allowed_paths"),
        (reply(path="../x.py"), "allowed_paths"),
        (reply(old="no such text"), "0 times"),
        (reply(old="return", new="yield"), "2 times"),
        (reply(new="amount >> 10 ("), "does not parse"),
        (Reply("I would change the bound."), "not one JSON object"),
        (reply(new="amount > 10"), "as it was"),
    ],
    ids=["foreign file", "outside", "absent", "ambiguous", "syntax", "prose", "no change"],
)
def test_a_bad_reply_is_refused_with_its_reason_and_may_be_mended(
    project: Path, bad: Reply, why: str
) -> None:
    model = [bad, reply()]
    outcome = propose(project, model, allowed_paths=["fees.py"])
    assert outcome.released["payload"]["details"]["patch"]["files"] == ["fees.py"]
    failed = propose(project, [bad, bad, bad], allowed_paths=["fees.py"])
    assert "patch" not in failed.released["payload"]["details"]
    told = next(w for w in failed.released["payload"]["warnings"] if w["code"] == "MODEL_UNAVAILABLE")
    assert why in told["message"]


def test_without_a_model_there_is_a_plan_and_no_diff(project: Path) -> None:
    outcome = propose(project, None)
    details = outcome.released["payload"]["details"]
    assert details["plan"][0]["path"] == "fees.py"
    assert "patch" not in details
    assert "patch.diff" not in outcome.artifacts
    assert "MODEL_UNAVAILABLE" in codes(outcome)


def test_a_model_that_fails_leaves_the_plan(project: Path) -> None:
    outcome = propose(project, [ModelError("the endpoint is gone")])
    assert outcome.released["payload"]["details"]["plan"]
    assert "MODEL_UNAVAILABLE" in codes(outcome)
