"""The tool definitions: few tokens, made from the models, always the same."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from agentloop import tokens
from agentloop.request import TaskType, parse_request
from broker.mcp import tools

MOST_TOKENS = 3500
NAMES = [
    "rag_compress",
    "debug_with_local_context",
    "summarize_logs",
    "inspect_repo",
    "propose_patch",
    "get_job_status",
    "get_root_job_status",
    "fetch_result",
    "cancel_job",
    "read_evidence",
    "list_capabilities",
]


def by_name() -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool for tool in tools.definitions()}


def test_the_file_is_what_the_models_give() -> None:
    assert tools.FILE.read_text("utf-8") == tools.text(tools.build()), "run `python -m broker.mcp.tools`"


def test_all_definitions_together_take_few_tokens() -> None:
    whole = json.dumps(tools.definitions(), ensure_ascii=False, separators=(",", ":"))
    assert tokens.count(whole) <= MOST_TOKENS


def test_tools_and_their_order() -> None:
    assert [tool["name"] for tool in tools.definitions()] == NAMES
    tasks = [spec.task_type for spec in tools.SPECS if spec.task_type]
    assert tasks == [str(task) for task in TaskType]


def test_schemas_are_valid_and_plain() -> None:
    for tool in tools.definitions():
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
            assert "$ref" not in json.dumps(schema)


def test_what_a_schema_shows_the_request_takes() -> None:
    ref = {"type": "repo", "uri": "/work", "role": "primary"}
    for spec in tools.SPECS:
        if not spec.task_type:
            continue
        schema = by_name()[spec.name]["inputSchema"]
        shown = {"input_refs": [ref], **_question(spec), "constraints": {"final_evidence_pack_budget": 900}}
        jsonschema.validate(shown, schema)
        assert parse_request({**shown, "task_type": spec.task_type}).question == "why?"
        params = schema["properties"]["task_params"]["properties"]
        assert set(params) == set(spec.params)
        samples = {name: _sample(sub) for name, sub in params.items() if name != "query"}
        whole = {**shown, "task_params": {**shown.get("task_params", {}), **samples}}
        jsonschema.validate(whole, schema)
        parse_request({**whole, "task_type": spec.task_type})


def _question(spec: tools.Spec) -> dict[str, Any]:
    if spec.question == "task_params.query":
        return {"task_params": {"query": "why?"}}
    return {spec.question: "why?"}


def _sample(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    simple = {"boolean": True, "integer": 3, "number": 1, "string": "x"}
    if schema["type"] == "array":
        return ["x"]
    if schema["type"] == "object":
        return {name: _sample(sub) for name, sub in schema["properties"].items()}
    return simple[schema["type"]]


def test_annotations() -> None:
    hints = {name: tool["annotations"] for name, tool in by_name().items()}
    assert [name for name, hint in hints.items() if not hint["readOnlyHint"]] == ["cancel_job"]
    repeatable = {name for name, hint in hints.items() if hint.get("idempotentHint")}
    assert repeatable == set(NAMES[5:])
    assert not any(hint["openWorldHint"] for hint in hints.values())


def test_descriptions_say_when_and_what() -> None:
    found = by_name()
    assert "Not for" in found["rag_compress"]["description"]
    assert "tokens" in found["rag_compress"]["description"]
    for tool in found.values():
        assert 4 <= tokens.count(tool["description"]) <= 80
