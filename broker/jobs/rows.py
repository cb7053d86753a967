"""Jobs, events and artifacts as rows of the database, and back."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from broker.jobs.database import Row
from broker.jobs.model import Artifact, Event, Job, State

_JSON_FIELDS = ("request", "metrics", "plan", "cache", "error", "warnings", "retry")
_JOB_FIELDS = tuple(f.name for f in fields(Job))
_ARTIFACT_FIELDS = tuple(f.name for f in fields(Artifact))
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def to_text(value: Any) -> str | None:
    """JSON text of a column. The fast encoder knows no lone surrogates (names that are not UTF-8)."""
    if value is None:
        return None
    try:
        return to_json(value).decode()
    except (PydanticSerializationError, UnicodeError):
        return _encode(value)


def job_from_row(row: Row) -> Job:
    """A job from its row."""
    values = {name: row[name] for name in _JOB_FIELDS}
    for name in _JSON_FIELDS:
        values[name] = None if values[name] is None else json.loads(values[name])
    values["warnings"] = tuple(values["warnings"])
    values["state"] = State(values["state"])
    values["backend_unknown"] = bool(values["backend_unknown"])
    values["cancel_requested"] = bool(values["cancel_requested"])
    return Job(**values)


def job_to_row(job: Job) -> dict[str, Any]:
    """The parameters of `insert_job` and `update_job`."""
    values: dict[str, Any] = {name: getattr(job, name) for name in _JOB_FIELDS}
    for name in _JSON_FIELDS:
        values[name] = to_text(values[name])
    values["state"] = str(job.state)
    return values


def event_from_row(row: Row) -> Event:
    """An entry of a job's log from its row."""
    return Event(row["seq"], row["job_id"], row["at"], row["kind"], json.loads(row["data"]))


def artifact_from_row(row: Row) -> Artifact:
    """An artifact from its row."""
    values = {name: row[name] for name in _ARTIFACT_FIELDS}
    values["metadata"] = json.loads(values["metadata"])
    return Artifact(**values)


def artifact_to_row(artifact: Artifact) -> dict[str, Any]:
    """The parameters of `insert_artifact`."""
    values = {name: getattr(artifact, name) for name in _ARTIFACT_FIELDS}
    values["metadata"] = to_text(dict(artifact.metadata))
    return values
