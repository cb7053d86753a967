"""Recent changes of what the evidence shows, cited in the lines as they are now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentloop import compress_sync, make_request
from agentloop.config import Caps
from agentloop.errors import AgentloopError
from agentloop.pack import canonical
from agentloop.request import TaskType
from agentloop.verify import verify_saved
from tests.unit.test_sources_git import commit, git

BEFORE = "".join(f"def rate_{n}(x):\n    y = x + {n}\n    return y\n\n\n" for n in range(9))
ASKED = "What does rate_5 return?"
WITH_GIT = ["bm25", "git_diff_history"]
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


def released(root: Path, question: str, **params: Any) -> dict[str, Any]:
    request = make_request(question, [root], task_params={"mode": "single_shot", **params})
    outcome = compress_sync(request)
    pack: dict[str, Any] = json.loads(canonical(outcome.released))
    return pack


def old_refs(pack: dict[str, Any]) -> list[dict[str, Any]]:
    return [ref for e in pack["payload"]["evidence"] for ref in e["source_refs"] if "commit" in ref]


def test_the_lines_before_a_change_are_cited_in_the_parent_commit(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD").strip()
    commit(repo, "Lower the rate", 2, **{"a.py": AFTER})
    pack = released(repo, "What does rate_5 return?", changed_since="HEAD~1")
    (ref,) = old_refs(pack)
    assert (ref["commit"], ref["path"]) == (first, "a.py")
    assert BEFORE.encode()[ref["byte_start"] : ref["byte_end"]] == b"    y = x + 5"
    assert {c.status for c in verify_saved(pack, [str(repo)], Caps())} == {"ok"}
    ref["chunk_hash"] = "sha256:" + "0" * 16
    assert "invalid" in {c.status for c in verify_saved(pack, [str(repo)], Caps())}
    assert pack["payload"]["coverage"]["files_indexed"] == 1


def test_removed_lines_and_deleted_files_are_evidence(repo: Path) -> None:
    commit(repo, "Add fees", 2, **{"fees.py": "def fee(order):\n    return order.total // 20\n"})
    cut = BEFORE.replace("    y = x + 3\n    return y\n", "    return x\n")
    commit(repo, "Simplify rate_3", 3, **{"a.py": cut})
    git(repo, "rm", "-q", "fees.py")
    git(repo, "-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "Drop fees")
    pack = released(repo, "Was the fee of fees removed?", changed_since="HEAD~3")
    items = [e for e in pack["payload"]["evidence"] if e["claim"].startswith("Deleted in")]
    assert [e["source_refs"][0]["path"] for e in items] == ["fees.py"]
    assert {c.status for c in verify_saved(pack, [str(repo)], Caps())} == {"ok"}
    pack = released(repo, "What does rate_3 return?", changed_since="HEAD~3")
    texts = [cut_of(repo, ref) for ref in old_refs(pack)]
    assert b"    y = x + 3\n    return y" in texts


def cut_of(root: Path, ref: dict[str, Any]) -> bytes:
    data = git(root, "show", f"{ref['commit']}:{ref['path']}").encode()
    return data[ref["byte_start"] : ref["byte_end"]]


def test_recent_changes_rank_higher_only_where_they_are_asked_for(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    modules = {f"m{n}.py": f'def limit_{n}():\n    """Retry limit."""\n    return {n}\n' for n in range(6)}
    commit(tmp_path, "import", 1, **modules)
    changed = modules["m4.py"].replace("return 4", "return 40")
    commit(tmp_path, "Raise a retry limit", 2, **{"m4.py": changed})
    plain = released(tmp_path, "What is the retry limit?")
    asked = released(tmp_path, "Which retry limit changed?", changed_since="HEAD~1")
    first = [p["payload"]["evidence"][0]["source_refs"][0]["path"] for p in (plain, asked)]
    assert first[1] == "m4.py"
    assert first[0] != "m4.py"


@pytest.mark.req("C2")
def test_shallow_worktree_and_submodule_never_cite_what_they_do_not_hold(repo: Path, tmp_path: Path) -> None:
    commit(repo, "Lower the rate", 2, **{"a.py": AFTER})
    outer = tmp_path / "outer"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", str(outer / "shallow"))
    pack = released(
        outer / "shallow", "What does rate_5 return?", retrieval_strategies=["bm25", "git_diff_history"]
    )
    assert old_refs(pack) == []
    git(repo, "worktree", "add", "-q", str(outer / "tree"), "HEAD~1")
    pack = released(
        outer / "tree", "What does rate_5 return?", retrieval_strategies=["bm25", "git_diff_history"]
    )
    assert old_refs(pack) == []
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(outer / "bare.git"))
    pack = released(
        outer / "bare.git", "What does rate_5 return?", retrieval_strategies=["bm25", "git_diff_history"]
    )
    assert {c.status for c in verify_saved(pack, [str(outer / "bare.git")], Caps())} == {"ok"}
