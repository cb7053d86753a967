"""Roots in the store and the dispatcher: children made and cancelled at once, whenever the cancel comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.jobs.audit import Auditor
from broker.jobs.model import Job, State
from broker.jobs.roots import child_of
from broker.jobs.store import Store
from tests.fakes.broker_parts import PLENTY, HeldClock, job, stored
from tests.unit.dispatch_case import bench, succeed

SHARDS = 300


def called_off(found: Job) -> Job:
    if found.state is State.QUEUED:
        return found.move(State.CANCELLED, 9.0, cancel_requested=True)
    return found if found.state.terminal else found.evolve(cancel_requested=True, updated_at=9.0)


async def root_of(store: Store, state: State = State.RUNNING, shards: int = SHARDS) -> Job:
    """A root that runs, with queued children."""
    made, _ = await store.insert(job(plan={"root": True}, request={"input_refs": [{}]}), PLENTY)
    root = await store.change(made.job_id, lambda j: j.move(State.DISPATCHING, 1.0, attempt=1, token="r"))
    if state is not State.DISPATCHING:
        root = await store.change(root.job_id, lambda j: j.move(state, 2.0))
    await store.insert_children(root.job_id, [child_of(root, n, (), shards) for n in range(shards)])
    return root


@pytest.mark.req("F11")
async def test_a_root_and_its_children_are_cancelled_in_one_transaction(tmp_path: Path) -> None:
    clock = HeldClock()
    async with stored(tmp_path, clock) as (store, database):
        root = await root_of(store)
        ended = await store.change(f"{root.job_id}-0007", lambda j: j.move(State.FAILED, 3.0))
        running = f"{root.job_id}-0009"
        await store.change(running, lambda j: j.move(State.DISPATCHING, 3.0, attempt=1))
        statements: list[str] = []
        await database.write(lambda db: db.set_trace_callback(statements.append))
        jobs = await store.change_tree(root.job_id, called_off, event="cancel", audit="cancel", actor="me")
        assert statements.count("BEGIN IMMEDIATE") == 1
        await database.write(lambda db: db.set_trace_callback(None))
        assert [found.job_id for found in jobs][:2] == [root.job_id, f"{root.job_id}-0000"]
        assert {found.job_id for found in jobs if not found.state.terminal} == {root.job_id, running}
        children = await store.children(root.job_id)
        assert [c.state for c in children].count(State.CANCELLED) == SHARDS - 2
        assert await store.get(ended.job_id) == ended.evolve(seq=children[7].seq)
        assert [e.kind for e in await store.events(f"{root.job_id}-0000")] == ["queued", "cancel"]
        again = await store.change_tree(root.job_id, called_off, event="cancel", audit="cancel", actor="me")
        assert {found.job_id for found in again} == {root.job_id, running}
        assert (await database.read(Auditor(b"k" * 32, clock).verify)).intact


async def test_a_root_that_was_called_off_gets_no_more_children(tmp_path: Path) -> None:
    async with stored(tmp_path) as (store, _):
        root = await root_of(store, shards=3)
        more = [child_of(root, number, (), 5) for number in range(5)]
        await store.insert_children(root.job_id, more)  # made again after a kill: those that it lacks
        assert [c.shard for c in await store.children(root.job_id)] == [0, 1, 2, 3, 4]
        await store.change_tree(root.job_id, called_off, event="cancel", audit="cancel", actor="me")
        await store.insert_children(root.job_id, [child_of(root, 5, (), 6)])
        assert len(await store.children(root.job_id)) == 5


@pytest.mark.req("G5")
async def test_a_root_that_is_cancelled_before_it_is_split_ends_without_a_child(tmp_path: Path) -> None:
    async with bench(tmp_path, succeed, start=False) as b:
        made = await b.put(plan={"root": True})
        await b.store.change(made.job_id, lambda j: j.move(State.DISPATCHING, 1.0, attempt=1, token="r"))
        await b.store.change_tree(made.job_id, called_off, event="cancel", audit="cancel", actor="me")
        await b.dispatcher.start()  # as after a kill between the claim and the split
        assert (await b.ended(made.job_id)).state is State.CANCELLED
        assert await b.store.children(made.job_id) == []
