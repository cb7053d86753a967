"""From the end of an attempt to the next state of its job: pure decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentloop.errors import ErrorCode, Stage
from broker.backends.base import RunState, RunUpdate
from broker.jobs.artifacts import EVIDENCE_PACK, Published
from broker.jobs.model import Job, State
from broker.planner import Tier

MAX_RETRY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ended: a pack, or an error object, and whether it counts against the job."""

    published: Published | None = None
    error: Mapping[str, Any] | None = None
    state: State = State.FAILED  # the job's state when this error is final
    counts: bool = True


def failure(code: str, message: str, *, retryable: bool, **details: Any) -> dict[str, Any]:
    """An error object of the dispatch stage."""
    return {
        "code": code,
        "message": message,
        "retryable": retryable,
        "stage": str(Stage.DISPATCH),
        "details": details,
    }


def end_of(update: RunUpdate, published: Published | None, job: Job) -> End:
    """What a final update and the attempt's files say together; a complete pack counts, however it ended."""
    if published is not None and published.pack is not None:
        return End(published=published)
    if published is not None and published.error is not None:
        by_code = {"TIMED_OUT": State.TIMED_OUT, "CANCELLED": State.CANCELLED}
        return End(error=published.error, state=by_code.get(published.error["code"], State.FAILED))
    return _unpublished(update, job.request["constraints"]["max_runtime_seconds"])


def _unpublished(update: RunUpdate, seconds: int) -> End:
    """The end of an attempt that left neither a result nor an error."""
    if update.state is RunState.TIMED_OUT:
        return End(error=timed_out(seconds), state=State.TIMED_OUT)
    if update.state is RunState.CANCELLED:
        error = failure(ErrorCode.CANCELLED, "The run was cancelled at the backend.", retryable=False)
        return End(error=error, state=State.CANCELLED)
    if update.state is RunState.LOST:
        return End(error=_died("went away with the broker or its node", update), counts=False)
    if update.state is RunState.NOT_STARTED:
        return End(
            error=failure(
                ErrorCode.GPU_TIER_UNAVAILABLE,
                f"The tier did not start the run in time ({update.reason}); it was withdrawn.",
                retryable=True,
            )
        )
    if update.state is RunState.OUT_OF_MEMORY:
        return End(error=_died("ran out of memory; narrow the inputs or raise its memory", update))
    ended = f"ended by {update.reason}" if update.reason else f"ended with status {update.exit_code}"
    return End(error=_died(f"{ended} and published nothing", update))


def timed_out(seconds: int) -> dict[str, Any]:
    """The error of a job that used up its time."""
    return failure(
        ErrorCode.TIMED_OUT,
        f"The job ran longer than max_runtime_seconds={seconds}; raise it or narrow the inputs.",
        retryable=False,
    )


def _died(what: str, update: RunUpdate) -> dict[str, Any]:
    return failure(
        ErrorCode.INTERNAL,
        f"The worker {what}.",
        retryable=True,
        exit_code=update.exit_code,
        reason=update.reason,
    )


def retry_delay(failures: int) -> float:
    """Seconds before the next attempt: one, two, four, up to thirty."""
    return min(MAX_RETRY_SECONDS, 2.0 ** max(0, failures - 1))


def escalated(tier: str, tiers: frozenset[Tier]) -> str:
    """The tier of the next attempt: one up where the backend has it, else the same."""
    up = Tier(tier).next_up if tier else None
    return str(up) if up is not None and up in tiers else tier


def settle(job: Job, end: End, now: float, max_attempts: int, tiers: frozenset[Tier]) -> Job:
    """The job after an attempt: succeeded, queued again, or ended.

    A cancel that was recorded first wins over whatever the attempt brought: a pack is visible exactly if
    the job succeeded.
    """
    if job.state.terminal:
        return job
    if job.cancel_requested:
        return job.move(State.CANCELLED, now, stage="", retry=None)
    if end.published is not None and end.published.pack is not None:
        return _succeeded(job, end.published, now)
    error = dict(end.error or {})
    failures = job.failures + int(end.counts)
    retryable = bool(error.get("retryable"))
    if retryable and failures < max_attempts:
        tier = escalated(job.tier, tiers)
        advice = {
            "recommended": True,
            "automatic": True,
            "tier": tier,
            "after_seconds": retry_delay(failures),
            "reason": error["code"],
        }
        return job.move(
            State.QUEUED,
            now,
            failures=failures,
            tier=tier,
            retry=advice,
            error=error,
            backend_id="",
            stage="",
        )
    advice = {
        "recommended": retryable,
        "automatic": False,
        "tier": escalated(job.tier, frozenset(Tier)),
        "reason": error.get("code", ""),
    }
    state = end.state if end.state in {State.TIMED_OUT, State.CANCELLED} else State.FAILED
    return job.move(state, now, failures=failures, error=error, retry=advice, stage="")


def _succeeded(job: Job, published: Published, now: float) -> Job:
    pack, metadata = published.pack or {}, published.metadata
    payload = pack["payload"]
    found = [artifact.artifact_id for artifact in published.artifacts if artifact.kind == EVIDENCE_PACK]
    return job.move(
        State.SUCCEEDED,
        now,
        stage="",
        percent=100.0,
        error=None,
        retry=None,
        classification=str(payload["input_scope"]["classification"]),
        tool_calls=int(payload["retrieval"].get("tool_calls", 0)),
        mode=str(payload["retrieval"].get("mode", job.mode)),
        warnings=(*job.warnings, *payload.get("warnings", ())),
        cache={**job.cache, **metadata.get("cache", {})},
        metrics={"stages": metadata.get("stages", {}), "counters": metadata.get("counters", {})},
        pack_artifact=found[0] if found else "",
    )
