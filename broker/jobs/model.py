"""A job: a frozen value, changed only through `evolve`, moved only along the transition table."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # ULID's alphabet


class State(StrEnum):
    """The states of the specification."""

    QUEUED = "queued"
    DISPATCHING = "dispatching"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"

    @property
    def terminal(self) -> bool:
        """Whether nothing follows."""
        return not TRANSITIONS[self]


TRANSITIONS: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.DISPATCHING, State.CANCELLED, State.FAILED}),
    # Back to queued: the broker died before the backend had the run, or the attempt is to be repeated.
    State.DISPATCHING: frozenset(
        {
            State.QUEUED,
            State.RUNNING,
            State.SUCCEEDED,
            State.FAILED,
            State.CANCELLED,
            State.TIMED_OUT,
        }
    ),
    State.RUNNING: frozenset({State.QUEUED, State.SUCCEEDED, State.FAILED, State.CANCELLED, State.TIMED_OUT}),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
    State.TIMED_OUT: frozenset(),
}
TERMINAL = frozenset(state for state, following in TRANSITIONS.items() if not following)


class IllegalTransition(Exception):
    """The transition table has no such step."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job as the store keeps it. Times are seconds since the epoch, for people to read.

    `request` is the request's JSON; `error` the specification's error object of a job that failed;
    `retry` the recommendation of a failed attempt; `cache` its status and reused layers.
    """

    job_id: str
    namespace: str
    principal: str
    task_type: str
    request: Mapping[str, Any]
    request_hash: str
    created_at: float
    updated_at: float
    state: State = State.QUEUED
    priority: str = "interactive"
    idempotency_key: str | None = None
    root_id: str | None = None  # of a child: the root that it belongs to
    shard: int | None = None
    seq: int = 0
    version: int = 0
    attempt: int = 0
    failures: int = 0  # attempts that count against the job; a broker's death doesn't
    started_at: float | None = None
    finished_at: float | None = None
    backend: str = "local"
    backend_id: str = ""
    backend_unknown: bool = False
    token: str = ""
    tier: str = ""
    qos: str = ""
    model_profile: str = ""
    mode: str = "agentic"
    tool_calls: int | None = None
    stage: str = ""
    percent: float = 0.0
    metrics: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)
    cache: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    warnings: tuple[Mapping[str, Any], ...] = ()
    retry: Mapping[str, Any] | None = None
    classification: str = ""
    pack_artifact: str = ""
    cancel_requested: bool = False

    def evolve(self, **changes: Any) -> Job:
        """A copy with other values. A state is changed by `move`, not here."""
        if "state" in changes:
            raise IllegalTransition("use move() to change a job's state")
        return replace(self, **changes)

    def move(self, state: State, now: float, **changes: Any) -> Job:
        """A copy in another state.

        Raises:
            IllegalTransition: the table doesn't allow it.
        """
        if state not in TRANSITIONS[self.state]:
            raise IllegalTransition(f"{self.state} -> {state}")
        if state is State.RUNNING and self.started_at is None:
            changes.setdefault("started_at", now)
        if state in TERMINAL:
            changes.setdefault("finished_at", now)
        return replace(self, state=state, updated_at=now, **changes)


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a job's log: structured, never input text. `seq` rises over the whole store."""

    seq: int
    job_id: str
    at: float
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file of a run directory that the broker vouches for, by its full hash.

    `public_id` is the id that a pack carries (`provenance.pack_id`), the same for the same content.
    """

    artifact_id: str
    job_id: str
    namespace: str
    kind: str  # evidence_pack, input_manifest, local_index, retrieval_run, chunks, other
    name: str
    path: str  # relative to BROKER_HOME
    sha256: str
    size: int
    created_at: float
    classification: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    public_id: str = ""


class _Randomness:
    """Random bytes of the kernel, fetched for many ids at once: a fetch lets another thread run first."""

    def __init__(self) -> None:
        self._bytes = b""
        os.register_at_fork(after_in_child=self._forget)  # or parent and child would give the same ids

    def _forget(self) -> None:
        self._bytes = b""

    def take(self) -> int:
        """80 fresh bits."""
        if len(self._bytes) < _ID_BYTES:
            self._bytes = secrets.token_bytes(_ID_BYTES * 256)
        taken, self._bytes = self._bytes[:_ID_BYTES], self._bytes[_ID_BYTES:]
        return int.from_bytes(taken, "big")


_ID_BYTES = 10
_randomness = _Randomness()


def new_id(prefix: str) -> str:
    """`prefix_` and a ULID: 48 bits of time, so that ids sort, and 80 random bits against guessing."""
    number = (time.time_ns() // 1_000_000 << 80) | _randomness.take()
    digits = [_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5)]
    return f"{prefix}_{''.join(digits)}"
