"""The job store on a real SQLite file: transactions, idempotency, quotas, claims, refusals, migrations."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path

import pytest

from broker.errors import BrokerCode, BrokerError
from broker.jobs.database import Connection, StoreError, check, load_queries, migrations, opened
from broker.jobs.model import TERMINAL, TRANSITIONS, IllegalTransition, Job, State, new_id
from broker.jobs.store import LAST, Filters, Limits
from tests.fakes.broker_parts import PLENTY, HeldClock, job, stored

OLD = Path(__file__).parent / "data" / "broker_schema_1.sql"


def dispatching(found: Job) -> Job:
    return found.move(State.DISPATCHING, 2.0, attempt=found.attempt + 1, token="t")


def test_the_transition_table_has_no_way_out_of_an_end() -> None:
    assert {s for s in State if s.terminal} == TERMINAL
    for state in State:
        for target in State:
            found = job(state=state)
            if target in TRANSITIONS[state]:
                assert found.move(target, 5.0).state is target
            else:
                with pytest.raises(IllegalTransition):
                    found.move(target, 5.0)
    with pytest.raises(IllegalTransition):
        job().evolve(state=State.RUNNING)


def test_ids_sort_by_time_and_differ() -> None:
    ids = [new_id("job") for _ in range(200)]
    assert len(set(ids)) == 200
    assert all(found.startswith("job_01") and len(found) == 30 for found in ids)


async def test_a_job_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    async with stored(tmp_path) as (store, _):
        put = job(plan={"a": [1]}, warnings=({"code": "X"},), cache={"status": "miss"}, mode="single_shot")
        made, created = await store.insert(put, PLENTY)
        assert created
        assert await store.get(put.job_id) == made
        assert made.evolve(seq=0) == put.evolve(seq=0)


@pytest.mark.req("F2")
async def test_fifty_submits_with_one_key_make_one_job(tmp_path: Path) -> None:
    async with stored(tmp_path) as (store, _):
        outcomes = await asyncio.gather(*(store.insert(job(idempotency_key="k"), PLENTY) for _ in range(50)))
        assert len({found.job_id for found, _ in outcomes}) == 1
        assert sum(created for _, created in outcomes) == 1
        with pytest.raises(BrokerError) as refusal:
            await store.insert(job(idempotency_key="k", request_hash="other"), PLENTY)
        assert refusal.value.code is BrokerCode.IDEMPOTENCY_CONFLICT
        _, created = await store.insert(job("elsewhere", idempotency_key="k"), PLENTY)
        assert created


@pytest.mark.req("F11")
async def test_a_namespace_is_refused_past_its_cap_and_others_are_not(tmp_path: Path) -> None:
    async with stored(tmp_path) as (store, _):
        limits = Limits(per_namespace=3, total=5)
        for _ in range(3):
            await store.insert(job("loud"), limits)
        with pytest.raises(BrokerError) as refusal:
            await store.insert(job("loud"), limits)
        assert refusal.value.code is BrokerCode.QUEUE_FULL
        assert refusal.value.retry_after is not None
        await store.insert(job("calm"), limits)
        await store.insert(job("calm"), limits)
        with pytest.raises(BrokerError):
            await store.insert(job("third"), limits)


async def test_claims_follow_priority_the_chosen_namespace_and_age(tmp_path: Path) -> None:
    async with stored(tmp_path) as (store, _):
        put = [
            job("a", priority="background"),
            job("a"),
            job("b"),
            job("a"),
        ]
        for one in put:
            await store.insert(one, PLENTY)
        seen: list[list[str]] = []

        def choose(names: list[str]) -> str:  # the last by name
            seen.append(list(names))
            return names[-1]

        order = [await store.claim_next(choose, dispatching) for _ in range(5)]  # type: ignore[arg-type]
        ids = [None if one is None else one.job_id for one in order]
        assert ids == [put[2].job_id, put[1].job_id, put[3].job_id, put[0].job_id, None]
        assert seen[0] == ["a", "b"]


async def test_held_jobs_are_passed_over(tmp_path: Path) -> None:
    async with stored(tmp_path) as (store, _):
        first, second = job(), job()
        await store.insert(first, PLENTY)
        await store.insert(second, PLENTY)
        claimed = await store.claim_next(lambda names: names[0], dispatching, (first.job_id,))
        assert claimed is not None
        assert claimed.job_id == second.job_id


@pytest.mark.req("A9")
async def test_every_write_begins_immediate(tmp_path: Path) -> None:
    async with stored(tmp_path) as (store, database):
        seen: list[str] = []
        await database.write(lambda db: db.set_trace_callback(seen.append))
        made, _ = await store.insert(job(), PLENTY)
        await store.claim_next(lambda names: names[0], dispatching)
        await store.change(made.job_id, lambda j: j.evolve(stage="x"), event="e", audit="a")
        await store.add_event(made.job_id, "e", {})
        begins = [sql for sql in seen if sql.upper().startswith("BEGIN")]
        assert len(begins) == 4
        assert set(begins) == {"BEGIN IMMEDIATE"}
        writes = [sql for sql in seen if sql.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE"))]
        assert writes
        # nothing writes before the first BEGIN: no statement ran in a transaction of its own
        assert seen.index(begins[0]) < seen.index(writes[0])

        def forbidden(db: Connection) -> None:
            db.execute(load_queries()["set_meta"], {"name": "x", "value": "y"})

        with pytest.raises(BrokerError):
            await database.read(forbidden)


@pytest.mark.req("A12")
async def test_a_caller_that_goes_away_leaves_a_whole_write_or_none(tmp_path: Path) -> None:
    async with stored(tmp_path) as (store, _):
        tasks = [asyncio.create_task(store.insert(job(), PLENTY)) for _ in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        page = await store.page("local", Filters(), LAST, 100)
        for found in page:
            events = await store.events(found.job_id)
            assert [event.kind for event in events] == ["queued"]
        assert len(page) >= 10
        await store.insert(job(), PLENTY)  # the connection is as good as new


@pytest.mark.req("A8")
async def test_a_locked_database_is_waited_for_then_refused(tmp_path: Path) -> None:
    async with stored(tmp_path) as (store, _):
        other = sqlite3.connect(tmp_path / "broker.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        put = job()
        with pytest.raises(BrokerError) as refusal:
            await store.insert(put, PLENTY)
        assert refusal.value.code is BrokerCode.STORE_BUSY
        assert refusal.value.retry_after is not None
        other.execute("ROLLBACK")
        other.close()
        assert await store.get(put.job_id) is None
        _, created = await store.insert(put, PLENTY)
        assert created


@pytest.mark.req("A6")
async def test_a_full_disk_refuses_the_submit_stores_nothing_and_recovers(tmp_path: Path) -> None:
    async with stored(tmp_path) as (store, database):
        pages = await database.write(lambda db: db.execute("PRAGMA page_count").fetchone()[0])
        await database.write(lambda db: db.execute(f"PRAGMA max_page_count={pages}").fetchone())
        big = {"query": "x" * 200_000, "constraints": {"max_runtime_seconds": 1}}
        put = job(request=big)
        with pytest.raises(BrokerError) as refusal:
            await store.insert(put, PLENTY)
        assert refusal.value.code is BrokerCode.STORAGE_FULL
        assert await store.get(put.job_id) is None
        await database.write(lambda db: db.execute("PRAGMA max_page_count=1000000").fetchone())
        _, created = await store.insert(put, PLENTY)
        assert created
        found = await database.read(lambda db: db.execute("PRAGMA integrity_check").fetchone()[0])
        assert found == "ok"


@pytest.mark.req("A10")
async def test_a_corrupt_or_newer_database_is_refused_by_name_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    async with stored(tmp_path) as (store, _):
        for _ in range(50):
            await store.insert(job(request={"query": "y" * 3000, "constraints": {}}), PLENTY)
    whole = path.read_bytes()
    newer = bytearray(whole)
    newer[60:64] = (len(migrations()) + 1).to_bytes(4, "big")
    torn = bytearray(whole)
    torn[4096 * 3 : 4096 * 12] = b"\xa5" * (4096 * 9)
    for damaged in (bytes(newer), b"not a database at all" * 300, bytes(torn)):
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match=r"broker\.db"):
            async with opened(path, 100):
                pass
        assert path.read_bytes() == damaged


async def test_a_database_of_the_first_release_opens_and_reads_right(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    old = sqlite3.connect(path)
    old.executescript(OLD.read_text())
    old.close()
    assert check(path) == 1
    async with stored(tmp_path) as (store, database):
        found = await store.get("job_01KW0000000000000000000000")
        assert found is not None
        assert (found.mode, found.tool_calls, found.state) == ("agentic", None, State.SUCCEEDED)
        assert found.warnings == ({"code": "LOW_COVERAGE", "message": "m", "stage": "retrieval"},)
        queued = await store.claim_next(lambda names: names[0], dispatching)
        assert queued is not None
        assert queued.job_id == "job_01KW0000000000000000000001"
        assert [event.kind for event in await store.events(found.job_id)] == ["queued", "attempt_ended"]
        clean = await database.read(lambda db: db.execute("PRAGMA foreign_key_check").fetchall())
        assert clean == []
    assert check(path) == len(migrations())
    assert check(tmp_path / "broker.db.v1.bak") == 1


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="needs the sqlite3 shell")
async def test_the_shell_reads_a_sound_file(tmp_path: Path) -> None:
    async with stored(tmp_path) as (store, _):
        await store.insert(job(), PLENTY)
        process = await asyncio.create_subprocess_exec(
            "sqlite3",
            str(tmp_path / "broker.db"),
            "PRAGMA integrity_check; SELECT count(*) FROM jobs; SELECT count(*) FROM audit;",
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        assert out.decode().split() == ["ok", "1", "1"]


@pytest.mark.req("A11")
async def test_a_clock_that_jumps_expires_nothing_and_keeps_the_order(tmp_path: Path) -> None:
    clock = HeldClock()
    async with stored(tmp_path, clock) as (store, _):
        first, _ = await store.insert(job(), PLENTY)
        clock.jump(-1)
        second, _ = await store.insert(job(), PLENTY)
        clock.jump(2)
        claimed = [await store.claim_next(lambda names: names[0], dispatching) for _ in range(2)]
        assert [one.job_id for one in claimed if one] == [first.job_id, second.job_id]
        done = await store.change(first.job_id, lambda j: j.move(State.FAILED, store.now()))
        assert done.finished_at is not None
        clock.jump(1)
        assert await store.expire(store.now() - 30 * 86_400) == []
        assert await store.expire(store.now() + 1) == [first.job_id]


async def test_pages_are_newest_first_and_filtered(tmp_path: Path) -> None:
    async with stored(tmp_path) as (store, _):
        made = [(await store.insert(job(task_type=kind), PLENTY))[0] for kind in "aab"]
        page = await store.page("local", Filters(), LAST, 2)
        assert [one.job_id for one in page] == [made[2].job_id, made[1].job_id]
        rest = await store.page("local", Filters(task_type="a"), page[-1].seq, 5)
        assert [one.job_id for one in rest] == [made[0].job_id]
        assert await store.page("other", Filters(), LAST, 5) == []
