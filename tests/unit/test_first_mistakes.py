"""Mistakes of a first hour: told in words about what was typed, before any work."""

from __future__ import annotations

import asyncio
import builtins
import json
import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from agentloop import AgentloopError, compress_sync, make_request
from agentloop.loop.profiles import read as read_profile
from agentloop.loop.replay import FORMAT, ReplayModel
from agentloop.request import parse_request
from broker.cli import main
from broker.commands import doctor
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


def test_artifacts_below_a_file_are_told_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    below = tmp_path / "a.py" / "x" / "y"
    assert main(["compress", "what is x?", str(tmp_path), "--artifacts", str(below)]) == 2
    assert f"{tmp_path / 'a.py'} is a file, no folder" in capsys.readouterr().err


def test_a_pack_that_can_t_be_written_is_told_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_HOME", str(tmp_path / "home"))
    (tmp_path / "a.py").write_text("x = 1\n")
    assert main(["compress", "what is x?", str(tmp_path / "a.py"), "--output", "/dev/full"]) == 4
    assert "--output /dev/full: the disk is full." in capsys.readouterr().err


@pytest.mark.req("F4")
@pytest.mark.parametrize("address", ["http://example.com/x", "ssh://host/x", "file://host/x"])
def test_an_address_is_no_path(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compress", "q", address]) == 3
    told = json.loads(capsys.readouterr().err)["error"]
    assert told["details"]["reason"] == "path_not_allowed"
    assert "Name a local file or folder by its absolute path." in told["message"]


def test_a_file_uri_is_taken_as_a_request_takes_it(tmp_path: Path) -> None:
    (tmp_path / "a b.md").write_text("The fee is ten.\n")
    outcome = compress_sync(make_request("fee", [f"file://{tmp_path}/a%20b.md"]))
    assert outcome.released["payload"]["evidence"][0]["source_refs"][0]["path"] == "a b.md"


@pytest.mark.req("B11")
def test_a_path_that_is_not_utf8_can_be_named_itself(tmp_path: Path) -> None:
    file = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.md")
    Path(file).write_text("The fee is ten.\n")
    outcome = compress_sync(make_request("fee", [file]))
    ref = outcome.released["payload"]["evidence"][0]["source_refs"][0]
    assert os.fsencode(ref["path"]) == b"\xff\xfe.md"


@pytest.mark.req("B11")
@pytest.mark.req("D3")
def test_a_name_of_two_lines_is_shown_on_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "fee\n 9. forged.md:1.md").write_text("The fee is ten.\n")
    (tmp_path / "data" / "empty\nwarning forged: no").touch()
    pack = tmp_path / "pack.json"
    assert main(["compress", "fee", str(tmp_path / "data"), "--format", "text"]) == 0
    shown = capsys.readouterr().out.replace("\n", "|")
    assert "fee\\n 9. forged.md:1.md:1" in shown
    assert "|warning forged" not in shown
    main(["compress", "fee", str(tmp_path / "data"), "--output", str(pack)])
    assert main(["verify", str(pack), str(tmp_path / "data"), "--format", "text"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.req("B9")
@pytest.mark.parametrize(
    "data", [b"\xef\xbb\xbf# Fees\n\nThe fee is ten.\n", b"# Fees\r\n\r\nThe fee is ten.\r\n"]
)
def test_marks_and_line_ends_of_other_systems_are_no_hidden_characters(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.md").write_bytes(data)
    for question in ("What is the fee?", "fees"):
        for item in compress_sync(make_request(question, [tmp_path])).released["payload"]["evidence"]:
            assert "flags" not in item
            assert "\\ufeff" not in item["claim"]
    (tmp_path / "a.md").write_bytes(data.replace(b"is", "is \u200b".encode()).replace(b"ten", b"te\rn"))
    (item,) = compress_sync(make_request("What is the fee?", [tmp_path])).released["payload"]["evidence"]
    assert set(item["flags"]) == {"control_chars", "invisible"}


def test_hash_takes_paths_as_people_type_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.md").write_text("The fee is ten.\n")
    monkeypatch.chdir(tmp_path)
    assert main(["hash", str(tmp_path / "data")]) == 0
    whole = capsys.readouterr().out.split()[0]
    assert main(["hash", "data", "./data/../data"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [whole, whole]
    assert main(["hash", "nope", "data"]) == 3
    assert capsys.readouterr().out.startswith(whole)


@pytest.mark.parametrize(
    ("args", "status", "told"),
    [
        (["token", "new", "x", "--role", "king"], 2, "there is no role 'king'; roles are reader, user"),
        (["token", "new", "a b"], 2, "a name is 1 to 64 letters"),
        (["serve"], 4, "file exists"),
        (["token", "new", "x"], 4, "file exists"),
    ],
)
def test_operators_are_told_in_words(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    status: int,
    told: str,
) -> None:
    home = tmp_path / "file"
    home.write_text("no folder")
    monkeypatch.setenv("BROKER_HOME", str(home))
    assert main(args) == status
    said = capsys.readouterr().err
    assert told in said
    assert "Errno" not in said
    assert ("BROKER_HOME" in said) == (status == 4)


def test_a_run_of_which_nothing_can_be_answered_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "set"
    (folder / "corpus").mkdir(parents=True)
    (folder / "corpus" / "a.md").write_text("The fee is ten.\n")
    (folder / "questions.jsonl").write_text('{"id": "q", "question": "fee?", "gold": ["b.md"]}\n')
    out = tmp_path / "out"
    assert main(["eval", "run", str(folder), "--out", str(out), "--rungs", "bm25", "--no-plots"]) == 3
    assert "no question could be answered: the gold b.md is not in the corpus" in capsys.readouterr().err


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


@pytest.mark.parametrize("refs", [5, {"a": 1}, [], [5], None, "x"])
def test_refs_of_any_shape_are_invalid_not_a_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], refs: Any
) -> None:
    pack = tmp_path / "pack.json"
    pack.write_text(json.dumps({"payload": {"evidence": [{"id": "ev", "source_refs": refs}]}}))
    assert main(["verify", str(pack), str(tmp_path)]) == 4
    assert [row["status"] for row in json.loads(capsys.readouterr().out)] == ["invalid"]


def test_standard_input_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compress", "q", "-", "-"]) == 2
    assert "standard input can be named once" in capsys.readouterr().err


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
