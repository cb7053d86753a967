"""A dispatcher over a real store and a scripted backend, and the scripts that most tests use."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from broker.auth import Authenticator
from broker.backends.base import Run, RunState, RunUpdate
from broker.config import Settings
from broker.jobs.bus import Bus
from broker.jobs.dispatch import Dispatcher
from broker.jobs.model import Job, State
from broker.jobs.prepare import Preparer
from broker.jobs.store import Store
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
