"""Every fault has a test, and every marker names a known fault."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.requirements import REQUIREMENTS, UNTESTED

TESTS = Path(__file__).resolve().parents[1]


def marked_ids() -> set[str]:
    """Ids in `@pytest.mark.req(...)` and `pytestmark` of all test files."""
    found: set[str] = set()
    for file in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.req"):
                found |= {ast.literal_eval(arg) for arg in node.args}
    return found


def test_every_requirement_has_a_test_or_a_reason() -> None:
    assert set(REQUIREMENTS) - marked_ids() - set(UNTESTED) == set()


def test_every_marker_names_a_requirement() -> None:
    assert marked_ids() - set(REQUIREMENTS) == set()


def test_no_reason_for_what_is_tested() -> None:
    assert set(UNTESTED) & marked_ids() == set()
