"""Recent changes of what the evidence shows, cited in the lines as they are now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentloop import compress_sync, make_request
from agentloop.errors import AgentloopError
from agentloop.request import TaskType
from tests.unit.test_sources_git import commit, git

BEFORE = "".join(f"def rate_{n}(x):\n    y = x + {n}\n    return y\n\n\n" for n in range(9))
AFTER = BEFORE.replace("x + 5\n", "x - 5\n")


def ask(root: Path, task: TaskType = TaskType.RAG_COMPRESS, **params: Any) -> dict[str, Any]:
    request = make_request(
        "What does rate_5 return?", [root], task=task, task_params={"mode": "single_shot", **params}
    )
    payload: dict[str, Any] = compress_sync(request).released["payload"]
    return payload


def changes(payload: dict[str, Any]) -> list[tuple[str, int]]:
    items = [e for e in payload["evidence"] if e["kind"] == "recent_change"]
    return [(e["claim"], e["source_refs"][0]["line_start"]) for e in items]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    commit(tmp_path, "import", 1, **{"a.py": BEFORE})
    return tmp_path


def test_a_change_of_the_cited_lines_is_told_when_asked_for(repo: Path) -> None:
    second = commit(repo, "Lower the rate", 2, **{"a.py": AFTER})
    (claim, line), *_ = changes(ask(repo, retrieval_strategies=["bm25", "git_diff_history"]))
    assert claim.startswith(f"Changed in {second[:10]} (")
    assert claim.endswith("lines that the evidence cites: Lower the rate")
    assert line == AFTER[: AFTER.index("x - 5")].count("\n") + 1
    assert changes(ask(repo)) == []
    assert changes(ask(repo, changed_since="HEAD~1"))[0][0] == claim


def test_uncommitted_edits_count_and_the_first_commit_does_not(repo: Path) -> None:
    assert changes(ask(repo, retrieval_strategies=["bm25", "git_diff_history"])) == []
    (repo / "a.py").write_text(AFTER)
    ((claim, _),) = changes(ask(repo, retrieval_strategies=["bm25", "git_diff_history"]))
    assert claim == "Changed by uncommitted edits, lines that the evidence cites"


def test_without_a_repository_the_strategy_is_told_to_be_missing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(AFTER)
    payload = ask(tmp_path, retrieval_strategies=["bm25", "git_diff_history"])
    assert [w["code"] for w in payload["warnings"] if "git" in w["message"]] == ["STRATEGY_UNAVAILABLE"]
    assert changes(payload) == []


def test_an_unknown_revision_is_an_error(repo: Path) -> None:
    with pytest.raises(AgentloopError):
        ask(repo, changed_since="--output=x")
