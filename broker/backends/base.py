"""What a backend is: it takes runs, tells how they go, and can be asked again after a restart.

A run is one attempt of a job. Its token is unique and persisted before `submit`, so that a run whose
submission had an unknown outcome can be looked up by it. Backend and worker share the run directory;
a backend never opens the broker's database.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from broker.planner import Resources, Tier


class RunState(StrEnum):
    """How a run stands. All from EXITED on are final."""

    PENDING = "pending"
    RUNNING = "running"
    REQUEUED = "requeued"  # preempted or its node failed; the backend itself runs it again
    UNKNOWN = "unknown"  # the backend can't tell now: no information, never a reason to fail or resubmit
    EXITED = "exited"  # the worker ended by itself; what it published tells the rest
    KILLED = "killed"  # by a signal that nobody here sent
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    NOT_STARTED = "not_started"  # its tier did not start it in time; it was withdrawn
    LOST = "lost"  # the backend vouches that it doesn't have this run (any more)

    @property
    def final(self) -> bool:
        """Whether no further update follows."""
        return list(RunState).index(self) >= list(RunState).index(RunState.EXITED)


@dataclass(frozen=True, slots=True)
class Step:
    """Stages of a run that a backend runs ahead, as a job of their own on a cheaper tier."""

    stage: str
    tier: Tier
    resources: Resources


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt, as a backend sees it.

    `label` names the attempt's folder under `run_dir`; a backend that reruns by itself (a requeue)
    starts `label.RESTART` folders and fences the earlier ones out. `backend_id` is what `submit`
    returned, empty while its outcome is unknown.
    """

    job_id: str
    namespace: str
    task_type: str
    stage: str
    token: str
    label: str
    run_dir: Path
    tier: Tier
    qos: str
    resources: Resources
    submitted_at: float = 0.0
    backend_id: str = ""
    affinity: str = ""  # runs with the same one work on the same inputs and may share what is kept of them
    root_id: str = ""  # of a shard: its root; shards of one root are alike and may share an array
    shard: int | None = None  # its number, from 0
    shard_count: int = 0  # shards of that root
    before: tuple[Step, ...] = ()  # what is done before this run's own stage, in order
    service: str = ""  # the model profile that a warm service serves for it; empty: it serves its own


@dataclass(frozen=True, slots=True)
class RunUpdate:
    """What a backend tells of a run. `backend_id` where it became known, `restart` counts requeues."""

    state: RunState
    backend_id: str = ""
    exit_code: int | None = None
    reason: str = ""
    node: str = ""
    restart: int = 0


class BackendRejected(Exception):
    """The backend refuses this run for good; the message says why."""


class BackendUnavailable(Exception):
    """The backend took nothing and may take it later."""


class SubmitUnknown(Exception):
    """Whether the backend took the run can't be known now: watch the run, which looks its token up."""


class Backend(Protocol):
    """A place where runs happen."""

    @property
    def name(self) -> str:
        """`local`, `slurm`."""
        ...

    @property
    def tiers(self) -> frozenset[Tier]:
        """The tiers that it really has."""
        ...

    @property
    def capacity(self) -> int:
        """Runs that may be submitted at once; more wait in the broker's queue."""
        ...

    @property
    def survives_broker(self) -> bool:
        """Whether runs go on while no broker does, to be adopted at the next start."""
        ...

    async def start(self) -> None:
        """Get ready to take runs.

        Raises:
            BackendUnavailable: it can't.
        """
        ...

    async def submit(self, run: Run) -> str:
        """Take a run; returns the backend's id for it.

        Raises:
            BackendRejected: final. BackendUnavailable: nothing was taken. SubmitUnknown: see there.
        """
        ...

    def watch(self, run: Run) -> AsyncIterator[RunUpdate]:
        """Updates of a run that was submitted (or may have been), ending with a final one."""
        ...

    async def cancel(self, run: Run) -> None:
        """Stop a run and its whole process group; `watch` then ends. Unknown runs are no error."""
        ...

    async def recover(self, runs: Sequence[Run]) -> dict[str, RunUpdate]:
        """After a restart: what became of these runs, by token. LOST only where it is certain."""
        ...

    async def logs(self, run: Run) -> str:
        """Where an operator finds the raw log of a run: a path or command, never the text."""
        ...

    async def close(self) -> None:
        """Let go. A backend that doesn't survive the broker stops its runs."""
        ...
