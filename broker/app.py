"""The composition root of a running broker: lock, store, backends, dispatcher, service."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentloop import __version__
from agentloop.cache.packs import code_version
from agentloop.clock import Clock, SystemClock
from agentloop.rundir import publish
from broker.auth import Authenticator, local_token
from broker.backends.base import Backend
from broker.backends.local import LocalBackend, LocalLimits
from broker.config import Settings
from broker.jobs.audit import Auditor, load_key
from broker.jobs.bus import Bus
from broker.jobs.database import Database, StoreError, opened
from broker.jobs.dispatch import Dispatcher
from broker.jobs.prepare import Preparer
from broker.jobs.store import Store
from broker.oauth import verifier_of
from broker.service import Parts, Service

log = logging.getLogger("broker")

DATABASE = "broker.db"
EXPIRE_EVERY = 3600.0  # seconds between sweeps of finished jobs


class AlreadyRunning(StoreError):
    """Another broker has this BROKER_HOME."""


@dataclass(frozen=True, slots=True)
class Running:
    """A broker at work."""

    service: Service
    auth: Authenticator
    settings: Settings
    dispatcher: Dispatcher
    store: Store


@contextlib.contextmanager
def home_lock(home: Path) -> Iterator[None]:
    """Hold BROKER_HOME; the kernel lets go when the process ends, however it ends.

    Raises:
        AlreadyRunning: another process holds it.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(home / "broker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            raise AlreadyRunning(
                f"another broker (process {holder or '?'}) uses {home}; stop it, or set BROKER_HOME."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def announce(home: Path, url: str) -> None:
    """Say where the broker listens, for the command line and stdio clients of this machine."""
    value = {"url": url, "pid": os.getpid(), "version": __version__}
    publish(home / "broker.json", json.dumps(value).encode())


def backends_of(settings: Settings) -> dict[str, Backend]:
    """The backends that the settings ask for; the local one is always there."""
    limits = LocalLimits(settings.worker_memory_mb, settings.worker_file_mb)
    found: dict[str, Backend] = {"local": LocalBackend(settings.worker_count, limits, settings.warm_hosts)}
    if settings.backend == "slurm":
        from broker.backends.slurm import SlurmBackend

        found["slurm"] = SlurmBackend(settings)
    return found


@contextlib.asynccontextmanager
async def running(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Running]:
    """Start a broker; leaving the block drains and stops it.

    Raises:
        StoreError: the database can't be used, or another broker has it.
        BackendUnavailable: a backend did not start.
    """
    clock = clock or SystemClock()
    home = settings.home_path
    # Read now, as the workers' process does: an upgrade under a running broker must not make two of it.
    await asyncio.to_thread(code_version)
    with home_lock(home):
        issuer = verifier_of(settings)
        auth = Authenticator(home / "tokens.json", enabled=settings.auth == "token", issuer=issuer)
        if auth.enabled:
            local_token(home)
        async with (
            opened(home / DATABASE, settings.busy_timeout_ms) as database,
            _parts(settings, clock, database, auth) as found,
        ):
            yield found


@contextlib.asynccontextmanager
async def _parts(
    settings: Settings, clock: Clock, database: Database, auth: Authenticator
) -> AsyncIterator[Running]:
    bus = Bus()
    store = Store(database, clock, Auditor(load_key(settings.home_path), clock))
    store.listen(bus.publish)
    backends = backends_of(settings)
    dispatcher = Dispatcher(store, backends, settings, clock, Preparer(settings, auth), bus)
    store.listen(dispatcher.wake)
    sweeper = asyncio.create_task(_sweep_forever(store, settings), name="retention")
    try:
        for backend in backends.values():
            await backend.start()
        await dispatcher.start()
        service = Service(Parts(store, dispatcher, backends, settings, clock, bus))
        yield Running(service, auth, settings, dispatcher, store)
    finally:
        sweeper.cancel()
        await dispatcher.drain(settings.drain_seconds)
        for backend in backends.values():
            await backend.close()
        await asyncio.gather(sweeper, return_exceptions=True)


async def _sweep_forever(store: Store, settings: Settings) -> None:
    """Forget jobs that finished long ago, rows first: a crash in between leaves a folder, not a dead row."""
    while settings.retention_days:
        before = store.now() - settings.retention_days * 86_400
        while gone := await store.expire(before):
            for job_id in gone:
                folder = settings.home_path / "runs" / job_id[-2:] / job_id
                await asyncio.to_thread(shutil.rmtree, folder, True)
        await asyncio.sleep(EXPIRE_EVERY)
