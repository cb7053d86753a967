"""Dispatch over a real store and a scripted backend: ends, retries, races, recovery, draining, fair turns."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.auth import Authenticator
from broker.backends.base import BackendUnavailable, Run, RunState, RunUpdate, SubmitUnknown
from broker.config import Settings
from broker.jobs.artifacts import RESULT
from broker.jobs.bus import Bus
from broker.jobs.dispatch import Dispatcher
from broker.jobs.model import Job, State
from broker.jobs.prepare import Preparer
from broker.jobs.store import Store
from broker.planner import Tier
from tests.fakes.broker_parts import PLENTY, HeldClock, Script, ScriptedBackend, job, publish_pack, stored


@dataclass
class Bench:
    """A dispatcher with its store and backend."""

    store: Store
    dispatcher: Dispatcher
    backend: ScriptedBackend
    bus: Bus
    folder: Path
    clock: HeldClock

    async def put(self, namespace: str = "local", **changes: object) -> Job:
        file = self.folder / "input.txt"
        file.write_text("x")
        request = {
            "query": "q",
            "input_refs": [{"type": "file", "uri": str(file)}],
            "constraints": {"max_runtime_seconds": 900},
        }
        made, _ = await self.store.insert(job(namespace, request=request, **changes), PLENTY)
        return made

    async def ended(self, job_id: str, *states: State) -> Job:
        async with asyncio.timeout(20):
            with self.bus.subscribe(job_id) as changed:
                while True:
                    changed.clear()
                    found = await self.store.get(job_id)
                    assert found is not None
                    if found.state in (states or tuple(s for s in State if s.terminal)):
                        return found
                    await changed.wait()


@contextlib.asynccontextmanager
async def bench(
    folder: Path, script: Script, *, start: bool = True, **backend: object
) -> AsyncIterator[Bench]:
    """Everything started; drained at the end."""
    settings = Settings(home=str(folder / "home"), allowed_roots=(str(folder),), auth="none", max_attempts=3)
    settings.home_path.mkdir(exist_ok=True)
    clock = HeldClock()
    async with stored(folder, clock) as (store, _):
        bus = Bus()
        store.listen(bus.publish)
        scripted = ScriptedBackend(script, **backend)  # type: ignore[arg-type]
        preparer = Preparer(settings, Authenticator(folder / "tokens.json", enabled=False))
        dispatcher = Dispatcher(store, {"local": scripted}, settings, clock, preparer, bus)
        store.listen(dispatcher.wake)
        found = Bench(store, dispatcher, scripted, bus, folder, clock)
        if start:
            await dispatcher.start()
        yield found
        await dispatcher.drain(0.1)


async def succeed(run: Run) -> AsyncIterator[RunUpdate]:
    yield RunUpdate(RunState.RUNNING, backend_id="b1")
    publish_pack(run)
    yield RunUpdate(RunState.EXITED, exit_code=0)


async def die(run: Run) -> AsyncIterator[RunUpdate]:
    yield RunUpdate(RunState.RUNNING)
    yield RunUpdate(RunState.KILLED, exit_code=-9, reason="SIGKILL")


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
        await b.dispatcher.cancel(made.job_id)
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
