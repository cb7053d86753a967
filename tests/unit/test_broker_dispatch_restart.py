"""Dispatch: recovery, draining, fair turns, and backends or run directories that are not as they were."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentloop.rundir import RunDir
from broker.backends.base import Run, RunState, RunUpdate
from broker.jobs.model import Job, State
from broker.jobs.prepare import Preparer
from tests.fakes.broker_parts import PLENTY, ScriptedBackend, job, publish_pack
from tests.unit.dispatch_case import bench, succeed


@pytest.mark.req("A5")
async def test_a_restart_adopts_what_published_and_reruns_what_did_not(tmp_path: Path) -> None:
    async def hang(run: Run) -> AsyncIterator[RunUpdate]:
        yield RunUpdate(RunState.RUNNING)
        await asyncio.Event().wait()

    async with bench(tmp_path, hang) as b:
        published, lost = await b.put(), await b.put()
        for one in (published, lost):
            await b.ended(one.job_id, State.RUNNING)
        publish_pack(next(run for run in b.backend.submitted if run.job_id == published.job_id))
    # the dispatcher is gone with both jobs on record as running
    async with bench(tmp_path, succeed) as b:
        adopted = await b.ended(published.job_id)
        assert (adopted.state, adopted.attempt) == (State.SUCCEEDED, 1)
        again = await b.ended(lost.job_id)
        assert (again.state, again.attempt, again.failures) == (State.SUCCEEDED, 2, 0)
        assert [run.job_id for run in b.backend.submitted] == [lost.job_id]


@pytest.mark.req("A13")
async def test_draining_claims_no_more_and_leaves_surviving_runs(tmp_path: Path) -> None:
    async def hang(run: Run) -> AsyncIterator[RunUpdate]:
        yield RunUpdate(RunState.RUNNING)
        await asyncio.Event().wait()

    async with bench(tmp_path, hang, survives_broker=True, capacity=1) as b:
        first = await b.put()
        await b.ended(first.job_id, State.RUNNING)
        second = await b.put()
        await b.dispatcher.drain(5)
        assert len(b.backend.submitted) == 1
        for one, state in ((first, State.RUNNING), (second, State.QUEUED)):
            found = await b.store.get(one.job_id)
            assert found is not None
            assert found.state is state
        token = b.backend.submitted[0].token
    async with bench(tmp_path, succeed, start=False) as b:
        b.backend.known[token] = RunUpdate(RunState.RUNNING)
        await b.dispatcher.start()
        assert (await b.ended(first.job_id)).state is State.SUCCEEDED
        assert token not in {run.token for run in b.backend.submitted}


@pytest.mark.req("F11")
async def test_turns_are_fair_when_one_namespace_floods(tmp_path: Path) -> None:
    async with bench(tmp_path, succeed, start=False, capacity=1) as b:
        for _ in range(8):
            await b.put("loud")
        calm = [await b.put("calm") for _ in range(2)]
        await b.dispatcher.start()
        for one in calm:
            await b.ended(one.job_id)
        order = [run.namespace for run in b.backend.submitted]
        assert order.index("calm") <= 1
        assert list(order[:4]).count("calm") == 2


@pytest.mark.req("F12")
async def test_what_another_wrote_into_a_run_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.json").write_text("{}")

    async def script(run: Run) -> AsyncIterator[RunUpdate]:
        yield RunUpdate(RunState.RUNNING)
        publish_pack(run)
        attempt = run.run_dir / "attempts" / run.label
        if "link" in str(kind):
            (attempt / "result.json").unlink()
            (attempt / "result.json").symlink_to(tmp_path / "elsewhere.json")
        else:
            (attempt / "artifacts" / "evidence_pack.json").write_text("{}")
        yield RunUpdate(RunState.EXITED, exit_code=0)

    for kind in ("link", "foreign"):
        folder = tmp_path / kind
        folder.mkdir()
        async with bench(folder, script) as b:
            done = await b.ended((await b.put()).job_id)
            assert done.state is State.FAILED
            assert done.error is not None
            assert done.error["code"] == "RAG_SCHEMA_INVALID"
            assert await b.store.artifacts(done.job_id) == []


async def test_a_revoked_grant_or_root_stops_a_queued_job(tmp_path: Path) -> None:
    async with bench(tmp_path, succeed) as b:
        outside = job(
            request={
                "query": "q",
                "input_refs": [{"type": "file", "uri": "/etc/hostname"}],
                "constraints": {"max_runtime_seconds": 1},
            }
        )
        made, _ = await b.store.insert(outside, PLENTY)
        done = await b.ended(made.job_id)
        assert done.state is State.FAILED
        assert done.error is not None
        assert done.error["code"] == "INPUT_DISCOVERY_FAILED"
        assert b.backend.submitted == []


async def test_a_cancel_before_the_backend_has_the_run_still_reaches_it(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def script(run: Run) -> AsyncIterator[RunUpdate]:
        await go.wait()
        yield RunUpdate(RunState.RUNNING)
        await b.backend.cancelled[run.token].wait()
        yield RunUpdate(RunState.CANCELLED)

    async with bench(tmp_path, script) as b:
        made = await b.put()
        await b.ended(made.job_id, State.DISPATCHING)
        await b.store.change(made.job_id, lambda j: j.evolve(cancel_requested=True))
        go.set()
        assert (await b.ended(made.job_id)).state is State.CANCELLED


async def test_a_worker_that_never_beats_is_stopped_and_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.jobs.follow.LOOK_SECONDS", 0.01)
    monkeypatch.setattr("broker.jobs.outcome.retry_delay", lambda failures: 0.0)

    async def script(run: Run) -> AsyncIterator[RunUpdate]:
        yield RunUpdate(RunState.RUNNING)
        if run.label == "1":
            await b.backend.cancelled[run.token].wait()
            yield RunUpdate(RunState.CANCELLED)
        else:
            publish_pack(run)
            yield RunUpdate(RunState.EXITED, exit_code=0)

    async with bench(tmp_path, script) as b:
        made = await b.put()
        await b.ended(made.job_id, State.RUNNING)
        for _ in range(200):  # the clock is held: time passes only here
            b.clock.mono += 10
            await asyncio.sleep(0.01)
            found = await b.store.get(made.job_id)
            assert found is not None
            if found.state.terminal:
                break
        assert (found.state, found.attempt, found.failures) == (State.SUCCEEDED, 2, 1)


async def test_work_of_a_warm_host_is_told_before_its_run_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.jobs.follow.LOOK_SECONDS", 0.01)
    monkeypatch.setattr("broker.jobs.follow.WAITING_LOOK_SECONDS", 3600.0)
    told = asyncio.Event()

    async def script(run: Run) -> AsyncIterator[RunUpdate]:
        beat = {"ts": "1", "stage": "chunking", "percent": 20.0, "metrics": {}}
        attempt = RunDir(run.run_dir).attempt(run.label)
        attempt.path.mkdir(parents=True, exist_ok=True)
        attempt.publish_json("heartbeat.json", beat)
        await told.wait()
        yield RunUpdate(RunState.RUNNING)
        publish_pack(run)
        yield RunUpdate(RunState.EXITED, exit_code=0)

    async with bench(tmp_path, script) as b, asyncio.timeout(20):
        made = await b.put()
        with b.bus.subscribe(made.job_id) as changed:
            while (found := await b.store.get(made.job_id)) is not None and found.stage != "chunking":
                changed.clear()
                await changed.wait()
        assert found is not None
        assert (found.state, found.percent) == (State.DISPATCHING, 20.0)
        told.set()
        assert (await b.ended(made.job_id)).state is State.SUCCEEDED


async def test_a_full_backend_holds_its_own_jobs_only(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def hang(run: Run) -> AsyncIterator[RunUpdate]:
        yield RunUpdate(RunState.RUNNING)
        await go.wait()
        publish_pack(run)
        yield RunUpdate(RunState.EXITED, exit_code=0)

    async with bench(tmp_path, hang, capacity=1) as b:
        other = ScriptedBackend(succeed, name="other")
        b.dispatcher._backends = {**b.dispatcher._backends, "other": other}
        first, second = await b.put(), await b.put()
        elsewhere = await b.put(backend="other")
        assert (await b.ended(elsewhere.job_id)).state is State.SUCCEEDED
        await b.ended(first.job_id, State.RUNNING)
        found = await b.store.get(second.job_id)
        assert found is not None
        assert found.state is State.QUEUED
        go.set()
        assert (await b.ended(second.job_id)).state is State.SUCCEEDED


async def test_a_job_of_a_backend_that_is_gone_fails_with_its_name(tmp_path: Path) -> None:
    async with bench(tmp_path, succeed) as b:
        done = await b.ended((await b.put(backend="slurm")).job_id)
        assert done.state is State.FAILED
        assert done.error is not None
        assert done.error["code"] == "NO_BACKEND"
        assert "slurm" in done.error["message"]


@pytest.mark.req("A6")
async def test_a_run_directory_without_room_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.jobs.outcome.retry_delay", lambda failures: 0.0)
    real, left = Preparer.write, [2]

    def full(self: Preparer, found: Job) -> None:
        if left[0]:
            left[0] -= 1
            raise OSError(28, "No space left on device")
        real(self, found)

    monkeypatch.setattr(Preparer, "write", full)
    async with bench(tmp_path, succeed) as b:
        done = await b.ended((await b.put()).job_id)
        assert (done.state, done.failures) == (State.SUCCEEDED, 2)
