"""The root failure of logs of many tools comes first, before what follows from it.

Outputs of cargo, node, npm start, CMake, the linker, ninja and java are real; the others are written in the
forms of their tools.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.logs_material import log_file
from tests.unit.test_logs_drafts import check_places, drafts_of, lines_of

LOGS = Path(__file__).parent / "data" / "tool_logs"
# lines of which the first item must hold one, and words of its claim
ROOTS = {
    "bazel": ((9, 10), "checksun_"),
    "cargo_build": ((2, 3), "cannot find value"),
    "cmake": ((7,), "FindZlibNope"),
    "docker": ((4, 5, 11, 12), "shoplib"),
    "dotnet": ((9, 10, 11, 12), "LargeOrders"),
    "dotnet_crash": ((7, 8, 9), "NpgsqlException"),
    "gha": ((6, 7, 8, 9), "ImportError"),
    "gitlab": ((20, 21, 22, 24), "2 problems"),
    "go_build": ((3, 4), "undefined: checksun"),
    "go_panic": ((3,), "index out of range"),
    "java": ((2,), "bad ledger segment"),
    "jenkins": ((15, 16), "rejectsDamagedSegment"),
    "link": ((4,), "helper"),
    "maven": ((8, 9), "expected: <3>"),
    "ninja": ((12,), "undeclared"),
    "node_test": ((13,), "not ok 3"),
    "npm_install": ((3,), "ERESOLVE"),
    "npm_start": ((11, 12), "cannot load config"),
    "oom": ((5,), "OutOfMemoryError"),
    "rust_panic": ((2, 3), "StorageFull"),
    "swift": ((2,), "totls"),
    "vitest": ((5, 12, 13), "sums the lines"),
    "webpack": ((6,), "./totals"),
}


@pytest.mark.parametrize("tool", list(ROOTS))
def test_the_root_failure_comes_first(tool: str) -> None:
    root, words = ROOTS[tool]
    log = (LOGS / f"{tool}.txt").read_text(encoding="utf-8")
    drafts = drafts_of(log)
    assert drafts[0].kind == "root_failure"
    assert lines_of(drafts[0]) & set(root)
    assert words in drafts[0].claim
    check_places(drafts, log_file(log))
