"""What the service answers with: pydantic models, from which OpenAPI and the MCP schemas are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from agentloop.pack import SCHEMA_NAMES, Pack
from agentloop.request import TaskType
from broker.jobs.model import Artifact, Event, Job, State


class View(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CacheStatus(View):
    """`hit`: the pack came from the cache; `partial`: the named layers did; `miss`; `bypass`: cache off."""

    status: str
    layers: tuple[str, ...] = ()


class JobHandle(View):
    """The answer to a submit."""

    job_id: str
    state: State
    result_schema: str
    cache: CacheStatus
    status_url: str
    result_url: str
    warnings: tuple[dict[str, Any], ...] = ()


class ErrorBody(View):
    """The specification's error object."""

    code: str
    message: str
    retryable: bool
    stage: str
    details: dict[str, Any] = {}


class ErrorAnswer(View):
    """The answer of every refused call."""

    error: ErrorBody


class Retry(View):
    """Whether another attempt is worth it, on which tier, and whether the broker makes it by itself."""

    recommended: bool
    automatic: bool
    tier: str = ""
    after_seconds: float | None = None
    reason: str = ""


class JobStatus(View):
    """A job as its owner sees it."""

    job_id: str
    task_type: str
    state: State
    result_schema: str
    priority: str
    mode: str
    tool_calls: int | None = None
    stage: str = ""
    percent: float = 0.0
    attempt: int = 0
    backend: str
    backend_unknown: bool = False
    tier: str = ""
    model_profile: str = ""
    classification: str = ""
    root_job_id: str | None = None
    shard: int | None = None
    cancel_requested: bool = False
    created_at: str
    updated_at: str
    started_at: str | None = None
    finished_at: str | None = None
    cache: CacheStatus
    plan: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    warnings: tuple[dict[str, Any], ...] = ()
    error: ErrorBody | None = None
    retry: Retry | None = None
    evidence_pack_id: str = ""
    status_url: str
    result_url: str


class JobPage(View):
    """Jobs, newest first; `next_cursor` asks for the following page and is null on the last."""

    jobs: tuple[JobStatus, ...]
    next_cursor: str | None = None


class LogEntry(View):
    """One structured event of a job; never text of an input."""

    seq: int
    at: str
    kind: str
    data: dict[str, Any]


class JobLogs(View):
    """A job's events in order. `after` of the next call is the last `seq`."""

    job_id: str
    events: tuple[LogEntry, ...]


class ArtifactView(View):
    """Metadata of a local artifact; its content has no export."""

    artifact_id: str
    kind: str
    name: str
    job_id: str
    content_hash: str
    size_bytes: int
    classification: str
    created_at: str
    metadata: dict[str, Any] = {}


class RootView(View):
    """A root job: its own state, and its shards in the aggregate."""

    root_job_id: str
    state: State
    percent: float
    children: dict[str, int]
    retries: int
    deferred: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    shards: tuple[JobStatus, ...] = ()
    result_url: str


class PackWithArtifacts(Pack):
    """A pack, and the metadata of its job's local artifacts, which were asked for."""

    artifacts: tuple[ArtifactView, ...]


class CacheLookup(View):
    """What of a request the cache holds now; nothing is computed."""

    status: str
    layers: tuple[str, ...] = ()
    job_id: str | None = None


class Capabilities(View):
    """What this broker can do for the caller."""

    version: str
    tasks: tuple[str, ...]
    modes: tuple[str, ...]
    strategies: tuple[str, ...]
    tiers: dict[str, bool]
    backends: tuple[str, ...]
    models: dict[str, str]
    roots: tuple[str, ...]
    limits: dict[str, int]
    health: str


class EvidenceText(View):
    """The source behind a ref of a pack, as it is now. `stale`: the file is no longer the one cited."""

    evidence_id: str
    ref: int
    path: str | None = None
    line_start: int
    line_end: int
    stale: bool
    text: str | None = None
    withheld: str = ""
    truncated: bool = False


class ReadEvidence(View):
    """Which ref of a job's pack to expand, with how many lines around it."""

    job_id: Annotated[str, Field(max_length=64)]
    evidence_id: Annotated[str, Field(max_length=64)]
    ref: Annotated[int, Field(ge=0, le=3)] = 0
    context_lines: Annotated[int, Field(ge=0, le=50)] = 0


class Health(View):
    """`ok`, or what is wrong."""

    status: str
    checks: dict[str, str] = {}


def stamp(seconds: float) -> str:
    """ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _maybe(seconds: float | None) -> str | None:
    return None if seconds is None else stamp(seconds)


def result_schema(job: Job) -> str:
    """The schema name of the job's result."""
    return SCHEMA_NAMES[TaskType(job.task_type)]


def cache_view(job: Job) -> CacheStatus:
    """The job's cache status; `miss` until a worker reports."""
    return CacheStatus(status=str(job.cache.get("status", "miss")), layers=tuple(job.cache.get("layers", ())))


def urls(job_id: str) -> dict[str, str]:
    """Where a job's status and result are."""
    return {"status_url": f"/v1/jobs/{job_id}", "result_url": f"/v1/jobs/{job_id}/result"}


def handle(job: Job) -> JobHandle:
    """The answer to a submit."""
    return JobHandle(
        job_id=job.job_id,
        state=job.state,
        result_schema=result_schema(job),
        cache=cache_view(job),
        warnings=tuple(dict(w) for w in job.warnings) if not job.state.terminal else (),
        **urls(job.job_id),
    )


def status(job: Job) -> JobStatus:
    """A job's record."""
    return JobStatus(
        job_id=job.job_id,
        task_type=job.task_type,
        state=job.state,
        result_schema=result_schema(job),
        priority=job.priority,
        mode=job.mode,
        tool_calls=job.tool_calls,
        stage=job.stage,
        percent=job.percent,
        attempt=job.attempt,
        backend=job.backend,
        backend_unknown=job.backend_unknown,
        tier=job.tier,
        model_profile=job.model_profile,
        classification=job.classification,
        root_job_id=job.root_id,
        shard=job.shard,
        cancel_requested=job.cancel_requested,
        created_at=stamp(job.created_at),
        updated_at=stamp(job.updated_at),
        started_at=_maybe(job.started_at),
        finished_at=_maybe(job.finished_at),
        cache=cache_view(job),
        plan=dict(job.plan),
        metrics=dict(job.metrics),
        warnings=tuple(dict(w) for w in job.warnings),
        error=None if job.error is None else ErrorBody.model_validate(dict(job.error)),
        retry=None if job.retry is None else Retry.model_validate(dict(job.retry)),
        evidence_pack_id=job.pack_artifact,
        **urls(job.job_id),
    )


def logs(job_id: str, events: Sequence[Event]) -> JobLogs:
    """A job's events."""
    entries = tuple(LogEntry(seq=e.seq, at=stamp(e.at), kind=e.kind, data=dict(e.data)) for e in events)
    return JobLogs(job_id=job_id, events=entries)


def artifact(found: Artifact) -> ArtifactView:
    """Metadata of an artifact."""
    return ArtifactView(
        artifact_id=found.artifact_id,
        kind=found.kind,
        name=found.name,
        job_id=found.job_id,
        content_hash=f"sha256:{found.sha256}",
        size_bytes=found.size,
        classification=found.classification,
        created_at=stamp(found.created_at),
        metadata=dict(found.metadata),
    )


def root(job: Job, shards: Sequence[Job], *, with_shards: bool = True) -> RootView:
    """The aggregate of a root."""
    counts: dict[str, int] = {}
    for shard in shards:
        counts[shard.state] = counts.get(shard.state, 0) + 1
    done = sum(100.0 if s.state.terminal else s.percent for s in shards)
    waiting: Mapping[str, Job] = {s.job_id: s for s in shards if s.state is State.QUEUED}
    return RootView(
        root_job_id=job.job_id,
        state=job.state,
        percent=round(done / len(shards), 1) if shards else job.percent,
        children=counts,
        retries=sum(max(0, s.attempt - 1) for s in (job, *shards)),
        deferred=tuple(waiting),
        failed=tuple(s.job_id for s in shards if s.state.terminal and s.state is not State.SUCCEEDED),
        shards=tuple(status(s) for s in shards) if with_shards else (),
        result_url=urls(job.job_id)["result_url"],
    )
