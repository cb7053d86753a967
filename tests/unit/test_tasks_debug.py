"""From a failing test log to the function at fault, on real code and real test output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentloop import compress_sync, make_request
from agentloop.request import TaskType
from agentloop.tasks.debug.failures import failures

SHOP = Path(__file__).resolve().parents[2] / "examples" / "shop"


def debug(paths: list[Path], **params: Any) -> dict[str, Any]:
    request = make_request(
        "Why does the test run fail?",
        paths,
        task=TaskType.DEBUG,
        task_params={"mode": "single_shot", **params},
    )
    payload: dict[str, Any] = compress_sync(request).released["payload"]
    return payload


def test_the_faulty_function_is_the_first_cause() -> None:
    payload = debug([SHOP / "test.log", SHOP])
    first = payload["evidence"][0]
    assert (first["kind"], first["source_refs"][0]["path"]) == ("likely_cause", "shop/pricing.py")
    assert payload["details"]["likely_causes"][0] == {
        "symbol": "bulk_discount",
        "path": "shop/pricing.py",
        "evidence": ["ev_001"],
    }


def test_a_log_that_is_named_twice_counts_once() -> None:
    assert debug([SHOP / "test.log", SHOP])["details"]["failures"] == 5


def test_failures_without_a_log_come_from_the_pasted_trace(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "def load(path):\n    return open(path).read()\n\n\ndef idle():\n    return 0\n"
    )
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/srv/build/app.py", line 2, in load\n'
        "    return open(path).read()\n"
        "FileNotFoundError: [Errno 2] No such file or directory: 'x'\n"
    )
    causes = debug([tmp_path], stack_trace=trace)["details"]["likely_causes"]
    assert causes[0]["symbol"] == "load"


def test_suspect_paths_weigh_but_do_not_blind(tmp_path: Path) -> None:
    causes = debug([SHOP / "test.log", SHOP], suspect_paths=["shop/stock.py"])["details"]["likely_causes"]
    assert causes[0]["symbol"] == "bulk_discount"


@pytest.mark.parametrize(
    ("text", "name", "owner", "function"),
    [
        (
            "____ TestCart.test_total[1-2] ____\nE   assert 1 == 2\n",
            "TestCart.test_total[1-2]",
            "TestCart",
            "test_total",
        ),
        ("FAIL: test_total (cart.TestCart)\nTraceback\n", "test_total", "", "test_total"),
        (
            "--- FAIL: TestTotal/empty (0.00s)\n    cart_test.go:7: got 1\n",
            "TestTotal/empty",
            "",
            "TestTotal",
        ),
        ("---- cart::tests::total stdout ----\nthread panicked\n", "cart::tests::total", "tests", "total"),
        ("  ● total › adds\n\n    expect(received)\n", "total › adds", "", "total"),
    ],
    ids=["pytest", "unittest", "go", "cargo", "jest"],
)
def test_the_formats_of_test_runners(text: str, name: str, owner: str, function: str) -> None:
    (found,) = failures(text)
    assert (found.name, found.owner, found.function) == (name, owner, function)


def test_pytest_frames_are_innermost_first() -> None:
    text = (
        "____ test_a ____\n\ntests/test_a.py:3: in test_a\n    f()\n"
        "app/b.py:9: in f\n    g()\napp/c.py:4: E\n"
    )
    (found,) = failures(text)
    assert [(f.path, f.depth) for f in found.frames] == [
        ("app/c.py", 0),
        ("app/b.py", 1),
        ("tests/test_a.py", 2),
    ]
