"""The process that starts local workers: it has everything imported and forks one worker a run.

It speaks JSON lines with the broker over its standard input and output. It never runs a job itself and
has one thread, so that a fork is safe. Each worker leads a process group of its own; when the broker
goes away, the standard input ends and every group is killed.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import selectors
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PRELOAD = ("agentloop.pipeline", "agentloop.sources", "agentloop.worker", "tantivy", "tree_sitter", "toktok")
NICE = 5  # workers yield to the broker, which answers callers


@dataclass(frozen=True, slots=True)
class Order:
    """One `run` command of the broker. Bounds are in bytes and CPU seconds; 0: none."""

    token: str
    run_dir: str
    label: str
    memory: int
    file_size: int
    cpu_seconds: int


def _limit(which: int, value: int) -> None:
    if value:
        _, hard = resource.getrlimit(which)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (bound, bound))


def _close_inherited() -> None:
    """Close every descriptor but the standard three: the broker's pipes and other workers' files."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _child(order: Order) -> int:
    """The worker, in its own process group, bounded, with its output in the attempt's folder."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    _close_inherited()
    folder = Path(order.run_dir) / "attempts" / order.label
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(folder / "stdout.log", flags, 0o600), 1)
    os.dup2(os.open(folder / "stderr.log", flags, 0o600), 2)
    os.nice(NICE)
    _limit(resource.RLIMIT_AS, order.memory)
    _limit(resource.RLIMIT_FSIZE, order.file_size)
    _limit(resource.RLIMIT_CPU, order.cpu_seconds)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    from agentloop.worker import main

    return main([order.run_dir, order.label])


class Zygote:
    """The loop: commands in, forks and exits out."""

    def __init__(self) -> None:
        self._workers: dict[int, str] = {}  # pid -> token
        self._buffer = b""

    def _say(self, **event: Any) -> None:
        os.write(1, json.dumps(event).encode() + b"\n")

    def _start(self, order: Order) -> None:
        pid = os.fork()
        if pid == 0:
            status = 70  # EX_SOFTWARE: the worker raised what it should have published
            try:
                status = _child(order)
            except BaseException:  # noqa: BLE001 - the end of this process
                import traceback

                traceback.print_exc()
            finally:
                with contextlib.suppress(OSError, ValueError):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(status)
        self._workers[pid] = order.token
        self._say(event="started", token=order.token, pid=pid)

    def _reap(self) -> None:
        while self._workers:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return
            pid = ended.si_pid
            # What the worker left behind goes with it; not reaped yet, its id can't be another's.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            token = self._workers.pop(pid, None)
            if token is not None:
                self._say(event="exited", token=token, code=os.waitstatus_to_exitcode(status))

    def _command(self, line: bytes) -> None:
        command = json.loads(line)
        if command["op"] == "run":
            self._start(Order(**command["order"]))
            return
        number = signal.SIGKILL if command["op"] == "kill" else signal.SIGTERM
        for pid, token in self._workers.items():
            if token == command["token"]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, number)

    def _input(self) -> bool:
        data = os.read(0, 65536)
        if not data:
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._command(line)
        return True

    def run(self) -> None:
        """Serve until the broker closes our standard input."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's ^C is the broker's to handle
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        selector.register(reader, selectors.EVENT_READ)
        self._say(event="ready", pid=os.getpid())
        alive = True
        while alive:
            for key, _ in selector.select():
                if key.fd == 0:
                    alive = self._input()
                else:
                    with contextlib.suppress(BlockingIOError):
                        os.read(reader, 4096)
                    self._reap()
        for pid in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def main() -> None:
    """Import what workers need, then serve."""
    import importlib

    for name in PRELOAD:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # shared pages stay shared: the collector of a fork doesn't touch them
    Zygote().run()


if __name__ == "__main__":
    main()
