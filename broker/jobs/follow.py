"""Following one run to its end: updates of its backend, its heartbeats, its deadline."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentloop.clock import Clock
from agentloop.errors import ErrorCode
from agentloop.rundir import RunDir
from broker.backends.base import Backend, Run, RunState, RunUpdate
from broker.config import Settings
from broker.errors import BrokerError
from broker.jobs.artifacts import Owner, Published, collect
from broker.jobs.model import Job, State
from broker.jobs.observe import Observer
from broker.jobs.outcome import End, end_of, failure, timed_out
from broker.jobs.store import Store

LOOK_SECONDS = 0.5  # between looks at a run directory
WAITING_LOOK_SECONDS = 10.0  # while its backend does not say that it runs: a thousand may wait at once
GRACE_SECONDS = 10.0  # the worker ends itself at its deadline; the broker steps in this much later


@dataclass(slots=True)
class Flight:
    """One run in the air."""

    job: Job
    run: Run
    backend: Backend
    restart: int = 0  # how often the backend itself began the run anew
    started: bool = False  # its backend says that it runs
    waiting: bool = False  # its backend says that it does not, or not now
    expired: bool = False
    silent: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)  # the run has ended: one last look
    moved: asyncio.Event = field(default_factory=asyncio.Event)  # its backend told something
    watched: asyncio.Task[None] | None = None

    @property
    def label(self) -> str:
        """The folder of the attempt that counts now."""
        return f"{self.run.label}.{self.restart}" if self.restart else self.run.label


class Follower:
    """Follows runs; one serves all of a dispatcher's."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    async def follow(self, flight: Flight) -> End:
        """Watch a run to its end, beside a look at its run directory every half second."""
        looking = asyncio.create_task(self._look(flight))
        last = RunUpdate(RunState.LOST)
        try:
            async for update in flight.backend.watch(flight.run):
                last = update
                flight.restart = max(flight.restart, update.restart)
                flight.started = update.state is RunState.RUNNING
                flight.waiting = update.state in (RunState.PENDING, RunState.REQUEUED)
                flight.moved.set()
                if not update.state.final:
                    await self._note(flight, update)
        finally:
            flight.over.set()
            flight.moved.set()
            await asyncio.gather(looking, return_exceptions=True)
        published = await self.collect(flight, last)
        if flight.expired and (published is None or published.pack is None):
            return End(
                error=timed_out(flight.job.request["constraints"]["max_runtime_seconds"]),
                state=State.TIMED_OUT,
            )
        if flight.silent and (published is None or published.pack is None):
            error = failure(
                ErrorCode.INTERNAL, "The worker sent no heartbeat and was stopped.", retryable=True
            )
            return End(error=error)
        return end_of(last, published, flight.job)

    async def collect(self, flight: Flight, last: RunUpdate) -> Published | None:
        """What the run's attempt published, of the backend's last restart of it."""
        flight.restart = max(flight.restart, last.restart)
        attempt = RunDir(flight.run.run_dir).attempt(flight.label)
        return await asyncio.to_thread(collect, attempt, self.owner(flight.job))

    def owner(self, job: Job) -> Owner:
        """Whose artifacts a job's are."""
        return Owner(job.job_id, job.namespace, self._settings.home_path, self._store.now())

    async def _note(self, flight: Flight, update: RunUpdate) -> None:
        """Record that a run started, or that its backend can't tell."""
        now = self._store.now()

        def step(job: Job) -> Job:
            changes: dict[str, Any] = {
                "backend_unknown": update.state is RunState.UNKNOWN,
                "backend_id": update.backend_id or job.backend_id,
            }
            if update.state is RunState.RUNNING and job.state is State.DISPATCHING:
                return job.move(State.RUNNING, now, **changes)
            if all(getattr(job, name) == value for name, value in changes.items()):
                return job
            return job.evolve(updated_at=now, **changes)

        facts = {"node": update.node, "restart": update.restart} if update.node else {}
        with contextlib.suppress(BrokerError):
            after = await self._store.change(
                flight.job.job_id, step, event=str(update.state), data={**facts, "reason": update.reason}
            )
            if after.cancel_requested:  # asked before the backend had the run
                await flight.backend.cancel(flight.run)

    async def _look(self, flight: Flight) -> None:
        """Stage events and heartbeats into the store; the deadline and silence stop the run."""
        label = flight.label
        observer = Observer(RunDir(flight.run.run_dir).attempt(label), self._clock)
        limit = flight.job.request["constraints"]["max_runtime_seconds"] + GRACE_SECONDS
        began = -1.0
        while True:
            await _pause(flight)
            if flight.waiting and not flight.over.is_set():
                began, observer.beat_at = -1.0, -1.0  # between two jobs of a chain, or requeued: no silence
                continue
            if label != flight.label:  # the backend began anew: another folder, and time counts from there
                label, began = flight.label, -1.0
                observer = Observer(RunDir(flight.run.run_dir).attempt(label), self._clock)
            beat = await asyncio.to_thread(observer.heartbeat)
            if beat is None and began < 0 and not (flight.started or flight.over.is_set()):
                continue  # it has not begun: a queue at the backend is no silence
            if began < 0:
                began = self._clock.monotonic()
            with contextlib.suppress(BrokerError):
                await self._progress(flight, beat, await asyncio.to_thread(observer.new_events))
            if flight.over.is_set():
                return  # what a short run said after the look before is stored too
            flight.expired = self._clock.monotonic() - began > limit
            flight.silent = observer.silent_for() > self._settings.heartbeat_seconds
            if flight.expired or flight.silent:
                await flight.backend.cancel(flight.run)
                return

    async def _progress(
        self, flight: Flight, beat: Mapping[str, Any] | None, events: list[tuple[str, dict[str, Any]]]
    ) -> None:
        for kind, data in events:
            await self._store.add_event(flight.job.job_id, kind, data)
        if beat is None:
            return

        def step(job: Job) -> Job:
            if job.state.terminal or (job.stage, job.percent) == (beat["stage"], beat["percent"]):
                return job
            return job.evolve(stage=beat["stage"], percent=beat["percent"], metrics=beat["metrics"])

        await self._store.change(flight.job.job_id, step)


async def _pause(flight: Flight) -> None:
    """Wait for the next look: half a second of a run that goes on, longer for one that waits in a queue.

    What runs on this machine has no queue: a warm host reads and indexes the inputs before its run starts.
    """
    flight.moved.clear()
    if not flight.over.is_set():
        at_work = flight.started or not flight.backend.survives_broker
        seconds = LOOK_SECONDS if at_work else WAITING_LOOK_SECONDS
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(flight.moved.wait(), seconds)
