"""Warm services: a model server that outlives the jobs that use it, and ends when nobody does.

Three files in a folder that all machines share: `NAME.json` tells where the service is and that it lives,
`NAME.lease` was touched by whoever needed it last, `NAME.service` says what is to be served. Nobody is
reserved anything: without a lease that is renewed the service ends by itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.loop.local_server import Serving, served_models
from agentloop.loop.profiles import Profile
from agentloop.rundir import RunDirError, publish, read_json, to_bytes

BEAT_SECONDS = 5.0
STALE_SECONDS = 30.0
"""A service that told nothing for so long counts as gone: six beats, for clocks that differ."""
RENEW_SECONDS = 20.0
POLL_SECONDS = 0.2
SUFFIX = ".service"


@dataclass(frozen=True, slots=True)
class Order:
    """What a service is to serve, and when it ends: after `idle_seconds` without a renewed lease."""

    token: str
    profile: str
    home: str
    model_profiles_file: str
    idle_seconds: int


@dataclass(frozen=True, slots=True)
class Files:
    """The files of the service of one profile."""

    folder: Path
    profile: str

    @property
    def slug(self) -> str:
        """The profile's name in letters that need no quoting."""
        return re.sub(r"[^A-Za-z0-9_.]", "_", self.profile)[:64]

    @property
    def order(self) -> Path:
        """What is to be served."""
        return self.folder / f"{self.slug}{SUFFIX}"

    @property
    def registry(self) -> Path:
        """Where it is served."""
        return self.folder / f"{self.slug}.json"

    @property
    def lease(self) -> Path:
        """Touched by who needs it."""
        return self.folder / f"{self.slug}.lease"

    def renew(self) -> None:
        """Say that the service is needed now."""
        with contextlib.suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.lease.touch(mode=0o600)

    def idle_for(self, now: float) -> float:
        """Seconds since the lease was renewed; without end where there is none."""
        try:
            return now - self.lease.stat().st_mtime
        except OSError:
            return float("inf")

    def read_order(self) -> Order | None:
        """What is to be served, None where nothing was ordered."""
        try:
            return Order(**read_json(self.order))
        except (OSError, RunDirError, TypeError):
            return None

    def write_order(self, order: Order) -> None:
        """Order a service; it is durable afterwards.

        Raises:
            OSError: it can't be written.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        publish(self.order, to_bytes(asdict(order)))

    def told(self) -> dict[str, Any]:
        """What the service tells; empty where none does."""
        try:
            value = read_json(self.registry)
        except (OSError, RunDirError):
            return {}
        return value if isinstance(value, dict) else {}

    def tell(self, serving: Serving, token: str, now: float) -> None:
        """Tell that the service lives."""
        value = {"endpoint": serving.endpoint, "api_key": serving.api_key, "token": token, "beat": now}
        publish(self.registry, to_bytes(value))

    def withdraw(self, token: str) -> None:
        """The service of this token is gone."""
        if self.told().get("token") == token:
            self.registry.unlink(missing_ok=True)

    def living(self, now: float) -> Serving | None:
        """The service, as far as it told of itself lately."""
        told = self.told()
        if not told or abs(now - float(told.get("beat", 0))) > STALE_SECONDS:
            return None
        return Serving(str(told["endpoint"]), str(told["api_key"]), 0)


@contextmanager
def leased(profile: Profile, folder: Path) -> Iterator[Serving]:
    """The warm service of a profile, its lease renewed while the block runs.

    Raises:
        AgentloopError: MODEL_UNAVAILABLE, no healthy service in the profile's `start_seconds`.
    """
    files = Files(folder, profile.name)
    deadline = time.monotonic() + profile.start_seconds
    files.renew()
    found = _healthy(files, profile)
    while found is None:
        if time.monotonic() > deadline:
            raise AgentloopError(
                ErrorCode.MODEL_UNAVAILABLE,
                f"The warm service of {profile.name} did not answer in "
                f"start_seconds={profile.start_seconds:g}.",
                Stage.LOOP,
            )
        time.sleep(POLL_SECONDS)
        found = _healthy(files, profile)
    over = threading.Event()

    def renew() -> None:
        while not over.wait(RENEW_SECONDS):
            files.renew()

    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
        files.renew()


def _healthy(files: Files, profile: Profile) -> Serving | None:
    """The service, where it answers and serves the model that is asked for."""
    found = files.living(time.time())
    if found is None:
        return None
    place = urlsplit(found.endpoint)
    served = served_models(place.hostname or "", place.port or 0, found.api_key)
    return found if served is not None and profile.model in served else None


def address_towards(host: str) -> str:
    """The address of this machine that another one sees; loopback where there is no other."""
    import socket

    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host or "localhost", 9))  # UDP: nothing is sent
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def run(file: Path, host: str) -> int:
    """Serve what a file orders until nobody needs it. Exit status 0: idle or replaced; 1: it failed.

    Raises:
        AgentloopError: MODEL_UNAVAILABLE, REQUEST_INVALID: it can't be served.
    """
    from agentloop.loop.local_server import serve_profile
    from agentloop.loop.places import ModelPlaces, resolve

    order = Order(**read_json(file))
    profile = resolve(order.profile, ModelPlaces.under(Path(order.home), order.model_profiles_file))
    files = Files(file.parent, order.profile)
    if files.idle_for(time.time()) > order.idle_seconds:
        return 0  # it waited too long in the queue: nobody needs it any more
    with serve_profile(profile, host) as serving:
        try:
            return _keep(files, order, serving, profile)
        finally:
            files.withdraw(order.token)


def _keep(files: Files, order: Order, serving: Serving, profile: Profile) -> int:
    """Tell of the service while it is needed, healthy, and not replaced."""
    place = urlsplit(serving.endpoint)
    ready = time.time()  # loading the model is no idleness
    while True:
        current = files.read_order()
        if current is None or current.token != order.token:
            return 0
        served = served_models(place.hostname or "", place.port or 0, serving.api_key)
        if served is None or profile.model not in served:
            return 1
        now = time.time()
        if min(files.idle_for(now), now - ready) > order.idle_seconds:
            return 0
        files.tell(serving, order.token, now)
        time.sleep(min(BEAT_SECONDS, max(0.2, order.idle_seconds / 4)))


def is_order(path: Path) -> bool:
    """Whether a path names an order of a service."""
    return path.suffix == SUFFIX and os.path.isfile(path)
