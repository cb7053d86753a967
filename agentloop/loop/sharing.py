"""One model server for all workers of a machine that want the same model, as the tasks of an array do.

A lock file and a registry file a model lie in a private folder of the machine. The first worker starts
the server and owns it; others join it. The owner, when it is done, lets nobody join any more, waits for
those that did, and stops the server. A worker that dies lets its locks go; a server whose owner died is
replaced by the next worker that needs it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.loop.local_server import Serving, serve_profile, served_models
from agentloop.loop.profiles import Profile

POLL_SECONDS = 0.1
LINGER_SECONDS = 600.0
"""How long an owner waits for those that joined; then they have to start a server of their own."""
DEVICES = ("SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES")
"""Which GPUs a process was given: workers with different ones don't share."""


def folder_of(temporary: str, environ: Mapping[str, str]) -> Path:
    """The folder of this user's servers on this machine, for the GPUs of this process."""
    devices = next((environ[name] for name in DEVICES if environ.get(name)), "")
    node = environ.get("SLURMD_NODENAME", "")
    part = hashlib.sha256(f"{node}\n{devices}".encode()).hexdigest()[:12]
    return Path(temporary) / f"agentloop-{os.getuid()}" / "servers" / part


@contextmanager
def shared(profile: Profile, folder: Path) -> Iterator[Serving]:
    """A server of the profile's model: one that runs here, or a new one that others may join.

    Raises:
        AgentloopError: MODEL_UNAVAILABLE, see `local_server.serve_profile`; or nothing could be joined or
            started in the profile's `start_seconds`.
    """
    _private(folder)
    place = _Place(folder, profile)
    deadline = time.monotonic() + profile.start_seconds
    while time.monotonic() < deadline:
        with place.starting(deadline):
            found = place.joined()
            if found is None and not place.occupied():
                with contextlib.ExitStack() as owned:
                    found = owned.enter_context(serve_profile(profile))
                    place.announce(found)
                    mine = owned.pop_all()
                break
        if found is not None:
            try:
                yield found
            finally:
                place.leave()
            return
        time.sleep(POLL_SECONDS)
    else:
        raise AgentloopError(
            ErrorCode.MODEL_UNAVAILABLE,
            f"No server of {profile.model} could be had in start_seconds={profile.start_seconds:g}.",
            Stage.LOOP,
        )
    try:
        yield found
    finally:
        try:
            place.close_down()
        finally:
            mine.close()
            place.withdraw(found)


class _Place:
    """The files of one model: `.lock` is held while one starts, `.users` by all who use, `.json` tells."""

    def __init__(self, folder: Path, profile: Profile) -> None:
        self._base = folder / _name(profile)
        self._profile = profile
        self._using: int | None = None

    def _path(self, suffix: str) -> Path:
        return self._base.with_name(self._base.name + suffix)

    def _open(self, suffix: str) -> int:
        return os.open(self._path(suffix), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    @contextmanager
    def starting(self, deadline: float) -> Iterator[None]:
        """Hold the lock of who starts a server; it may take as long as a model loads."""
        lock = self._open(".lock")
        try:
            while not _locked(lock, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise AgentloopError(
                        ErrorCode.MODEL_UNAVAILABLE,
                        f"Another worker did not get {self._profile.model} started in time.",
                        Stage.LOOP,
                    )
                time.sleep(POLL_SECONDS)
            yield
        finally:
            os.close(lock)

    def _told(self) -> dict[str, Any]:
        try:
            value = json.loads(self._path(".json").read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def joined(self) -> Serving | None:
        """The server that runs here and takes us, if there is one; we are its user from now on."""
        told = self._told()
        if not told or told.get("closing"):
            return None
        serving = Serving(str(told["endpoint"]), str(told["api_key"]), int(told["pid"]))
        place = urlsplit(serving.endpoint)
        served = served_models(place.hostname or "", place.port or 0, serving.api_key)
        if served is None or self._profile.model not in served:
            return None
        using = self._open(".users")
        if not _locked(using, fcntl.LOCK_SH):
            os.close(using)
            return None
        self._using = using
        return serving

    def occupied(self) -> bool:
        """Whether a server still uses the memory that ours would need: its owner closes it down."""
        told = self._told()
        return bool(told.get("closing")) and _alive(int(told.get("owner", 0)))

    def announce(self, serving: Serving) -> None:
        """Tell others of our server."""
        self._tell(serving, closing=False)

    def _tell(self, serving: Serving, *, closing: bool) -> None:
        value = {
            "endpoint": serving.endpoint,
            "api_key": serving.api_key,
            "pid": serving.pid,
            "owner": os.getpid(),
            "model": self._profile.model,
            "closing": closing,
        }
        new = self._path(f".{os.getpid()}.new")
        new.write_text(json.dumps(value), "utf-8")
        new.chmod(0o600)
        os.replace(new, self._path(".json"))

    def leave(self) -> None:
        """We use the server no more."""
        if self._using is not None:
            os.close(self._using)
            self._using = None

    def close_down(self) -> None:
        """Let nobody join any more, and wait until those that did are done."""
        told = self._told()
        if told.get("owner") != os.getpid():
            return
        deadline = time.monotonic() + LINGER_SECONDS
        with self.starting(deadline):
            self._tell(Serving(told["endpoint"], told["api_key"], told["pid"]), closing=True)
        using = self._open(".users")
        try:
            while not _locked(using, fcntl.LOCK_EX) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
        finally:
            os.close(using)

    def withdraw(self, serving: Serving) -> None:
        """Our server is gone."""
        if self._told().get("pid") == serving.pid:
            self._path(".json").unlink(missing_ok=True)


def _name(profile: Profile) -> str:
    """A name for all that makes two servers the same."""
    parts = profile.model_dump(
        mode="json",
        include={
            "gguf",
            "weights",
            "model",
            "serve",
            "binary",
            "serve_args",
            "gpu_layers",
            "flash_attention",
            "cache_type_k",
            "cache_type_v",
            "parallel",
            "context_tokens",
        },
    )
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _private(folder: Path) -> None:
    """Make the folder, ours alone: what lies in it names keys.

    Raises:
        AgentloopError: MODEL_UNAVAILABLE, another user made it, or it is a link.
    """
    for path in (folder.parent.parent, folder.parent, folder):
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        if path.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise AgentloopError(
                ErrorCode.MODEL_UNAVAILABLE,
                f"The folder {path.name} of model servers is not private to this user.",
                Stage.LOOP,
            )


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return pid > 0
