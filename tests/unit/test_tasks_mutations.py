"""Scoring of mutation cases through the public API, on a case made here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval.mutations import score as scorer

CODE = """def divide(left, right):
    if right == 0:
        return None
    return left * right


def total(items):
    return sum(items)
"""
TESTS = """from app.sums import divide, total


def test_divide():
    assert divide(6, 3) == 2


def test_total():
    assert total([1, 2]) == 3
"""
LOG = """=================================== FAILURES ===================================
_________________________________ test_divide __________________________________

    def test_divide():
>       assert divide(6, 3) == 2
E       assert 18 == 2
E        +  where 18 = divide(6, 3)

tests/test_sums.py:5: AssertionError
=========================== short test summary info ============================
FAILED tests/test_sums.py::test_divide - assert 18 == 2
1 failed, 1 passed in 0.01s
"""


@pytest.fixture
def case(tmp_path: Path) -> Path:
    for name, text in (("app/sums.py", CODE), ("tests/test_sums.py", TESTS)):
        path = tmp_path / "sums-00" / "repo" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (tmp_path / "sums-00" / "test.log").write_text(LOG)
    about = {
        "id": "sums-00",
        "package": "sums==1",
        "file": "app/sums.py",
        "function": "divide",
        "kind": "arithmetic",
    }
    (tmp_path / "sums-00" / "case.json").write_text(json.dumps(about))
    return tmp_path


def test_a_case_counts_by_the_rank_of_the_mutated_function(
    case: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scorer.main([str(case)]) == 0
    printed = capsys.readouterr().out
    assert "sums-00                  rank 1" in printed
    assert "top-1: 1 of 1 = 1.000 [0.207, 1.000]" in printed


def test_no_case_is_an_error(tmp_path: Path) -> None:
    assert scorer.main([str(tmp_path)]) == 2


def test_wilson_interval_of_a_known_share() -> None:
    low, high = scorer.wilson(51, 60)  # 0.850 [0.739, 0.919], as tables give it
    assert (round(low, 3), round(high, 3)) == (0.739, 0.919)
