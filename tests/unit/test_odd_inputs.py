"""Odd inputs, names, places and packs on the command line: an error that says what to do, or an answer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentloop import AgentloopError, compress_sync, make_request
from agentloop.request import TaskType, parse_request
from broker.cli import main


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
    monkeypatch.setattr("os.umask", lambda mask: 0o022)  # `serve` sets it for its whole process: this one
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


def test_progress_is_one_line_that_never_goes_back_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_HOME", str(tmp_path / "home"))
    (tmp_path / "a.md").write_text("The fee is ten.\n")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    for _ in range(2):
        assert main(["compress", "fee?", str(tmp_path / "a.md")]) == 0
        said = capsys.readouterr().err
        steps = [int(part.split("%")[0]) for part in said.split("\r\x1b[K") if "%" in part]
        assert steps == sorted(steps)
        assert said.endswith("\r\x1b[K") or not said
    assert main(["compress", "fee?", str(tmp_path / "nope"), "--format", "text"]) == 3
    assert capsys.readouterr().err.split("\r\x1b[K")[-1].startswith("agentloop: in1: ")


@pytest.mark.req("N1")
@pytest.mark.req("B8")
@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"PK\x05\x06" + b"\0" * 18, "1 empty (a.zip)"),
        (b"PK\x03\x04" + b"\0" * 40, "it is damaged or cut off"),
    ],
)
def test_an_archive_without_members_and_a_damaged_one_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, told: str
) -> None:
    (tmp_path / "a.zip").write_bytes(data)
    assert main(["compress", "fee?", str(tmp_path / "a.zip")]) == 3
    assert told in json.loads(capsys.readouterr().err)["error"]["message"]


def test_a_call_that_lacks_all_is_told_of_all() -> None:
    with pytest.raises(AgentloopError) as caught:
        parse_request({})
    assert [fault["field"] for fault in caught.value.details["fields"]] == ["input_refs", "query"]
    with pytest.raises(AgentloopError) as caught:
        parse_request({"task_type": "summarize_logs", "task_params": {"query": " "}, "input_refs": 5})
    assert [fault["field"] for fault in caught.value.details["fields"]] == ["input_refs", "task_params.query"]


@pytest.mark.req("N10")
@pytest.mark.parametrize(
    ("task", "params", "told"),
    [
        ("rag_compress", {"suspect_paths": ["a.py"]}, "suspect_paths is for debug_with_local_context and"),
        (
            "rag_compress",
            {"allowed_paths": ["a.py"], "patch_style": "complete"},
            "allowed_paths is for propose",
        ),
        ("inspect_repo", {"cluster_stack_traces": False}, "cluster_stack_traces is for summarize_logs and"),
        ("rag_compress", {"answer": True}, "answer needs a model and mode agentic"),
        (
            "rag_compress",
            {"mode": "single_shot", "max_tool_calls": 3},
            "mode single_shot makes no tool calls",
        ),
        (
            "rag_compress",
            {"changed_since": "HEAD~1"},
            "changed_since: no input is a repository with a commit",
        ),
        ("rag_compress", {"languages": ["elvish", "klingon"]}, "languages: no file is elvish or klingon"),
        ("rag_compress", {"paths": ["./a.py"], "languages": ["Python", "go"], "max_tool_calls": 3}, ""),
        ("inspect_repo", {"include_dependency_edges": True}, ""),
    ],
)
def test_a_parameter_that_can_do_nothing_is_told(
    tmp_path: Path, task: str, params: dict[str, Any], told: str
) -> None:
    (tmp_path / "a.py").write_text("def fee(amount):\n    return round(amount, 2)\n")
    (tmp_path / "b.md").write_text("The fee is ten.\n")
    asked = make_request("What is the fee?", [tmp_path], task=TaskType(task), task_params=params)
    warnings = compress_sync(asked).released["payload"]["warnings"]
    ignored = [w["message"] for w in warnings if w["code"] == "PARAM_IGNORED"]
    assert len(ignored) == bool(told)
    assert told in "".join(ignored)


def test_a_path_of_several_at_which_nothing_lies_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def fee(amount):\n    return round(amount, 2)\n")
    asked = make_request("What is the fee?", [tmp_path], task_params={"paths": ["./a.py", "no/where"]})
    (told,) = compress_sync(asked).released["payload"]["warnings"]
    assert told["code"] == "INPUTS_SKIPPED"
    assert told["message"].endswith("nothing that can be searched lies at no/where.")


def test_the_budget_that_trims_is_the_one_that_is_named(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"fee{number}.md").write_text(f"The fee of case {number} is {number * 7} crowns.\n")
    for budget, remote, named in ((900, 12_000, "final_evidence"), (100_000, 2_000, "remote_model_context")):
        bounds = {"final_evidence_pack_budget": budget, "remote_model_context_budget": remote}
        warnings = compress_sync(make_request("fee?", [tmp_path], constraints=bounds)).released["payload"][
            "warnings"
        ]
        (told,) = [w["message"] for w in warnings if w["code"] == "EVIDENCE_TRIMMED"]
        assert f"did not fit {named}" in told
