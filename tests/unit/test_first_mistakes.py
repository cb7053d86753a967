"""Mistakes of a first hour: told in words about what was typed, before any work."""

from __future__ import annotations

import asyncio
import builtins
import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from agentloop import AgentloopError, compress_sync, make_request
from agentloop.loop.profiles import read as read_profile
from agentloop.loop.replay import FORMAT, ReplayModel
from agentloop.request import parse_request
from broker.cli import build_parser, main
from broker.commands import doctor
from broker.commands.compress import request_of
from broker.mcp.failure import next_step
from eval.cli import run as run_eval
from eval.golden import GoldenError, load


def test_an_unknown_task_names_the_field() -> None:
    with pytest.raises(AgentloopError, match=r"task_type: must be one of rag_compress") as caught:
        make_request("q?", ["."], task="bad")  # type: ignore[arg-type]
    assert caught.value.code == "REQUEST_INVALID"


@pytest.mark.parametrize(
    ("refs", "told"),
    [
        (["/path"], 'input_refs.0: must be an object like {"type": "file", "uri": "/absolute/path"}'),
        ("/path", "input_refs: must be a list"),
        ([], "input_refs: must hold at least 1 item"),
    ],
)
def test_input_refs_of_the_wrong_shape(refs: Any, told: str) -> None:
    with pytest.raises(AgentloopError) as caught:
        parse_request({"task_type": "rag_compress", "query": "q", "input_refs": refs})
    assert told in caught.value.message
    assert len(caught.value.details["fields"]) == 1


def request(**fields: Any) -> dict[str, Any]:
    return {"query": "q", "input_refs": [{"type": "file", "uri": "/x"}], **fields}


@pytest.mark.req("N10")
@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"constraints": {"final_evidence_pack_budget": 0}},
            "final_evidence_pack_budget: must be at least 1.",
        ),
        ({"constraints": {"final_evidence_pack_budget": 1.5}}, "must be a whole number."),
        ({"constraints": {"final_evidence_pack_budget": True}}, "must be a whole number."),
        ({"constraints": {"final_evidence_pack_budget": "4000"}}, "must be a whole number."),
        ({"constraints": {"max_runtime_seconds": 10**9}}, "max_runtime_seconds: must be at most 86,400."),
        (
            {"constraints": {"confidentiality": "z"}},
            "confidentiality: must be one of local_only, evidence_only.",
        ),
        ({"task_params": {"mode": "z"}}, "mode: must be one of agentic, single_shot, completion."),
        ({"task_params": {"answer": "yes"}}, "task_params.answer: must be true or false."),
        ({"task_params": {"paths": [1]}}, "task_params.paths.0: must be a string."),
        (
            {"task_params": {"tme_window": {}}},
            "task_params.tme_window: is no field of task_params; did you mean",
        ),
        (
            {"task_params": {"time_window": {"x": 1}}},
            "is no field of task_params.time_window; there are end, start.",
        ),
        ({"task_params": []}, "task_params: must be an object."),
        ({"input_refs": [{"type": "file", "uri": ""}]}, "input_refs.0.uri: must not be empty."),
        ({"input_refs": [{"type": "file", "uri": "x" * 5000}]}, "must be at most 4,096 characters long."),
        ({"input_refs": [{"type": "file", "uri": "/x"}] * 300}, "input_refs: must hold at most 256 items."),
        ({"idempotency_key": 5}, "idempotency_key: must be a string."),
        ({"query": ""}, "query: rag_compress needs a question in `query`."),
        ({"problem": "p"}, "problem: rag_compress takes its question in `query`, not in `problem`."),
        ({"querry": "p"}, "querry: is no field here; did you mean `query`?"),
    ],
)
def test_every_reason_is_in_our_words(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(AgentloopError) as caught:
        parse_request(request(**fields))
    assert told in caught.value.message
    assert "Input should" not in caught.value.message
    assert caught.value.details["fields"][0]["field"] in caught.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x =", "it is not TOML"),
        ("\udcff", "it is not UTF-8 (byte 0)"),
        ('model = "x"', "give either `endpoint`, or `gguf` or `weights`."),
        ('endpoint = "http://x"\nmodle = "x"', "modle: is no field here; did you mean `model`?"),
        ('endpoint = "http://x"\ntemperature = 9', "temperature: must be at most 2.0."),
        ('endpoint = "http://x"\nserve = 5', "serve: must be one of llama-server, xllamacpp"),
        (
            'endpoint = "http://x"\n[prices]\ncurrency = "euro"',
            "prices.currency: has not the form ^[A-Z]{3}$.",
        ),
        (None, "there is no such file."),
    ],
)
def test_a_wrong_profile_is_told_in_our_words(tmp_path: Path, text: str | None, told: str) -> None:
    file = tmp_path / "mine.toml"
    if text is not None:
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(AgentloopError) as caught:
        read_profile(file)
    assert told in caught.value.message
    assert caught.value.message.startswith("The model profile mine.toml can't be used: ")
    assert "Errno" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}\n", "head of the format"),
        ('{"format": "F"}\n', "lacks the model"),
        ("[1", "it is not JSON (line 1"),
    ],
)
def test_a_wrong_recording_is_told(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(text.replace("F", FORMAT))
    with pytest.raises(AgentloopError, match=re.escape(told)):
        ReplayModel(file)


@pytest.mark.parametrize(
    ("make", "status", "told"),
    [
        (None, 3, "there is no such file"),
        ("folder", 3, "it is a folder"),
        ("{bad", 4, "it is not JSON (line 1, column 2"),
        ("{}", 4, "no payload.evidence"),
        ("\udcff", 4, "it is not UTF-8"),
        ("[" * 100_000, 4, "it nests too deeply"),
    ],
)
def test_verify_says_why_a_pack_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: str | None, status: int, told: str
) -> None:
    file = tmp_path / "pack.json"
    if make == "folder":
        file.mkdir()
    elif make is not None:
        file.write_bytes(make.encode("utf-8", "surrogateescape"))
    assert main(["verify", str(file)]) == status
    said = json.loads(capsys.readouterr().err)["error"]["message"]
    assert told in said
    assert "Errno" not in said


def test_doctor_names_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> str:
        return version("no-such-package-anywhere")

    monkeypatch.setattr(doctor, "PROBES", (("local", absent, True, "pip install '.[local]'"),))
    check = list(doctor.checks())[-1]
    assert (check.found, check.ok) == ("the package no-such-package-anywhere is not installed", False)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"id": "q2", "question": ', "questions.jsonl:3: not JSON"),
        (b"[1]", "questions.jsonl:3: expected a JSON object"),
        (b'{"id": "\xff"}', "questions.jsonl:3: it is not UTF-8"),
        (b'{"id": "q1", "question": "b?", "gold": []}', "questions.jsonl:3: the id 'q1' is used twice"),
        (b'{"id": "q2", "gold": []}', "questions.jsonl:3: a question needs"),
    ],
)
def test_a_bad_line_of_a_golden_set_is_named(tmp_path: Path, line: bytes, told: str) -> None:
    first = b'{"id": "q1", "question": "a?", "gold": []}\n\n'
    (tmp_path / "questions.jsonl").write_bytes(first + line + b"\n")
    with pytest.raises(GoldenError, match=re.escape(told)):
        load(tmp_path)


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


@pytest.mark.parametrize(
    "flags",
    [["--budget", "500"], ["--task", "inspect_repo"], ["--param", "mode=agentic"], ["--baseline", "x"]],
)
def test_a_whole_request_takes_no_flag_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request()))
    assert main(["compress", "--request", str(file), *flags]) == 2
    assert f"give no {flags[0]} beside it" in capsys.readouterr().err


def test_a_model_beside_a_whole_request_goes_into_it(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request()))
    args = build_parser().parse_args(["submit", "--request", str(file), "--model", "mine"])
    assert request_of(args).execution_profile.model_profile == "mine"


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
