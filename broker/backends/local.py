"""The local backend: worker processes forked by a zygote, one run each.

Workers don't survive the broker: when it dies, the zygote kills their groups. A run that the next
broker finds is LOST unless its attempt had published; dispatch then looks and runs it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.backends.base import BackendUnavailable, Run, RunState, RunUpdate
from broker.backends.forking import kill_group
from broker.planner import Tier

START_SECONDS = 60.0  # imports on a loaded machine
RESPAWN_SECONDS = 2.0  # between starts of a zygote that dies before it is ready
TERM_SECONDS = 3.0  # from SIGTERM to SIGKILL: the group is gone within the five seconds of F13
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class LocalLimits:
    """Bounds of one worker process, in MiB; 0: none."""

    memory_mb: int
    file_mb: int


@dataclass(slots=True)
class _Live:
    updates: asyncio.Queue[RunUpdate] = field(default_factory=asyncio.Queue)
    pid: int = 0
    cancelled: bool = False
    ended: bool = False


class LocalBackend:
    """Runs on this machine. Every tier runs here; only the CPU tier is really had."""

    name = "local"
    tiers = frozenset({Tier.CPU})
    survives_broker = False

    def __init__(self, workers: int, limits: LocalLimits, warm_hosts: int) -> None:
        self._capacity = workers
        self._warm_hosts = warm_hosts
        self._limits = limits
        self._live: dict[str, _Live] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._closing = False

    @property
    def capacity(self) -> int:
        """Worker processes at once."""
        return self._capacity

    async def start(self) -> None:
        """Start the zygote and wait until it is ready.

        Raises:
            BackendUnavailable: it did not start.
        """
        self._closing = True  # until it was ready once: what can't start is not started again
        await self._spawn()
        assert self._process is not None  # noqa: S101 - it was spawned
        ready = asyncio.create_task(self._ready.wait())
        ended = asyncio.create_task(self._process.wait())
        waited = (ready, ended)
        await asyncio.wait(waited, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for task in waited:
            task.cancel()
        if self._ready.is_set():
            self._closing = False
            return
        if self._process.returncode is not None:
            raise BackendUnavailable(
                f"the local worker process ended as it started (exit status {self._process.returncode}); "
                "its messages say why, and `agentloop doctor` checks the installation"
            )
        raise BackendUnavailable(f"the local worker process did not start in {START_SECONDS:.0f} s")

    async def _spawn(self) -> None:
        self._ready = asyncio.Event()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "broker.backends.zygote",
            str(self._warm_hosts),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=_environment(),
            start_new_session=True,  # a terminal's signals reach the broker alone
        )
        self._reader = asyncio.create_task(self._read(self._process), name="local-backend")

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        while line := await process.stdout.readline():
            self._hear(json.loads(line))
        await process.wait()
        for live in self._live.values():
            if live.pid:
                kill_group(live.pid)
            live.ended = True
            live.updates.put_nowait(RunUpdate(RunState.KILLED, reason="the local worker process ended"))
        if not self._closing:
            if not self._ready.is_set():
                await asyncio.sleep(RESPAWN_SECONDS)
            if not self._closing:
                await self._spawn()

    def _hear(self, event: dict[str, Any]) -> None:
        if event["event"] == "ready":
            self._ready.set()
            return
        live = self._live.get(event["token"])
        if live is None:
            return
        if event["event"] == "started":
            live.pid = event["pid"]
            live.updates.put_nowait(RunUpdate(RunState.RUNNING, backend_id=str(live.pid)))
            return
        live.ended = True
        live.updates.put_nowait(_ended(event["code"], live))

    async def _tell(self, command: dict[str, Any]) -> None:
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            raise BackendUnavailable("the local worker process is not running")
        try:
            process.stdin.write(json.dumps(command).encode() + b"\n")
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise BackendUnavailable("the local worker process is not running") from None

    async def submit(self, run: Run) -> str:
        """Fork a worker for a run; its process id comes with the first update.

        Raises:
            BackendUnavailable: the zygote is away; it is started again by itself.
        """
        try:
            await asyncio.wait_for(self._ready.wait(), START_SECONDS)
        except TimeoutError:
            raise BackendUnavailable("the local worker process is not running") from None
        self._live[run.token] = _Live()
        order = {
            "token": run.token,
            "run_dir": str(run.run_dir),
            "label": run.label,
            "memory": self._limits.memory_mb * MIB,
            "file_size": self._limits.file_mb * MIB,
            "cpu_seconds": run.resources.seconds * run.resources.cpus,
            "affinity": run.affinity if self._warm_hosts else "",
        }
        try:
            await self._tell({"op": "run", "order": order})
        except BackendUnavailable:
            self._live.pop(run.token, None)
            raise
        return ""

    async def watch(self, run: Run) -> AsyncIterator[RunUpdate]:
        """Updates of a run, ending with a final one."""
        live = self._live.get(run.token)
        if live is None:
            yield RunUpdate(RunState.LOST)
            return
        while True:
            update = await live.updates.get()
            if update.state.final:
                self._live.pop(run.token, None)
            yield update
            if update.state.final:
                return

    async def cancel(self, run: Run) -> None:
        """SIGTERM to the run's process group, SIGKILL after three seconds."""
        live = self._live.get(run.token)
        if live is None or live.ended:
            return
        live.cancelled = True
        with contextlib.suppress(BackendUnavailable):
            await self._tell({"op": "term", "token": run.token})
            for _ in range(int(TERM_SECONDS * 10)):
                if self._live.get(run.token, live).ended:
                    return
                await asyncio.sleep(0.1)
            await self._tell({"op": "kill", "token": run.token})

    async def recover(self, runs: Sequence[Run]) -> dict[str, RunUpdate]:
        """No run outlives its broker."""
        return {run.token: RunUpdate(RunState.LOST) for run in runs}

    async def logs(self, run: Run) -> str:
        """The attempt's folder."""
        return str(run.run_dir / "attempts" / run.label)

    async def close(self) -> None:
        """Stop the zygote, which kills every worker's group."""
        self._closing = True
        if self._process is None or self._reader is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        if all(live.ended for live in self._live.values()):
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()  # it may still rehearse; idle hosts die with it
        try:
            await asyncio.wait_for(asyncio.shield(self._reader), 5)
        except TimeoutError:
            self._process.kill()
            await self._reader


def _ended(code: int, live: _Live) -> RunUpdate:
    backend_id = str(live.pid)
    if live.cancelled:
        return RunUpdate(RunState.CANCELLED, backend_id, code)
    if code >= 0:
        return RunUpdate(RunState.EXITED, backend_id, code)
    if -code == signal.SIGXCPU:
        return RunUpdate(RunState.TIMED_OUT, backend_id, code, "CPU limit")
    return RunUpdate(RunState.KILLED, backend_id, code, signal.Signals(-code).name)


def _environment() -> dict[str, str]:
    """What a worker's process needs and no more: no token, key or proxy of the broker reaches it."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV")
    return {name: os.environ[name] for name in kept if name in os.environ}
