"""Jobs, events and artifacts in the database. Each method is one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentloop.clock import Clock
from broker.errors import BrokerCode, BrokerError
from broker.jobs.audit import Auditor
from broker.jobs.database import Connection, Database, load_queries
from broker.jobs.model import Artifact, Event, Job, State
from broker.jobs.rows import (
    artifact_from_row,
    artifact_to_row,
    event_from_row,
    job_from_row,
    job_to_row,
    to_text,
)
from broker.metrics import FINISHED, JOB_SECONDS, SUBMITTED

Q = load_queries()
LAST = 1 << 62  # above any seq: the first page of a list


class StaleJob(Exception):
    """The job changed since it was read; read it again and decide anew."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Unfinished jobs that may be stored at once: of one namespace, and of all."""

    per_namespace: int
    total: int


@dataclass(frozen=True, slots=True)
class Filters:
    """What a list of jobs is narrowed to."""

    state: str | None = None
    task_type: str | None = None
    root_id: str | None = None


@dataclass(frozen=True, slots=True)
class _Change:
    """What is done to a job in one transaction: see `Store.change`."""

    step: Callable[[Job], Job]
    event: str
    data: Mapping[str, Any]
    audit: str
    actor: str
    artifacts: Sequence[Artifact] = ()


class Store:
    """The jobs of a broker. `listen` callbacks get the id of each job that a commit changed."""

    def __init__(self, database: Database, clock: Clock, auditor: Auditor) -> None:
        self._db = database
        self._clock = clock
        self._auditor = auditor
        self._listeners: list[Callable[[str], None]] = []
        self._live = 0

    def listen(self, callback: Callable[[str], None]) -> None:
        """Call `callback(job_id)` after each commit that changed a job."""
        self._listeners.append(callback)

    def _tell(self, job_id: str) -> None:
        for callback in self._listeners:
            callback(job_id)

    def now(self) -> float:
        """The wall clock, in seconds."""
        return self._clock.now().timestamp()

    async def insert(self, job: Job, limits: Limits) -> tuple[Job, bool]:
        """Store a new job, or find the one that has its idempotency key. Returns it and whether it is new.

        Raises:
            BrokerError: IDEMPOTENCY_CONFLICT, QUEUE_FULL, STORAGE_FULL, STORE_BUSY.
        """

        def work(db: Connection) -> tuple[Job, bool]:
            if job.idempotency_key is not None:
                key = {"namespace": job.namespace, "idempotency_key": job.idempotency_key}
                row = db.execute(Q["job_by_key"], key).fetchone()
                if row is not None:
                    return _same_request(job_from_row(row), job), False
            _within(db, job, limits)
            return self._insert_job(db, job), True

        stored, created = await self._db.write(work)
        if created:
            SUBMITTED.labels(stored.task_type).inc()
            self._tell(stored.job_id)
        return stored, created

    async def insert_children(self, root_id: str, jobs: Sequence[Job]) -> None:
        """Store the children of a root at once, but those that it has already.

        A root whose end was asked for gets none: a cancel reaches all of its children, whenever it comes.

        Raises:
            KeyError: there is no such root. BrokerError: STORAGE_FULL, STORE_BUSY.
        """

        def work(db: Connection) -> list[Job]:
            root = self._job(db, root_id)
            if root.cancel_requested or root.state.terminal:
                return []
            known = {row["job_id"] for row in db.execute(Q["children"], {"root_id": root_id})}
            return [self._insert_job(db, job) for job in jobs if job.job_id not in known]

        for stored in await self._db.write(work):
            SUBMITTED.labels(stored.task_type).inc()
            self._tell(stored.job_id)

    def _insert_job(self, db: Connection, job: Job) -> Job:
        seq = db.execute(Q["insert_job"], job_to_row(job)).lastrowid
        self._insert_event(db, job.job_id, "queued", {"task_type": job.task_type})
        self._auditor.append(db, job, "submit", {"request": job.request_hash})
        return job.evolve(seq=seq)

    @staticmethod
    def _job(db: Connection, job_id: str) -> Job:
        row = db.execute(Q["get_job"], {"job_id": job_id}).fetchone()
        if row is None:
            raise KeyError(job_id)
        return job_from_row(row)

    def _insert_event(self, db: Connection, job_id: str, kind: str, data: Mapping[str, Any]) -> None:
        db.execute(
            Q["insert_event"], {"job_id": job_id, "at": self.now(), "kind": kind, "data": to_text(dict(data))}
        )

    async def get(self, job_id: str) -> Job | None:
        """A job by id."""
        row = await self._db.read(lambda db: db.execute(Q["get_job"], {"job_id": job_id}).fetchone())
        return None if row is None else job_from_row(row)

    async def by_key(self, namespace: str, key: str) -> Job | None:
        """A job by its idempotency key."""
        values = {"namespace": namespace, "idempotency_key": key}
        row = await self._db.read(lambda db: db.execute(Q["job_by_key"], values).fetchone())
        return None if row is None else job_from_row(row)

    async def change(
        self,
        job_id: str,
        step: Callable[[Job], Job],
        *,
        event: str = "",
        data: Mapping[str, Any] | None = None,
        audit: str = "",
        actor: str = "broker",
        artifacts: Sequence[Artifact] = (),
    ) -> Job:
        """Replace a job by `step(job)` on the newest row, with its event and audit entry at once.

        The artifacts are stored when the step made the job succeed, and not else: a pack is visible
        exactly if its job succeeded.

        Raises:
            KeyError: there is no such job.
            IllegalTransition: `step` moved it where the table doesn't allow.
            BrokerError: STORAGE_FULL, STORE_BUSY.
        """

        def work(db: Connection) -> tuple[Job, Job]:
            change = _Change(step, event, data or {}, audit, actor, artifacts)
            return self._change(db, self._job(db, job_id), change)

        before, after = await self._db.write(work)
        self._changed(before, after)
        return after

    async def change_tree(
        self, job_id: str, step: Callable[[Job], Job], *, event: str, audit: str, actor: str
    ) -> list[Job]:
        """As `change`, of a job and all of its unfinished children in one transaction; the job is first.

        Raises:
            KeyError, IllegalTransition, BrokerError: as `change`.
        """

        def work(db: Connection) -> list[tuple[Job, Job]]:
            change = _Change(step, event, {}, audit, actor)
            rows = db.execute(Q["unfinished_children"], {"root_id": job_id}).fetchall()
            jobs = [self._job(db, job_id), *map(job_from_row, rows)]
            return [self._change(db, job, change) for job in jobs]

        changed = await self._db.write(work)
        for before, after in changed:
            self._changed(before, after)
        return [after for _, after in changed]

    def _change(self, db: Connection, before: Job, change: _Change) -> tuple[Job, Job]:
        """One job's change inside a transaction: the job before and after it."""
        after = change.step(before)
        if after is before:
            return before, before
        if db.execute(Q["update_job"], job_to_row(after)).rowcount != 1:
            raise StaleJob(before.job_id)
        for artifact in change.artifacts if after.state is State.SUCCEEDED else ():
            db.execute(Q["insert_artifact"], artifact_to_row(artifact))
        if change.event:
            facts = {"state": str(after.state), "attempt": after.attempt, **change.data}
            self._insert_event(db, after.job_id, change.event, facts)
        if change.audit:
            self._auditor.append(db, after, change.audit, dict(change.data), actor=change.actor)
        return before, after.evolve(version=before.version + 1)

    def _changed(self, before: Job, after: Job) -> None:
        """What follows a change that was committed."""
        if after.state.terminal and not before.state.terminal:
            FINISHED.labels(after.task_type, after.state).inc()
            JOB_SECONDS.labels(after.task_type).observe(max(0.0, after.updated_at - after.created_at))
        self._tell(after.job_id)

    async def add_event(self, job_id: str, kind: str, data: Mapping[str, Any]) -> None:
        """Append to a job's log."""
        await self._db.write(lambda db: self._insert_event(db, job_id, kind, data))
        self._tell(job_id)

    async def audit(
        self, namespace: str, principal: str, action: str, detail: Mapping[str, Any], job_id: str = ""
    ) -> None:
        """Append to the audit log what no job change carries: denials, releases."""
        await self._db.write(
            lambda db: self._auditor.record(db, namespace, principal, action, dict(detail), job_id=job_id)
        )

    async def claim_next(
        self,
        choose: Callable[[Sequence[str]], str | None],
        step: Callable[[Job], Job],
        held: Sequence[str] = (),
        full: Sequence[str] = (),
    ) -> Job | None:
        """Take the next queued job: interactive ones first, of the namespace that `choose` picks.

        `step` moves it to dispatching; the claim and its new attempt number are committed together.
        Jobs in `held` wait for their back-off, which is counted on the monotonic clock, not stored.
        Jobs of the backends in `full` wait for room there.
        """

        def work(db: Connection) -> Job | None:
            for priority in ("interactive", "background"):
                values = {
                    "priority": priority,
                    "held": json.dumps(list(held)),
                    "full": json.dumps(list(full)),
                }
                names = [row[0] for row in db.execute(Q["queued_namespaces"], values)]
                name = choose(sorted(names)) if names else None
                if name is None:
                    continue
                row = db.execute(Q["next_queued"], {**values, "namespace": name}).fetchone()
                after = step(job_from_row(row))
                if db.execute(Q["update_job"], job_to_row(after)).rowcount != 1:
                    raise StaleJob(after.job_id)
                self._insert_event(db, after.job_id, "dispatching", {"attempt": after.attempt})
                return after.evolve(version=after.version + 1)
            return None

        job = await self._db.write(work)
        if job is not None:
            self._tell(job.job_id)
        return job

    async def live(self) -> list[Job]:
        """Jobs that some backend may hold, oldest first."""
        rows = await self._db.read(lambda db: db.execute(Q["live_jobs"]).fetchall())
        return [job_from_row(row) for row in rows]

    async def counts(self) -> dict[tuple[str, str], int]:
        """Unfinished jobs by (namespace, state)."""
        rows = await self._db.read(lambda db: db.execute(Q["count_all_live"]).fetchall())
        return {(row[0], row[1]): row[2] for row in rows}

    async def page(self, namespace: str, filters: Filters, before: int, limit: int) -> list[Job]:
        """Jobs of a namespace below `before` in seq, newest first."""
        values = {
            "namespace": namespace,
            "before": before,
            "limit": limit,
            "state": filters.state,
            "task_type": filters.task_type,
            "root_id": filters.root_id,
        }
        rows = await self._db.read(lambda db: db.execute(Q["list_jobs"], values).fetchall())
        return [job_from_row(row) for row in rows]

    async def children(self, root_id: str) -> list[Job]:
        """The shards of a root, in order."""
        rows = await self._db.read(lambda db: db.execute(Q["children"], {"root_id": root_id}).fetchall())
        return [job_from_row(row) for row in rows]

    async def events(self, job_id: str, after: int = 0, limit: int = 1000) -> list[Event]:
        """A job's log above `after` in seq."""
        values = {"job_id": job_id, "after": after, "limit": limit}
        rows = await self._db.read(lambda db: db.execute(Q["events_after"], values).fetchall())
        return [event_from_row(row) for row in rows]

    async def artifact(self, namespace: str, artifact_id: str) -> Artifact | None:
        """A namespace's artifact by its id, or by the id that packs carry (the newest that has it)."""
        values = {"namespace": namespace, "id": artifact_id}
        row = await self._db.read(lambda db: db.execute(Q["get_artifact"], values).fetchone())
        return None if row is None else artifact_from_row(row)

    async def artifacts(self, job_id: str) -> list[Artifact]:
        """The artifacts of a job by name."""
        rows = await self._db.read(lambda db: db.execute(Q["job_artifacts"], {"job_id": job_id}).fetchall())
        return [artifact_from_row(row) for row in rows]

    async def expire(self, before: float, limit: int = 100) -> list[str]:
        """Delete jobs that finished before a time, with all their rows; returns their ids."""

        def work(db: Connection) -> list[str]:
            rows = db.execute(Q["expired_jobs"], {"before": before, "limit": limit}).fetchall()
            gone = []
            for row in rows:
                children = db.execute(Q["children"], {"root_id": row["job_id"]}).fetchall()
                db.execute(Q["delete_children"], {"job_id": row["job_id"]})
                db.execute(Q["delete_job"], {"job_id": row["job_id"]})
                gone += [child["job_id"] for child in children] + [row["job_id"]]
            return gone

        return await self._db.write(work)


def _same_request(stored: Job, asked: Job) -> Job:
    if stored.request_hash == asked.request_hash:
        return stored
    raise BrokerError(
        BrokerCode.IDEMPOTENCY_CONFLICT,
        "This idempotency_key was used for another request; use a new key, or send the same request.",
        details={"job_id": stored.job_id},
    )


def _within(db: Connection, job: Job, limits: Limits) -> None:
    """Raise QUEUE_FULL when one more unfinished job would pass a cap."""
    if job.root_id is not None:
        return  # shards are bounded by their root, which was counted
    mine, everybody = db.execute(Q["count_live"], {"namespace": job.namespace}).fetchone()
    if mine >= limits.per_namespace or everybody >= limits.total:
        raise BrokerError(
            BrokerCode.QUEUE_FULL,
            f"{mine} unfinished jobs wait in your namespace; wait for some to finish.",
            details={"unfinished": mine, "limit": limits.per_namespace},
            retry_after=5,
        )
