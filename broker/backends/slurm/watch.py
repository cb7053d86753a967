"""One squeue a tick for all runs, one sacct for those that vanished from it.

A poll that fails is no information: the runs stay as they are and are told as `UNKNOWN`. A run that the
controller doesn't have is LOST only after several good polls without its token, and after accounting,
where there is any, has no row of its name either: an id alone proves nothing, for ids wrap.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from agentloop.clock import Clock
from broker.backends.base import BackendUnavailable, Run, RunState, RunUpdate
from broker.backends.slurm import parse, tools

log = logging.getLogger("broker.slurm")

ABSENT_POLLS = 5
"""Good polls without a run before it counts as lost: a hung controller may take a job late."""
ABSENT_SECONDS = 15.0
SACCT = ("sacct", "-X", "-n", "-P", "--duplicates", "-S", "now-7days")


@dataclass(slots=True)
class _Watched:
    run: Run
    backend_id: str
    updates: asyncio.Queue[RunUpdate] = field(default_factory=asyncio.Queue)
    last: RunUpdate | None = None
    restart: int = 0
    seen: bool = False
    absent: int = 0
    absent_since: float = 0.0
    pending_since: float | None = None

    def tell(self, update: RunUpdate) -> None:
        """Queue an update that differs from the last one."""
        if update != self.last:
            self.last = update
            self.updates.put_nowait(update)


class Watcher:
    """Follows runs of one user on one or several clusters."""

    def __init__(self, env: Mapping[str, str], clock: Clock, seconds: float, start_seconds: float) -> None:
        self._env = env
        self._clock = clock
        self._seconds = seconds
        self._start_seconds = start_seconds
        self._runs: dict[str, _Watched] = {}  # by token
        self._task: asyncio.Task[None] | None = None
        self.polls = 0

    async def follow(self, run: Run, backend_id: str) -> AsyncIterator[RunUpdate]:
        """Updates of a run until a final one."""
        watched = self._runs.setdefault(run.token, _Watched(run, backend_id))
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

    async def close(self) -> None:
        """Stop polling; runs go on."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def find(self, runs: Mapping[str, Run]) -> dict[str, RunUpdate]:
        """What is known of runs right now, by token; LOST for those that are certainly absent."""
        watched = {token: _Watched(run, run.backend_id) for token, run in runs.items()}
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
                self._unknown(self._runs, str(exc))
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
        answer = await tools.call(
            ["squeue", "-h", "-r", "-t", "all", "-o", parse.SQUEUE_FORMAT, *where], self._env
        )
        if answer.status != 0 or "error:" in answer.err:
            log.warning("squeue gave no answer", extra={"reason": answer.err.strip()[:200]})
            self._unknown(members, "squeue gave no answer")
            return
        listed = list(parse.queue_rows(answer.out))
        if answer.out.strip() and not listed:
            self._unknown(members, "squeue printed what is no list of jobs")
            return
        rows = {_token(row.name): row for row in listed if _token(row.name) in members}
        for token, row in rows.items():
            await self._present(members[token], row, cluster)
        vanished = {token: one for token, one in members.items() if token not in rows}
        if vanished:
            await self._account(vanished, where)

    async def _present(self, one: _Watched, row: parse.Row, cluster: str) -> None:
        one.seen, one.absent = True, 0
        one.backend_id = f"{row.job_id};{cluster}" if cluster else row.job_id
        state = parse.STATES.get(row.state, RunState.UNKNOWN)
        if (state is RunState.PENDING and (row.reason == "BeginTime" or one.restart)) or (
            state is RunState.RUNNING and (one.last is None or one.last.state is not RunState.RUNNING)
        ):
            one.restart = await self._restarts(one.backend_id, one.restart)
        update = parse.update_of(row, one.backend_id, one.restart)
        if update.state is RunState.PENDING:
            now = self._clock.monotonic()
            one.pending_since = now if one.pending_since is None else one.pending_since
            if now - one.pending_since > self._start_seconds:
                await self.stop(one.run, one.backend_id)
                update = RunUpdate(
                    RunState.NOT_STARTED, one.backend_id, reason=row.reason, restart=one.restart
                )
        else:
            one.pending_since = None
        one.tell(update)

    async def _restarts(self, backend_id: str, known: int) -> int:
        """How often Slurm requeued a job, which squeue's short format can't say."""
        job, _, cluster = backend_id.partition(";")
        where = ["-M", cluster] if cluster else []
        answer = await tools.call(["scontrol", "-o", "show", "job", job, *where], self._env)
        found = [word for word in answer.out.split() if word.startswith("Restarts=")]
        count = found[0].removeprefix("Restarts=") if found else ""
        return max(known, int(count)) if count.isdecimal() else known

    async def _account(self, vanished: Mapping[str, _Watched], where: list[str]) -> None:
        """The vanished by accounting: rows of their own names, the newest of each."""
        names = ",".join(job_name(one.run) for one in vanished.values())
        answer = await tools.call(
            [*SACCT, f"--name={names}", "-o", parse.SACCT_FIELDS, *where],
            self._env,
        )
        disabled = "accounting storage is disabled" in answer.err
        if answer.status != 0 and not disabled:
            self._unknown(vanished, "sacct gave no answer")
            return
        newest: dict[str, list[parse.Row]] = {}
        for row in parse.account_rows(answer.out) if not disabled else ():
            newest.setdefault(_token(row.name), []).append(row)
        for token, one in vanished.items():
            rows = newest.get(token, [])
            if rows:
                one.restart = max(one.restart, len(rows) - 1)
                one.backend_id = one.backend_id or rows[-1].job_id
                one.tell(parse.update_of(rows[-1], one.backend_id, one.restart))
            else:
                self._absent(one)

    def _absent(self, one: _Watched) -> None:
        """Count good polls without a run; after enough of them over enough time it is lost."""
        now = self._clock.monotonic()
        one.absent_since = now if not one.absent else one.absent_since
        one.absent += 1
        if one.absent >= ABSENT_POLLS and now - one.absent_since >= min(
            ABSENT_SECONDS, (ABSENT_POLLS - 1) * self._seconds
        ):
            reason = "the controller has no such job any more" if one.seen else "the controller never had it"
            one.tell(RunUpdate(RunState.LOST, one.backend_id, reason=reason, restart=one.restart))

    def _unknown(self, members: Mapping[str, _Watched], reason: str) -> None:
        for one in members.values():
            one.absent = 0
            one.tell(RunUpdate(RunState.UNKNOWN, one.backend_id, reason=reason, restart=one.restart))

    async def stop(self, run: Run, backend_id: str) -> None:
        """Cancel a run by its id, or by its name while the id is not known."""
        job, _, cluster = backend_id.partition(";")
        where = ["-M", cluster] if cluster else []
        target = [job] if job else [f"--name={job_name(run)}"]
        answer = await tools.call(["scancel", *where, *target], self._env)
        if answer.status != 0:
            log.warning("scancel failed", extra={"job": run.job_id, "reason": answer.err.strip()[:200]})


def job_name(run: Run) -> str:
    """`broker-{task_type}-{stage}-{token}`: words of ours only, so that nothing needs quoting."""
    return f"broker-{run.task_type}-{run.stage}-{run.token}"


def _token(name: str) -> str:
    return name.rpartition("-")[2] if name.startswith("broker-") else ""
