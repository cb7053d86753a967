"""One squeue a tick for all runs, one sacct for those that vanished from it.

A poll that fails is no information: the runs stay as they are and are told as `UNKNOWN`. A run that the
controller doesn't have is LOST only after several good polls without its token, and after accounting,
where there is any, has no row of its name either: an id alone proves nothing, for ids wrap.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from agentloop.clock import Clock
from broker.backends.base import BackendUnavailable, Run, RunState, RunUpdate
from broker.backends.slurm import parse, tools
from broker.backends.slurm.arrays import Place, job_name
from broker.backends.slurm.cancels import Cancels

log = logging.getLogger("broker.slurm")

ABSENT_POLLS = 5
"""Good polls without a run before it counts as lost: a hung controller may take a job late."""
ABSENT_SECONDS = 15.0
OWN_LIMITS = frozenset({"JobArrayTaskLimit", "Dependency"})
"""Reasons of ours to be pending: the bound of an array, the stage before. They say nothing of the tier."""
SACCT = ("sacct", "-X", "-n", "-P", "--duplicates", "-S", "now-7days")


@dataclass(slots=True)
class _Watched:
    run: Run
    place: Place
    backend_id: str
    updates: asyncio.Queue[RunUpdate] = field(default_factory=asyncio.Queue)
    last: RunUpdate | None = None
    restart: int = 0
    seen: bool = False
    pending: bool = False  # so it was when it was seen last
    absent: int = 0
    absent_since: float = 0.0
    pending_since: float | None = None

    @property
    def before(self) -> list[str]:
        """The names of the jobs that do the stages before this run's own."""
        return [job_name(replace(self.run, stage=step.stage)) for step in self.run.before]

    def tell(self, update: RunUpdate) -> None:
        """Queue an update that differs from the last one."""
        if update != self.last:
            self.last = update
            self.updates.put_nowait(update)


class Watcher:
    """Follows runs of one user on one or several clusters."""

    def __init__(
        self,
        env: Mapping[str, str],
        clock: Clock,
        seconds: float,
        start_seconds: float,
        place: Callable[[Run], Place],
    ) -> None:
        self._env = env
        self._place = place
        self._cancels = Cancels(env, seconds)
        self._clock = clock
        self._seconds = seconds
        self._start_seconds = start_seconds
        self._runs: dict[str, _Watched] = {}  # by token
        self._stopped: set[str] = (
            set()
        )  # tokens of runs whose end we asked for, also before they are followed
        self._task: asyncio.Task[None] | None = None
        self.polls = 0

    async def follow(self, run: Run, backend_id: str) -> AsyncIterator[RunUpdate]:
        """Updates of a run until a final one."""
        watched = self._runs.setdefault(run.token, _Watched(run, self._place(run), backend_id))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._forever(), name="squeue")
        try:
            while True:
                update = await watched.updates.get()
                yield update
                if update.state.final:
                    return
        finally:
            self._runs.pop(run.token, None)
            self._stopped.discard(run.token)

    async def close(self) -> None:
        """Stop polling; runs go on, but those that were to be cancelled."""
        await self._cancels.close()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def find(self, runs: Mapping[str, Run]) -> dict[str, RunUpdate]:
        """What is known of runs right now, by token; LOST for those that are certainly absent."""
        watched = {token: _Watched(run, self._place(run), run.backend_id) for token, run in runs.items()}
        for _ in range(ABSENT_POLLS):
            await self._tick(watched)
            if all(w.last is not None for w in watched.values()):
                break
            await asyncio.sleep(self._seconds)
        return {token: w.last or RunUpdate(RunState.UNKNOWN, w.backend_id) for token, w in watched.items()}

    async def _forever(self) -> None:
        while self._runs:
            try:
                await self._tick(self._runs)
            except BackendUnavailable as exc:
                self._unknown(self._runs.values(), str(exc))
            await asyncio.sleep(self._seconds)

    async def _tick(self, watched: Mapping[str, _Watched]) -> None:
        """One poll of each cluster that the runs are on."""
        clusters: dict[str, dict[str, _Watched]] = {}
        for token, one in list(watched.items()):
            cluster = one.backend_id.partition(";")[2]
            clusters.setdefault(cluster, {})[token] = one
        for cluster, members in clusters.items():
            await self._poll(cluster, members)

    async def _poll(self, cluster: str, members: Mapping[str, _Watched]) -> None:
        where = ["-M", cluster] if cluster else []
        self.polls += 1
        argv = ["squeue", "--me", "-h", "-r", "-t", "all", "-O", parse.SQUEUE_FORMAT, *where]
        answer = await tools.call(argv, self._env)
        if answer.status != 0 or "error:" in answer.err:
            log.warning("squeue gave no answer", extra={"reason": answer.err.strip()[:200]})
            self._unknown(members.values(), "squeue gave no answer")
            return
        listed = list(parse.queue_rows(answer.out))
        if answer.out.strip() and not listed and not answer.out.startswith("CLUSTER:"):
            self._unknown(members.values(), "squeue printed what is no list of jobs")
            return
        rows = {Place(row.name, row.index): row for row in listed}
        running = {row.array for row in listed if row.state == "RUNNING"}
        vanished = []
        for one in list(members.values()):
            row = rows.get(one.place)
            if row is None:
                vanished.append(one)
                continue
            earlier = [rows[Place(name)] for name in one.before if Place(name) in rows]
            await self._present(one, row, cluster, earlier, row.array in running)
        if vanished:
            await self._account(vanished, where, {row.array for row in listed})

    async def _present(
        self, one: _Watched, row: parse.Row, cluster: str, earlier: Iterable[parse.Row], moving: bool
    ) -> None:
        """A run that squeue shows. `moving`: the tier runs tasks of the same array."""
        one.seen, one.absent, one.pending = True, 0, row.state == "PENDING"
        one.backend_id = f"{row.job_id};{cluster}" if cluster else row.job_id
        one.restart = max(one.restart, row.restart)
        update = _of_stages(parse.update_of(row, one.backend_id, one.restart), earlier)
        if update.state is not RunState.PENDING or moving or row.reason in OWN_LIMITS:
            one.pending_since = None
        else:
            now = self._clock.monotonic()
            one.pending_since = now if one.pending_since is None else one.pending_since
            if now - one.pending_since > self._start_seconds:
                await self.stop(one.run, one.backend_id)
                update = replace(update, state=RunState.NOT_STARTED, reason=row.reason)
        one.tell(update)

    async def _account(self, vanished: Iterable[_Watched], where: list[str], arrays: set[str]) -> None:
        """The vanished by accounting: rows of their own names, the newest of each."""
        vanished = list(vanished)
        names = dict.fromkeys(name for one in vanished for name in (one.place.name, *one.before))
        argv = [*SACCT, f"--name={','.join(names)}", "-o", parse.SACCT_FIELDS, *where]
        answer = await tools.call(argv, self._env)
        disabled = "accounting storage is disabled" in answer.err
        if answer.status != 0 and not disabled:
            self._unknown(vanished, "sacct gave no answer")
            return
        known: dict[Place, list[parse.Row]] = {}
        for row in parse.account_rows(answer.out) if not disabled else ():
            known.setdefault(Place(row.name, row.index), []).append(row)
        for one in vanished:
            rows = known.get(one.place, [])
            if rows:
                one.restart = max(one.restart, len(rows) - 1)
                one.backend_id = one.backend_id or rows[-1].job_id
                earlier = [known[Place(name)][-1] for name in one.before if Place(name) in known]
                one.tell(_of_stages(parse.update_of(rows[-1], one.backend_id, one.restart), earlier))
            else:
                self._absent(one, arrays)

    def _absent(self, one: _Watched, arrays: set[str]) -> None:
        """Count good polls without a run; after enough of them over enough time it is lost.

        A run that we stopped and that is gone was cancelled. So was a task that was pending, while the
        controller knows others of its array: Slurm keeps no record of tasks that never ran.
        """
        now = self._clock.monotonic()
        one.absent_since = now if not one.absent else one.absent_since
        one.absent += 1
        enough = min(ABSENT_SECONDS, (ABSENT_POLLS - 1) * self._seconds)
        if one.absent < ABSENT_POLLS or now - one.absent_since < enough:
            return
        job, _, index = one.backend_id.partition(";")[0].partition("_")
        if one.run.token in self._stopped or (index and job in arrays and one.pending):
            state, reason = RunState.CANCELLED, "cancelled before it ran"
        else:
            state = RunState.LOST
            reason = "the controller has no such job any more" if one.seen else "the controller never had it"
        one.tell(RunUpdate(state, one.backend_id, reason=reason, restart=one.restart))

    def _unknown(self, members: Iterable[_Watched], reason: str) -> None:
        for one in list(members):
            one.absent = 0
            one.tell(RunUpdate(RunState.UNKNOWN, one.backend_id, reason=reason, restart=one.restart))

    async def stop(self, run: Run, backend_id: str) -> None:
        """Cancel a run by its id, or by its name while the id is not known; with it the stages before."""
        self._stopped.add(run.token)
        job, _, cluster = backend_id.partition(";")
        where = ["-M", cluster] if cluster else []
        place = self._place(run)
        if place.index is not None and not job:
            job = await self._task_id(place, where)
            if not job:
                return
        self._cancels.ask(cluster, job=job, name="" if job else place.name)
        for step in run.before:
            self._cancels.ask(cluster, name=job_name(replace(run, stage=step.stage)))

    async def _task_id(self, place: Place, where: list[str]) -> str:
        """The id of an array's task, empty while the controller doesn't show it."""
        argv = ["squeue", "--me", "-h", "-r", f"--name={place.name}", "-O", parse.SQUEUE_FORMAT, *where]
        answer = await tools.call(argv, self._env)
        found = [row.job_id for row in parse.queue_rows(answer.out) if row.index == place.index]
        return found[0] if found else ""


def _of_stages(update: RunUpdate, earlier: Iterable[parse.Row]) -> RunUpdate:
    """What a run's own job and the jobs of the stages before it say together.

    While it waits for them, the run goes on as they do; when one of them failed, so did the run.
    """
    for row in earlier:
        before = parse.update_of(row, update.backend_id, 0)
        if update.state in (RunState.PENDING, RunState.REQUEUED) and before.state is RunState.RUNNING:
            return replace(update, state=RunState.RUNNING, node=before.node, reason="")
        if (
            before.state.final
            and before.exit_code != 0
            and update.state
            in (
                RunState.KILLED,
                RunState.CANCELLED,
            )
        ):
            return replace(before, restart=update.restart)
    return update
