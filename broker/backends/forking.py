"""Forking a worker: its own process group, bounded, without the descriptors of the process it came from."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

NICE = 5  # workers yield to the broker, which answers callers
EX_SOFTWARE = 70  # the worker raised what it should have published
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_libc = ctypes.CDLL(None)  # loaded before any fork: a child only calls


@dataclass(frozen=True, slots=True)
class Order:
    """One `run` command of the broker. Bounds are in bytes and CPU seconds; 0: none.

    `affinity` names the inputs: runs with the same one may share a warm host; empty: none is used.
    """

    token: str
    run_dir: str
    label: str
    memory: int
    file_size: int
    cpu_seconds: int
    affinity: str = ""

    @property
    def attempt(self) -> Path:
        """The attempt's folder."""
        return Path(self.run_dir) / "attempts" / self.label


def adopt_orphans() -> None:
    """Become the parent of grandchildren whose parent dies, so that they can be reaped and reported."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent ends, however it ends; at once if it already has."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(EX_SOFTWARE)


def limit(which: int, value: int) -> None:
    """Set both limits of a resource, at most the hard one; 0 leaves it."""
    if value:
        _, hard = resource.getrlimit(which)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (bound, bound))


def close_inherited(keep: int = -1) -> None:
    """Close every descriptor but the standard three and `keep`: pipes of the broker, files of others."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != keep:
            with contextlib.suppress(OSError):
                os.close(int(name))


def default_signals() -> None:
    """Undo what the forking process did with signals."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def fork(work: Callable[[], int]) -> int:
    """Fork a child that runs `work` and exits with what it returns; returns the child's id."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = EX_SOFTWARE
    try:
        die_with_parent(parent)
        default_signals()
        status = work()
    except BaseException:  # noqa: BLE001 - the end of this process: whatever it is goes to stderr.log
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def fork_worker(order: Order, run: Callable[[], int]) -> int:
    """Fork a worker for an order; `run` does the work and returns the exit status."""

    def work() -> int:
        os.setsid()
        close_inherited()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(order.attempt / "stdout.log", flags, 0o600), 1)
        os.dup2(os.open(order.attempt / "stderr.log", flags, 0o600), 2)
        os.nice(NICE)
        limit(resource.RLIMIT_AS, order.memory)
        limit(resource.RLIMIT_FSIZE, order.file_size)
        limit(resource.RLIMIT_CPU, order.cpu_seconds)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        return run()

    return fork(work)


def kill_group(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal a process group that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def reap() -> list[tuple[int, int]]:
    """Ended children as (id, exit code, negative for a signal); the group of each is killed first."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return ended
        if found is None:
            return ended
        # What a worker left behind goes with it; not reaped yet, its id can't be another's.
        kill_group(found.si_pid)
        _, status = os.waitpid(found.si_pid, 0)
        ended.append((found.si_pid, os.waitstatus_to_exitcode(status)))
