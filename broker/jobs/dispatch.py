"""From queued to a terminal state: claims, runs on backends, retries, cancels, recovery, draining."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentloop.clock import Clock
from agentloop.request import TaskType
from broker.backends.base import (
    Backend,
    BackendRejected,
    BackendUnavailable,
    Run,
    RunState,
    RunUpdate,
    SubmitUnknown,
)
from broker.config import Settings
from broker.errors import BrokerError
from broker.jobs.artifacts import collect
from broker.jobs.bus import Bus
from broker.jobs.follow import Flight, Follower
from broker.jobs.model import IllegalTransition, Job, State, new_id
from broker.jobs.outcome import End, end_of, failure, settle
from broker.jobs.prepare import Preparer
from broker.jobs.roots import UNBOUNDED, Reducer, continuation_of
from broker.jobs.store import Store
from broker.planner import Resources, Tier

log = logging.getLogger("broker.dispatch")

CANCELS_AT_ONCE = 16  # of one request: a backend may start a process for each
STORE_RETRY_SECONDS = 2.0  # after the store refused a write: locked, disk full


@dataclass(slots=True)
class _Turns:
    """Fair turns: the namespace with the fewest runs goes first, then the one served longest ago."""

    served: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def choose(self, names: Sequence[str], running: Mapping[str, int]) -> str | None:
        """The namespace that is next."""
        if not names:
            return None
        name = min(names, key=lambda n: (running.get(n, 0), self.served.get(n, 0), n))
        self.count += 1
        self.served[name] = self.count
        return name


class Dispatcher:
    """Runs jobs until `drain`. One per broker."""

    def __init__(
        self,
        store: Store,
        backends: Mapping[str, Backend],
        settings: Settings,
        clock: Clock,
        preparer: Preparer,
        bus: Bus,
    ) -> None:
        self._store = store
        self._backends = backends
        self._settings = settings
        self._clock = clock
        self._prepare = preparer
        self._bus = bus
        self._reducer = Reducer(store, settings)
        self._follower = Follower(store, settings, clock)
        self._flights: dict[str, Flight] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: dict[str, asyncio.TimerHandle] = {}
        self._turns = _Turns()
        self._wake = asyncio.Event()
        self._draining = False
        self._loop_task: asyncio.Task[None] | None = None

    @property
    def running(self) -> int:
        """Runs in the air."""
        return len(self._flights)

    @property
    def draining(self) -> bool:
        """Whether no job is claimed any more."""
        return self._draining

    def wake(self, job_id: str = "") -> None:
        """Look at the queue again."""
        self._wake.set()

    async def start(self) -> None:
        """Adopt what an earlier broker left, then begin to claim."""
        await self._recover()
        self._loop_task = asyncio.create_task(self._claim_forever(), name="dispatch")

    async def drain(self, seconds: float) -> None:
        """Claim no more, wait for runs that would not survive us, leave the others to the next broker."""
        self._draining = True
        self._wake.set()
        if self._loop_task is not None:
            await self._loop_task
        mortal = [
            flight.watched
            for flight in self._flights.values()
            if flight.watched is not None and not flight.backend.survives_broker
        ]
        if mortal:
            await asyncio.wait(mortal, timeout=seconds)
        for timer in self._held.values():
            timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cancel(self, job_ids: Sequence[str]) -> None:
        """Stop the runs of jobs that have one in the air; a backend that is away is asked again later."""
        gate = asyncio.Semaphore(CANCELS_AT_ONCE)

        async def stop(flight: Flight) -> None:
            async with gate:
                try:
                    await flight.backend.cancel(flight.run)
                except BackendUnavailable as exc:  # the follower asks again at the run's next update
                    log.warning("a cancel waits for its backend: %s", exc, extra={"job": flight.job.job_id})

        await asyncio.gather(*(stop(self._flights[j]) for j in job_ids if j in self._flights))

    # --- claiming -----------------------------------------------------------------------------------

    def _full(self) -> list[str]:
        """The backends that have no room for another run."""
        used: dict[str, int] = {}
        for flight in self._flights.values():
            used[flight.job.backend] = used.get(flight.job.backend, 0) + 1
        return [name for name, backend in self._backends.items() if used.get(name, 0) >= backend.capacity]

    async def _claim_forever(self) -> None:
        while not self._draining:
            self._wake.clear()
            try:
                full = self._full()
                job = await self._claim(full) if len(full) < len(self._backends) else None
            except BrokerError as exc:
                log.warning("claim refused by the store", extra={"code": exc.code})
                await asyncio.sleep(STORE_RETRY_SECONDS)
                continue
            if job is None:
                await self._wake.wait()
                continue
            self._launch(job)

    async def _claim(self, full: Sequence[str]) -> Job | None:
        running: dict[str, int] = {}
        for flight in self._flights.values():
            running[flight.job.namespace] = running.get(flight.job.namespace, 0) + 1
        now = self._store.now()

        def step(job: Job) -> Job:
            return job.move(State.DISPATCHING, now, attempt=job.attempt + 1, token=new_id("run")[4:].lower())

        return await self._store.claim_next(
            lambda names: self._turns.choose(names, running), step, tuple(self._held), full
        )

    def _launch(self, job: Job, *, adopted: bool = False) -> None:
        if job.plan.get("root"):
            task = asyncio.create_task(self._fly_root(job), name=job.job_id)
            self._tasks.add(task)
            task.add_done_callback(lambda done: self._landed(job.job_id, done))
            return
        backend = self._backends.get(job.backend)
        task = asyncio.create_task(self._fly(job, backend, adopted), name=job.job_id)
        if backend is not None:
            self._flights[job.job_id] = Flight(job, self._run_of(job), backend, watched=task)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._landed(job.job_id, done))

    def _landed(self, job_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._flights.pop(job_id, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("a run's task failed", exc_info=task.exception(), extra={"job": job_id})
        self.wake()

    def _run_of(self, job: Job) -> Run:
        resources = job.plan.get("resources", {})
        return Run(
            job_id=job.job_id,
            namespace=job.namespace,
            task_type=job.task_type,
            stage="patch" if job.task_type == TaskType.PROPOSE_PATCH else "compress",
            token=job.token,
            label=str(job.attempt),
            run_dir=self._prepare.run_dir(job).path,
            tier=Tier(job.tier or Tier.CPU),
            qos=job.qos,
            resources=Resources(**resources) if resources else Resources(1, 0, 0, "", 0),
            submitted_at=job.updated_at,
            backend_id=job.backend_id,
            affinity=self._prepare.affinity(job),
            root_id=(job.root_id or "") if job.shard is not None else "",
            shard=job.shard,
            shard_count=int(job.plan.get("shard_count", 0)),
            before=self._prepare.before(job),
            service=self._prepare.service(job),
        )

    # --- roots -------------------------------------------------------------------------------------

    async def _fly_root(self, root: Job) -> None:
        """A root takes no worker: its children do, and then their packs are merged."""
        denied = await self._prepare.check(root)
        if denied is not None:
            await self._finish(root, End(error=denied), frozenset())
            return
        with self._bus.subscribe_all() as changed:
            root = await self._reducer.children(root)
            await self._store.change(root.job_id, self._to_running, event="running")
            shards = await self._reducer.ended(root, changed)
        await self._finish(root, await self._merged(root, shards), frozenset())

    async def _merged(self, root: Job, shards: Sequence[Job]) -> End:
        """The end of a root whose shards have ended."""
        current = await self._store.get(root.job_id)
        if current is None or current.cancel_requested:
            return End(error=failure("CANCELLED", "The job was cancelled.", retryable=False))
        try:
            error = await self._reducer.merge(root, shards, self._prepare.run_dir(root))
        except (OSError, BrokerError) as exc:
            error = failure("STORAGE_FULL", f"The merged pack can't be written: {exc}.", retryable=True)
        if error is not None:
            return End(error=error or failure("INTERNAL", "No shard gave a pack.", retryable=False))
        attempt = self._prepare.run_dir(root).attempt(str(root.attempt))
        return End(published=await asyncio.to_thread(collect, attempt, self._follower.owner(root)))

    def _to_running(self, job: Job) -> Job:
        return job.move(State.RUNNING, self._store.now()) if job.state is State.DISPATCHING else job

    # --- one run ------------------------------------------------------------------------------------

    async def _fly(self, job: Job, backend: Backend | None, adopted: bool) -> None:
        if backend is None:
            error = failure("NO_BACKEND", f"There is no backend named {job.backend!r} here.", retryable=False)
            await self._finish(job, End(error=error), frozenset())
            return
        flight = self._flights[job.job_id]
        end: End | None = None
        if not adopted:
            end = await self._submit(flight)
        if end is None:
            end = await self._follower.follow(flight)
        await self._finish(job, end, backend.tiers)

    async def _submit(self, flight: Flight) -> End | None:
        """Write the run directory and hand the run over; an End when that failed."""
        try:
            denied = await self._prepare.check(flight.job)
            if denied is not None:
                return End(error=denied)
            await asyncio.to_thread(self._prepare.write, flight.job)
            await flight.backend.submit(flight.run)
        except OSError as exc:
            return End(
                error=failure(
                    "STORAGE_FULL",
                    f"The run directory can't be written: {exc.strerror}.",
                    retryable=True,
                )
            )
        except BackendRejected as exc:
            return End(error=failure("NO_BACKEND", f"The backend refused the run: {exc}", retryable=False))
        except BackendUnavailable as exc:
            error = failure("NO_BACKEND", f"The backend is not available: {exc}", retryable=True)
            return End(error=error, counts=False)
        except SubmitUnknown:
            log.warning("the outcome of a submit is unknown", extra={"job": flight.job.job_id})
        return None

    # --- ends ---------------------------------------------------------------------------------------

    async def _finish(self, job: Job, end: End, tiers: frozenset[Tier]) -> None:
        """Commit the job's next state; shielded from draining, and repeated until stored."""
        await asyncio.shield(self._settle(job, end, tiers))

    async def _settle(self, job: Job, end: End, tiers: frozenset[Tier]) -> None:
        now = self._store.now()
        artifacts = end.published.artifacts if end.published is not None else ()

        def step(current: Job) -> Job:
            if current.token != job.token:
                return current  # fenced out: a newer attempt has the job
            return settle(current, end, now, self._settings.max_attempts, tiers)

        while True:
            try:
                data = {"code": end.error["code"]} if end.error else {}
                after = await self._store.change(
                    job.job_id,
                    step,
                    event="attempt_ended",
                    data=data,
                    audit="finish",
                    artifacts=artifacts,
                )
                break
            except BrokerError as exc:
                log.warning("an end could not be stored yet", extra={"job": job.job_id, "code": exc.code})
                await asyncio.sleep(STORE_RETRY_SECONDS)
            except (IllegalTransition, KeyError) as exc:
                log.warning("an end came too late: %s", exc, extra={"job": job.job_id})
                return
        further = continuation_of(after)
        if further is not None:
            await self._store.insert(further, UNBOUNDED)
        if after.state is State.QUEUED and after.retry is not None:
            self._hold(after.job_id, float(after.retry["after_seconds"]))

    def _hold(self, job_id: str, seconds: float) -> None:
        def release() -> None:
            self._held.pop(job_id, None)
            self.wake()

        self._held[job_id] = asyncio.get_running_loop().call_later(seconds, release)

    async def _recover(self) -> None:
        """Join what the store says is live with what each backend knows of it."""
        everything = await self._store.live()
        for root in (job for job in everything if job.plan.get("root")):
            self._launch(root)
        live = [job for job in everything if not job.plan.get("root")]
        for name, backend in self._backends.items():
            mine = [job for job in live if job.backend == name]
            known = await backend.recover([self._run_of(job) for job in mine])
            for job in mine:
                update = known.get(job.token, RunUpdate(RunState.UNKNOWN))
                if update.state.final:
                    await self._settle_lost(job, update, backend)
                else:
                    self._launch(job, adopted=True)

    async def _settle_lost(self, job: Job, update: RunUpdate, backend: Backend) -> None:
        flight = Flight(job, self._run_of(job), backend)
        published = await self._follower.collect(flight, update)
        await self._finish(job, end_of(update, published, job), backend.tiers)
