"""What the tools are called, take and give: made from the pydantic models, kept in `tools.json`.

The file is what clients get, so that a stdio server answers before pydantic is imported. It is written by
`python -m broker.mcp.tools`, and a test compares it with the models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

FILE = Path(__file__).with_name("tools.json")

_REFS = "local files or folders, as absolute paths or file:// URIs"
_WHEN = "Local data stays local: you get an evidence pack of ranked claims with path, lines and hashes."


@dataclass(frozen=True, slots=True)
class Spec:
    """A tool. `task_type` is set for those that submit; `fields` picks what its schema shows.

    A schema that shows less than the model is no smaller contract: the broker validates the whole model.
    """

    name: str
    description: str
    task_type: str = ""
    question: str = ""
    params: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    model: str = ""
    output: tuple[str, ...] = ()
    hints: Mapping[str, bool] = field(default_factory=dict)


_READ = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
_SUBMIT = {"readOnlyHint": True, "openWorldHint": False}

SPECS: tuple[Spec, ...] = (
    Spec(
        "rag_compress",
        "Find evidence for a question in local code, logs, documents or conversation exports that are too "
        f"large to read whole. {_WHEN} Seconds, about 4,000 tokens. Not for a file whose path you know and "
        "that is short: read that.",
        "rag_compress",
        "query",
        ("include_inline_excerpts", "evidence_kinds", "max_tool_calls"),
        hints=_SUBMIT,
    ),
    Spec(
        "debug_with_local_context",
        "Find the cause of a failure: follows stack traces, failing tests, suspect paths and recent commits "
        "through a repository and its logs. Prefer it to rag_compress when something broke.",
        "debug_with_local_context",
        "problem",
        ("stack_trace", "failing_tests", "changed_since", "suspect_paths"),
        hints=_SUBMIT,
    ),
    Spec(
        "summarize_logs",
        "Find root failures in logs of any size: repeated lines and stack traces are collapsed and counted.",
        "summarize_logs",
        "task_params.query",
        ("query", "time_window"),
        hints=_SUBMIT,
    ),
    Spec(
        "inspect_repo",
        "Understand how a repository does something: definitions, call sites and dependency edges.",
        "inspect_repo",
        "task_params.query",
        ("query", "paths", "languages", "include_dependency_edges"),
        hints=_SUBMIT,
    ),
    Spec(
        "propose_patch",
        "Ask a local model for a candidate patch with its evidence. Nothing is written or run. Needs a "
        "model; slower than the others.",
        "propose_patch",
        "problem",
        ("patch_style", "allowed_paths", "validation_commands"),
        hints=_SUBMIT,
    ),
    Spec(
        "get_job_status",
        "State, stage and percent of a job.",
        arguments=("job_id",),
        model="JobStatus",
        output=("job_id", "state", "stage", "percent"),
        hints=_READ,
    ),
    Spec(
        "get_root_job_status",
        "State of a job that was split into shards, in the aggregate.",
        arguments=("root_job_id",),
        model="RootView",
        output=("root_job_id", "state", "percent", "children"),
        hints=_READ,
    ),
    Spec(
        "fetch_result",
        "The evidence pack of a job that has ended, also days later.",
        arguments=("job_id", "include_artifacts", "remote_model_context_budget"),
        model="Pack",
        output=("schema_name", "payload", "evidence_refs"),
        hints=_READ,
    ),
    Spec(
        "cancel_job",
        "Stop a job that is no longer wanted.",
        arguments=("job_id",),
        model="JobStatus",
        output=("job_id", "state", "cancel_requested"),
        hints={
            "readOnlyHint": False,
            "destructiveHint": True,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    ),
    Spec(
        "read_evidence",
        "The source lines behind one evidence item of a pack, as they are now (`stale` when the file "
        "changed), when a claim alone is not enough. Only of jobs that were asked with "
        "constraints.confidentiality `evidence_only`, where policy allows it.",
        arguments=("job_id", "evidence_id", "ref", "context_lines"),
        model="EvidenceText",
        output=("path", "line_start", "line_end", "stale", "text"),
        hints=_READ,
    ),
    Spec(
        "list_capabilities",
        "What the broker has: tasks, tiers, models, readable roots, limits, health. Ask it when a call is "
        "refused.",
        model="Capabilities",
        output=("roots", "health"),
        hints=_READ,
    ),
)
BY_NAME: Mapping[str, Spec] = {spec.name: spec for spec in SPECS}

TOLD: Mapping[str, str] = {
    "wait_for_result": "false: get a job_id at once",
    "max_wait_seconds": "then a job_id is returned",
    "max_tool_calls": "searches of the local loop",
    "changed_since": "a commit, or HEAD~N",
    "context_lines": "lines around it",
    "ref": "which source_ref, from 0",
    "evidence_id": "as in the pack",
    "include_artifacts": "with metadata of local artifacts",
    "idempotency_key": "same key and request: same job",
    "execution_profile": "backend, tier, qos, priority, model_profile",
    "final_evidence_pack_budget": "tokens of the pack",
    "remote_model_context_budget": "tokens of the whole answer",
    "validation_commands": "told to you; run only in the operator's sandbox",
}
CONSTRAINTS = (
    "final_evidence_pack_budget",
    "remote_model_context_budget",
    "max_runtime_seconds",
    "confidentiality",
)
REF_FIELDS = ("type", "uri", "content_hash", "role")
DEFAULT_WAIT = 45
MOST_WAIT = 55


def slim(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON Schema with refs inlined and what a model that fills it in doesn't need left out."""
    if "$ref" in schema:
        return slim({**definitions[str(schema["$ref"]).rpartition("/")[2]], "description": ""}, definitions)
    if "anyOf" in schema:
        kept = [slim(s, definitions) for s in schema["anyOf"] if s.get("type") != "null"]
        return kept[0]
    found: dict[str, Any] = {}
    for key in ("type", "enum"):
        if key in schema:
            found[key] = schema[key]
    if "items" in schema:
        found["items"] = slim(schema["items"], definitions)
    if "enum" in found:
        found["enum"] = [value for value in found["enum"] if value != "stdin"]  # a broker has none
    return found


def _picked(model: type[BaseModel], names: tuple[str, ...]) -> dict[str, Any]:
    """The named properties of a model's schema, slim, with their words of explanation."""
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})
    found: dict[str, Any] = {}
    for name in names:
        found[name] = slim(schema["properties"][name], definitions)
        if TOLD.get(name):
            found[name]["description"] = TOLD[name]
    return found


def _submit_schema(spec: Spec) -> dict[str, Any]:
    from agentloop.request import CompressRequest, Constraints, InputRef, TaskParams, TimeWindow

    top = _picked(CompressRequest, tuple(n for n in ("query", "problem") if n == spec.question))
    refs = {
        "type": "array",
        "description": _REFS,
        "items": {
            "type": "object",
            "properties": _picked(InputRef, REF_FIELDS),
            "required": ["type", "uri"],
        },
    }
    params: dict[str, Any] = {"type": "object", "properties": _picked(TaskParams, spec.params)}
    if "time_window" in spec.params:
        window = {"type": "object", "properties": _picked(TimeWindow, ("start", "end"))}
        params["properties"]["time_window"] = {**window, "description": "ISO 8601"}
    required = ["input_refs"]
    if spec.question == "task_params.query":
        params["required"] = ["query"]
        required.append("task_params")
    else:
        required.insert(0, spec.question)
    return {
        "type": "object",
        "properties": {
            **top,
            "input_refs": refs,
            "task_params": params,
            "constraints": {"type": "object", "properties": _picked(Constraints, CONSTRAINTS)},
            "execution_profile": {"type": "object", "description": TOLD["execution_profile"]},
            "idempotency_key": {"type": "string", "description": TOLD["idempotency_key"]},
            "wait_for_result": {"type": "boolean", "default": True, "description": TOLD["wait_for_result"]},
            "max_wait_seconds": {
                "type": "number",
                "default": DEFAULT_WAIT,
                "maximum": MOST_WAIT,
                "description": TOLD["max_wait_seconds"],
            },
        },
        "required": required,
    }


def _plain_schema(spec: Spec) -> dict[str, Any]:
    from broker.views import ReadEvidence

    own: dict[str, dict[str, Any]] = {
        "root_job_id": {"type": "string"},
        "include_artifacts": {"type": "boolean"},
        "remote_model_context_budget": {"type": "integer"},
    }
    properties: dict[str, Any] = {}
    for name in spec.arguments:
        properties[name] = dict(own[name]) if name in own else _picked(ReadEvidence, (name,))[name]
        if name in own and TOLD.get(name):
            properties[name]["description"] = TOLD[name]
    required = [n for n in spec.arguments if n.endswith("_id")]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


def _output_schema(spec: Spec) -> dict[str, Any]:
    from agentloop.pack import Pack
    from broker import views

    if spec.task_type:
        pack = _picked(Pack, ("schema_name", "payload", "evidence_refs"))
        handle = _picked(views.JobHandle, ("job_id", "state"))
        return {"type": "object", "properties": {**pack, **{k: {"type": "string"} for k in handle}}}
    model = Pack if spec.model == "Pack" else getattr(views, spec.model)
    found = _picked(model, spec.output)
    if "state" in found:
        found["state"] = {"type": "string"}
    return {"type": "object", "properties": found}


def build() -> list[dict[str, Any]]:
    """All tool definitions, from the models, as they go over the wire; always in the same order."""
    return [
        {
            "name": spec.name,
            "description": spec.description,
            "inputSchema": _submit_schema(spec) if spec.task_type else _plain_schema(spec),
            "outputSchema": _output_schema(spec),
            "annotations": dict(spec.hints),
        }
        for spec in SPECS
    ]


def definitions() -> list[dict[str, Any]]:
    """All tool definitions, read from the file; the caller may change them."""
    found: list[dict[str, Any]] = json.loads(FILE.read_text("utf-8"))
    return found


def text(found: list[dict[str, Any]]) -> str:
    """The file's text."""
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(build()), "utf-8")
