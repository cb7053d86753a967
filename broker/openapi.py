"""OpenAPI 3.1 of the HTTP API, generated from the pydantic models."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from agentloop import __version__
from agentloop.pack import Pack
from agentloop.request import CompressRequest, TaskType
from broker import views
from broker.jobs.model import State

MODELS: tuple[type[BaseModel], ...] = (
    CompressRequest,
    Pack,
    views.PackWithArtifacts,
    views.JobHandle,
    views.JobStatus,
    views.JobPage,
    views.JobLogs,
    views.RootView,
    views.ArtifactView,
    views.CacheLookup,
    views.Capabilities,
    views.ReadEvidence,
    views.EvidenceText,
    views.ErrorAnswer,
    views.Health,
)


CONVENIENCE = {
    "/v1/rag/compressions": TaskType.RAG_COMPRESS,
    "/v1/rag/debug-sessions": TaskType.DEBUG,
    "/v1/logs:summarize": TaskType.SUMMARIZE_LOGS,
    "/v1/repos:inspect": TaskType.INSPECT_REPO,
    "/v1/patches:propose": TaskType.PROPOSE_PATCH,
}
"""The endpoints that imply a task."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One endpoint: its parameters by name (path ones too), body, answers by status, refusals."""

    method: str
    path: str
    summary: str
    answers: dict[int, type[BaseModel] | str]
    body: type[BaseModel] | None = None
    query: dict[str, dict[str, Any]] = field(default_factory=dict)
    refusals: tuple[int, ...] = ()
    public: bool = False
    headers: dict[str, dict[str, Any]] = field(default_factory=dict)


_WAIT = {"wait": {"type": "number", "minimum": 0, "maximum": 60}}
_SUBMIT = (400, 409, 413, 415, 422, 429, 503, 507)


def _submit(path: str, summary: str) -> Operation:
    return Operation(
        "post",
        path,
        summary,
        {202: views.JobHandle, 200: views.JobHandle},
        body=CompressRequest,
        query=_WAIT,
        refusals=_SUBMIT,
    )


OPERATIONS: tuple[Operation, ...] = (
    _submit("/v1/jobs", "Submit a request of any task"),
    *(_submit(path, f"Submit {task}") for path, task in CONVENIENCE.items()),
    Operation(
        "get",
        "/v1/jobs",
        "List jobs, newest first",
        {200: views.JobPage},
        query={
            "state": {"enum": [str(s) for s in State]},
            "task_type": {"enum": [str(t) for t in TaskType]},
            "root_job_id": {"type": "string"},
            "cursor": {"type": "string", "pattern": "^[0-9]{1,18}$"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 200},
        },
        refusals=(400,),
    ),
    Operation(
        "get",
        "/v1/jobs/{job_id}",
        "A job's record",
        {200: views.JobStatus},
        query=_WAIT,
        refusals=(400, 404),
    ),
    Operation(
        "get",
        "/v1/jobs/{job_id}/result",
        "The evidence pack, or the error of a job that ended without one",
        {200: "result"},
        query={**_WAIT, "include_artifacts": {"type": "boolean"}},
        refusals=(400, 404, 409, 410),
    ),
    Operation(
        "get",
        "/v1/jobs/{job_id}/logs",
        "Structured events",
        {200: views.JobLogs},
        query={"after": {"type": "integer", "minimum": 0, "maximum": 1 << 53}},
        refusals=(400, 404),
    ),
    Operation(
        "get",
        "/v1/jobs/{job_id}/events",
        "Structured events as server-sent events",
        {200: "events"},
        headers={"Last-Event-ID": {"type": "string", "pattern": "^[0-9]{1,18}$"}},
        refusals=(400, 404),
    ),
    Operation(
        "post",
        "/v1/jobs/{job_id}:cancel",
        "Cancel a job and its shards",
        {200: views.JobStatus},
        refusals=(404, 503, 507),
    ),
    Operation(
        "get", "/v1/roots/{root_id}", "A root job and its shards", {200: views.RootView}, refusals=(404,)
    ),
    Operation(
        "get",
        "/v1/rag/evidence-packs/{artifact_id}/metadata",
        "Metadata of an evidence pack",
        {200: views.ArtifactView},
        refusals=(404, 410),
    ),
    Operation(
        "get",
        "/v1/rag/indexes/{artifact_id}/metadata",
        "Metadata of a local index",
        {200: views.ArtifactView},
        refusals=(404, 410),
    ),
    Operation(
        "post",
        "/v1/rag/cache:lookup",
        "What of a request is in the cache",
        {200: views.CacheLookup},
        body=CompressRequest,
        refusals=(400, 413, 415, 422),
    ),
    Operation(
        "post",
        "/v1/rag/evidence:read",
        "The source behind a ref of a pack, as policy allows",
        {200: views.EvidenceText},
        body=views.ReadEvidence,
        refusals=(400, 404, 409, 410, 413, 415, 422),
    ),
    Operation("get", "/v1/capabilities", "What this broker can do", {200: views.Capabilities}),
    Operation("get", "/healthz", "The process answers", {200: views.Health}, public=True),
    Operation(
        "get",
        "/readyz",
        "Jobs can be taken now",
        {200: views.Health, 503: views.Health},
        public=True,
    ),
    Operation("get", "/metrics", "Prometheus metrics, for operators", {200: "metrics"}),
    Operation("get", "/openapi.json", "This document", {200: "openapi"}, public=True),
)


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


_CONTENT: dict[str, dict[str, Any]] = {
    # A pack with `artifacts` beside it when they were asked for, or the error of a failed job.
    "result": {
        "application/json": {
            "schema": {
                "anyOf": [_schema(model) for model in (Pack, views.PackWithArtifacts, views.ErrorAnswer)]
            }
        }
    },
    "events": {"text/event-stream": {"schema": {"type": "string"}}},
    "metrics": {"text/plain": {"schema": {"type": "string"}}},
    "openapi": {"application/json": {"schema": {"type": "object"}}},
}


def _content(answer: type[BaseModel] | str) -> dict[str, Any]:
    if isinstance(answer, str):
        return _CONTENT[answer]
    return {"application/json": {"schema": _schema(answer)}}


def _operation(op: Operation) -> dict[str, Any]:
    responses = {
        str(status): {"description": op.summary, "content": _content(answer)}
        for status, answer in op.answers.items()
    }
    always = () if op.public else (401, 403)
    for status in (*always, *op.refusals):
        if str(status) not in responses:
            responses[str(status)] = {
                "description": "Refused; the error says why",
                "content": {"application/json": {"schema": _schema(views.ErrorAnswer)}},
            }
    parts = [part.strip("{}") for part in op.path.replace(":", "/").split("/") if part.startswith("{")]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in parts
    ]
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in op.query.items()]
    parameters += [{"name": name, "in": "header", "schema": schema} for name, schema in op.headers.items()]
    found: dict[str, Any] = {"summary": op.summary, "parameters": parameters, "responses": responses}
    if op.body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _schema(op.body)}},
        }
    if op.public:
        found["security"] = []
    return found


@functools.cache
def document() -> dict[str, Any]:
    """The whole document."""
    _, definitions = models_json_schema(
        [(model, "validation") for model in MODELS], ref_template="#/components/schemas/{model}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for op in OPERATIONS:
        paths.setdefault(op.path, {})[op.method] = _operation(op)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "agentloop broker",
            "version": __version__,
            "description": "Questions about local data in, packs of verified evidence out.",
        },
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }
