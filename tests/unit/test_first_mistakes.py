"""Mistakes of a first hour: told in words about what was typed, before any work."""

from __future__ import annotations

import asyncio
import builtins
from pathlib import Path
from typing import Any

import pytest

from agentloop import AgentloopError, compress_sync, make_request
from agentloop.request import parse_request
from broker.cli import main
from broker.mcp.failure import next_step
from eval.cli import run as run_eval


def test_an_unknown_task_names_the_field() -> None:
    with pytest.raises(AgentloopError, match=r"task_type: must be one of rag_compress") as caught:
        make_request("q?", ["."], task="bad")  # type: ignore[arg-type]
    assert caught.value.code == "REQUEST_INVALID"


@pytest.mark.parametrize(
    ("refs", "told"),
    [
        (["/path"], 'input_refs.0: must be an object like {"type": "file", "uri": "/absolute/path"}'),
        ("/path", "input_refs: must be a list"),
        ([], "input_refs: must hold at least one item"),
    ],
)
def test_input_refs_of_the_wrong_shape(refs: Any, told: str) -> None:
    with pytest.raises(AgentloopError) as caught:
        parse_request({"task_type": "rag_compress", "query": "q", "input_refs": refs})
    assert told in caught.value.message
    assert len(caught.value.details["fields"]) == 1


def test_the_sync_front_says_what_to_do_inside_an_event_loop(tmp_path: Path) -> None:
    async def inside() -> None:
        compress_sync(make_request("q?", [tmp_path]))

    with pytest.raises(RuntimeError, match="await compress"):
        asyncio.run(inside())


@pytest.mark.parametrize("flag", ["--output", "--artifacts"])
def test_an_unwritable_place_is_told_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    place = tmp_path / "a.py" if flag == "--artifacts" else tmp_path
    assert main(["compress", "what is x?", str(tmp_path), flag, str(place)]) == 2
    assert f"{flag} {place}: it is a " in capsys.readouterr().err
    if flag == "--output":
        assert main(["compress", "q", str(tmp_path), flag, str(tmp_path / "no" / "x.json")]) == 2


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import argparse
    import sys

    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".", maxsplit=1)[0] == "numpy":
            raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
        return real(name, *args, **kwargs)

    for name in [n for n in sys.modules if n.startswith("eval.") and n != "eval.cli"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    assert run_eval(argparse.Namespace(action="init", folder=Path("."), count=1, seed=0, force=False)) == 2
    assert "needs the package numpy" in capsys.readouterr().err


def test_a_pack_that_was_never_made_is_not_offered() -> None:
    error = {"code": "REMOTE_CONTEXT_BUDGET_EXCEEDED", "stage": "compression"}
    assert "Ask again" in next_step(error)
    assert "fetch_result" in next_step({**error, "stage": "mcp"})
