"""A warm host: a process that keeps one set of inputs read, chunked and indexed, and forks workers.

The kept stages live in the memory that its workers share, copy on write, so a second question on the
same inputs starts at retrieval. Before each fork the inputs are looked at again; what changed is made
anew. A host serves one namespace and one set of inputs, and never runs a question itself.
"""

from __future__ import annotations

import gc
import os
import resource
from pathlib import Path

from agentloop import ahead as ahead_process
from agentloop import egress
from agentloop.cache.warm import Warm, build, current, looked
from agentloop.clock import SystemClock
from agentloop.jobspec import JobSpec, Kept, Manifest
from agentloop.rundir import RunDir
from agentloop.worker import EXIT_RESULT, Pulse, run_attempt
from broker.backends.forking import Order, close_inherited, fork_worker, kill_group, limit, reap
from broker.backends.lines import Loop, Peer


class Host:
    """Takes orders from the zygote over one socket, one at a time."""

    def __init__(self, descriptor: int) -> None:
        self._peer = Peer(descriptor, descriptor)
        self._clock = SystemClock()
        self._kept: Warm | None = None
        self._manifest: Manifest | None = None
        self._state = 0  # counts the states of the inputs that were kept
        self._remembered = 0  # the state that a worker told the cache of
        self._workers: dict[int, tuple[str, int]] = {}  # token and state by process
        self._waiting: list[Order] = []
        self._alive = True

    def run(self) -> None:
        """Serve until the zygote closes the socket; then every worker's group is killed."""
        loop = Loop(self._children)
        loop.add(self._peer.reader, self._orders)
        while self._alive:
            loop.turn(0 if self._waiting else None)
            if self._waiting and self._alive:
                self._start(self._waiting.pop(0))
        for pid in self._workers:
            kill_group(pid)

    def _orders(self) -> None:
        messages = self._peer.hear()
        if messages is None:
            self._alive = False
            return
        for message in messages:
            if message["op"] == "run":
                self._waiting.append(Order(**message["order"]))
            else:
                self._waiting = [order for order in self._waiting if order.token != message["token"]]
                self._peer.say(event="dropped", token=message["token"])

    def _children(self) -> None:
        for pid, code in reap():
            token, state = self._workers.pop(pid, ("", 0))
            if token:
                if code == EXIT_RESULT:
                    self._remembered = max(self._remembered, state)
                self._peer.say(event="exited", token=token, code=code)

    def _start(self, order: Order) -> None:
        kept = self._keep(order)

        def run() -> int:
            return run_attempt(RunDir(Path(order.run_dir)), order.label, kept=kept)

        pid = fork_worker(order, run)
        self._workers[pid] = order.token, self._state
        self._peer.say(event="started", token=order.token, pid=pid)
        tables = None if self._kept is None else self._kept.tables
        if tables is not None and not tables.prepared:
            tables.prepare()  # for the next question, while a worker answers the first
            gc.freeze()

    def _keep(self, order: Order) -> Kept:
        """The kept stages, right for the inputs as they are now, and what of them was not made anew."""
        run_dir = RunDir(Path(order.run_dir))
        pulse = Pulse(run_dir.attempt(order.label), self._clock)
        ahead = None
        try:
            spec = JobSpec.load(run_dir)
            found = None if self._kept is None else looked(self._kept, spec.request, spec.caps)
            same = None if self._kept is None else current(self._kept, found)
            if same is not None:
                self._kept = same
                known = self._remembered == self._state
                return Kept(same, ("file_hash", "manifest", "chunks", "index"), self._manifest, known)
            if self._kept is None:
                ahead = ahead_process.start()  # before there is another thread
            pulse.start()
            warm = build(
                spec.request,
                spec.caps,
                spec.policy,
                self._clock,
                kept=self._kept,
                found=found,
                lasting=True,
                progress=pulse.progress,
                ahead=ahead,
            )
        except Exception:  # noqa: BLE001 - whatever it is, the worker meets it again and reports it
            self._kept = None
            return Kept(told=pulse.told)
        finally:
            if ahead is not None:
                ahead.close()
            pulse.stop()  # its thread is joined: a fork sees this thread only
        self._kept = warm if warm.keepable(spec.policy) else None
        self._manifest = Manifest.of(warm.corpus, self._manifest)
        self._state += 1
        gc.collect()
        gc.freeze()  # shared pages stay shared: the collector of a fork doesn't touch them
        return Kept(warm, warm.layers, self._manifest, told=pulse.told)


def serve(descriptor: int, memory: int) -> int:
    """The whole life of a host process; its exit status."""
    os.setsid()
    close_inherited(keep=descriptor)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    limit(resource.RLIMIT_AS, memory)
    with egress.guarded():  # no filter of the kernel: its workers would have it too, and some ask a model
        Host(descriptor).run()
    return 0
