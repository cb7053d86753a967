"""Static analysis of a large repository is bounded, and a bound that cut it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentloop import compress_sync, make_request
from agentloop.request import TaskType
from agentloop.tasks import codegraph
from agentloop.tasks.debug import reachable
from tests.unit.retrieval_case import write

LOG = """\
=================================== FAILURES ===================================
_________________________________ test_total ___________________________________

    def test_total():
>       assert total(2) == 4
E       assert 5 == 4

test_total.py:4: AssertionError
=========================== short test summary info ============================
FAILED test_total.py::test_total - assert 5 == 4
"""
FILES = {
    "repo/test_total.py": "from total import total\n\ndef test_total():\n    assert total(2) == 4\n",
    "repo/total.py": "from first import first\n\ndef total(n):\n    return first(n) + 1\n",
    "repo/first.py": "from second import second\n\ndef first(n):\n    return second(n) * 2\n",
    "repo/second.py": "def second(n):\n    return n\n",
    "test.log": LOG,
}


def ask(root: Path) -> tuple[list[str], list[str]]:
    """The causes, and the messages about parsing."""
    request = make_request(
        "Why does the test fail?",
        [root / "test.log", root / "repo"],
        task=TaskType.DEBUG,
        task_params={"mode": "single_shot"},
    )
    payload = compress_sync(request).released["payload"]
    told = [w["message"] for w in payload["warnings"] if w["code"] == "CHUNKING_DEGRADED"]
    return [c["symbol"] for c in payload["details"]["likely_causes"]], told


def test_a_small_repository_is_analysed_whole(tmp_path: Path) -> None:
    causes, told = ask(write(tmp_path, FILES))
    assert {"total", "first", "second"} <= set(causes)
    assert told == []


def test_files_beyond_the_bound_are_not_parsed_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codegraph, "MAX_PARSED_FILES", 2)
    causes, told = ask(write(tmp_path, FILES))
    assert causes == ["total"]
    assert len(told) == 1
    assert "2 files of code were parsed, 1 more" in told[0]


def test_steps_beyond_the_bound_are_not_taken_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachable, "MAX_WORK", 1)
    causes, told = ask(write(tmp_path, FILES))
    assert "total" in causes
    assert "second" not in causes
    assert told == ["Static analysis is partial: calls from tests were followed only in part."]
