"""Dispatch over a real store and a scripted backend: ends, retries, races."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.backends.base import BackendUnavailable, Run, RunState, RunUpdate, SubmitUnknown
from broker.jobs.artifacts import RESULT
from broker.jobs.model import Job, State
from broker.planner import Tier
from tests.fakes.broker_parts import publish_pack
from tests.unit.dispatch_case import bench, die, succeed


async def test_a_run_that_publishes_makes_its_job_succeed(tmp_path: Path) -> None:
    async with bench(tmp_path, succeed) as b:
        made = await b.put()
        done = await b.ended(made.job_id)
        assert done.state is State.SUCCEEDED
        assert (done.tool_calls, done.mode, done.attempt) == (2, "agentic", 1)
        kinds = [a.kind for a in await b.store.artifacts(made.job_id)]
        assert kinds.count(RESULT) == 1
        run_dir = b.backend.submitted[0].run_dir
        assert {"job_spec.json", "execution_plan.json", "input_manifest.json"} <= {
            p.name for p in run_dir.iterdir()
        }


@pytest.mark.req("A15")
async def test_a_job_that_kills_its_worker_fails_after_three_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.jobs.outcome.retry_delay", lambda failures: 0.0)
    culprit = ""

    async def script(run: Run) -> AsyncIterator[RunUpdate]:
        async for update in die(run) if run.job_id == culprit else succeed(run):
            yield update

    async with bench(tmp_path, script) as b:
        bad = await b.put(tier=str(Tier.CPU))
        culprit = bad.job_id
        good = await b.put()
        assert (await b.ended(good.job_id)).state is State.SUCCEEDED
        done = await b.ended(bad.job_id)
        assert done.state is State.FAILED
        assert (done.attempt, done.failures) == (3, 3)
        assert done.error is not None
        assert done.error["retryable"] is True
        tried = [str(run.tier) for run in b.backend.submitted if run.job_id == bad.job_id]
        assert tried == ["cpu-rag-indexing", "p40-rag-compression", "a100-reasoning"]
        assert len({run.token for run in b.backend.submitted}) == 4


@pytest.mark.req("G5")
@pytest.mark.parametrize("first", ["cancel", "finish"])
async def test_a_cancel_that_races_completion_gives_one_end(tmp_path: Path, first: str) -> None:
    go = asyncio.Event()

    async def script(run: Run) -> AsyncIterator[RunUpdate]:
        yield RunUpdate(RunState.RUNNING)
        publish_pack(run)
        await go.wait()
        yield RunUpdate(RunState.EXITED, exit_code=0)

    async with bench(tmp_path, script) as b:
        made = await b.put()
        await b.ended(made.job_id, State.RUNNING)

        def step(found: Job) -> Job:
            return found if found.state.terminal else found.evolve(cancel_requested=True)

        if first == "finish":
            go.set()
            await b.ended(made.job_id)
        await b.store.change(made.job_id, step)
        go.set()
        done = await b.ended(made.job_id)
        visible = bool(await b.store.artifacts(made.job_id))
        assert done.state is (State.CANCELLED if first == "cancel" else State.SUCCEEDED)
        assert visible is (done.state is State.SUCCEEDED)


async def test_a_cancel_reaches_the_backend(tmp_path: Path) -> None:
    async def script(run: Run) -> AsyncIterator[RunUpdate]:
        yield RunUpdate(RunState.RUNNING)
        await b.backend.cancelled[run.token].wait()
        yield RunUpdate(RunState.CANCELLED)

    async with bench(tmp_path, script) as b:
        made = await b.put()
        await b.ended(made.job_id, State.RUNNING)
        await b.store.change(made.job_id, lambda j: j.evolve(cancel_requested=True))
        await b.dispatcher.cancel([made.job_id])
        assert (await b.ended(made.job_id)).state is State.CANCELLED


async def test_a_backend_that_takes_nothing_is_asked_again_uncounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.jobs.outcome.retry_delay", lambda failures: 0.0)
    errors: list[Exception] = [BackendUnavailable("down")] * 5
    async with bench(tmp_path, succeed, submit_errors=errors) as b:
        done = await b.ended((await b.put()).job_id)
        assert done.state is State.SUCCEEDED
        assert (done.attempt, done.failures) == (6, 0)


async def test_an_unknown_submit_is_watched_not_repeated(tmp_path: Path) -> None:
    async with bench(tmp_path, succeed, submit_errors=[SubmitUnknown("timed out")]) as b:
        done = await b.ended((await b.put()).job_id)
        assert done.state is State.SUCCEEDED
        assert len(b.backend.submitted) == 1


async def test_a_backend_that_cannot_tell_leaves_the_state_and_says_so(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def script(run: Run) -> AsyncIterator[RunUpdate]:
        yield RunUpdate(RunState.RUNNING)
        yield RunUpdate(RunState.UNKNOWN, reason="squeue failed")
        await go.wait()
        yield RunUpdate(RunState.RUNNING)
        publish_pack(run)
        yield RunUpdate(RunState.EXITED, exit_code=0)

    async with bench(tmp_path, script) as b:
        made = await b.put()
        async with asyncio.timeout(20):
            while not (found := await b.store.get(made.job_id)) or not found.backend_unknown:
                await asyncio.sleep(0.01)
        assert found.state is State.RUNNING
        go.set()
        done = await b.ended(made.job_id)
        assert (done.state, done.backend_unknown) == (State.SUCCEEDED, False)
