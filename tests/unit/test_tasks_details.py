"""`payload.details` conforms to its task's schema, and the summary of logs tells what the logs hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from agentloop import compress_sync, make_request
from agentloop.request import TaskType
from agentloop.tasks.details import DETAILS
from agentloop.verify import schemas

SHOP = Path(__file__).resolve().parents[2] / "examples" / "shop"
LOG = "".join(
    [
        "2026-01-05T10:00:00Z INFO start\n",
        "##[group]Run unit tests\n",
        *(f"2026-01-05T10:01:{n:02d}Z ERROR worker {n} lost its lease\n" for n in range(30)),
        "2026-01-05T10:02:00Z FATAL no worker is left, aborting\n",
    ]
)


def released(task: TaskType, paths: list[Path], **params: Any) -> dict[str, Any]:
    request = make_request(
        "Why does the run fail?", paths, task=task, task_params={"mode": "single_shot", **params}
    )
    pack: dict[str, Any] = json.loads(json.dumps(compress_sync(request).released))
    return pack


@pytest.mark.parametrize(
    "task", [TaskType.DEBUG, TaskType.INSPECT_REPO, TaskType.PROPOSE_PATCH, TaskType.RAG_COMPRESS]
)
def test_the_details_of_a_task_conform_to_its_schema(task: TaskType) -> None:
    pack = released(task, [SHOP / "test.log", SHOP], include_dependency_edges=True)
    jsonschema.Draft202012Validator(schemas()[pack["schema_name"]]).validate(pack)
    assert bool(pack["payload"].get("details")) == bool(DETAILS[task].model_fields)


def test_a_schema_refuses_details_of_another_task() -> None:
    pack = released(TaskType.RAG_COMPRESS, [SHOP])
    pack["payload"]["details"] = {"likely_causes": []}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schemas()["rag_evidence_pack_v1"]).validate(pack)


def test_logs_are_told_by_phases_clusters_and_bursts(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(LOG)
    pack = released(TaskType.SUMMARIZE_LOGS, [tmp_path / "run.log"])
    jsonschema.Draft202012Validator(schemas()["log_evidence_pack_v1"]).validate(pack)
    (log,) = pack["payload"]["details"]["logs"]
    assert (log["path"], log["lines"], log["bursts"]) == ("run.log", 33, 1)
    assert log["phases"] == [{"name": "Run unit tests", "line": 2}]
    burst = log["clusters"][0]
    assert (burst["count"], burst["first_line"], burst["last_line"]) == (30, 3, 32)
    assert (burst["first"], burst["last"]) == ("2026-01-05T10:01:00Z", "2026-01-05T10:01:29Z")
    assert burst["peak_per_minute"] == 30


def test_the_summary_of_logs_keeps_to_its_share_of_the_budget(tmp_path: Path) -> None:
    for number in range(12):
        text = "".join(f"ERROR part {chr(97 + n)}{'x' * 60}{chr(97 + n)} broke\n" for n in range(20))
        (tmp_path / f"{number}.log").write_text(f"run {number}\n{text}")
    request = make_request(
        "What failed?",
        [tmp_path],
        task=TaskType.SUMMARIZE_LOGS,
        task_params={"mode": "single_shot"},
        constraints={"final_evidence_pack_budget": 2000},
    )
    details = compress_sync(request).released["payload"]["details"]
    assert 1 <= len(details["logs"]) <= 8
    assert len(json.dumps(details, separators=(",", ":"))) <= 2000 * 0.1 * 3 + 100
