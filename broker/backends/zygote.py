"""The process that starts local workers: it has everything imported and forks one worker a run.

It speaks JSON lines with the broker over its standard input and output, never runs a job itself, and has
one thread, so that a fork is safe. Runs on the same inputs go to a warm host (see `host.py`), of which
a few are kept, the least recently used let go first. When the broker goes away, the standard input ends
and every process group is killed.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections import OrderedDict
from dataclasses import asdict, dataclass, field
from typing import Any

from broker.backends.forking import Order, adopt_orphans, fork, fork_worker, kill_group, reap
from broker.backends.lines import Loop, Peer
from broker.backends.rehearsal import rehearse

PRELOAD = (
    "agentloop.answer",
    "agentloop.pipeline",
    "agentloop.sources",
    "agentloop.worker",
    "broker.backends.host",
    "tantivy",
    "tree_sitter",
    "toktok",
)


@dataclass(slots=True)
class _Host:
    """A warm host: its process, and the orders that it has not started yet, by token."""

    pid: int
    peer: Peer
    end: socket.socket
    waiting: dict[str, Order] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost with it."""
        return not self.waiting and not self.running


class Zygote:
    """The loop: orders in, forks and ends out."""

    def __init__(self, max_hosts: int) -> None:
        self._broker = Peer(0, 1)
        self._max_hosts = max_hosts
        self._workers: dict[int, str] = {}  # pid -> token, of direct children and of hosts' children
        self._hosts: OrderedDict[str, _Host] = OrderedDict()  # by affinity, most recently used last
        self._loop = Loop(self._children)
        self._alive = True

    def run(self) -> None:
        """Serve until the broker closes our standard input."""
        adopt_orphans()
        self._loop.add(0, self._orders)
        self._broker.say(event="ready", pid=os.getpid())
        rehearse()
        gc.collect()
        gc.freeze()  # shared pages stay shared: the collector of a fork doesn't touch them
        while self._alive:
            self._loop.turn()
        for pid in [*self._workers, *(host.pid for host in self._hosts.values())]:
            kill_group(pid)

    def _orders(self) -> None:
        messages = self._broker.hear()
        if messages is None:
            self._alive = False
            return
        for message in messages:
            if message["op"] == "run":
                self._start(Order(**message["order"]))
            else:
                self._stop(message["token"], signal.SIGKILL if message["op"] == "kill" else signal.SIGTERM)

    # --- starting -----------------------------------------------------------------------------------

    def _start(self, order: Order) -> None:
        host = self._host(order) if order.affinity else None
        if host is not None:
            host.waiting[order.token] = order
            host.peer.say(op="run", order=asdict(order))
            return

        def run() -> int:
            from agentloop.worker import main

            return main([order.run_dir, order.label])

        self._started(order.token, fork_worker(order, run))

    def _started(self, token: str, pid: int) -> None:
        self._workers[pid] = token
        self._broker.say(event="started", token=token, pid=pid)

    def _ended(self, token: str, code: int) -> None:
        self._broker.say(event="exited", token=token, code=code)

    def _host(self, order: Order) -> _Host | None:
        """The host of an order's inputs, started if there is room; None: the order runs without one."""
        host = self._hosts.get(order.affinity)
        if host is not None:
            self._hosts.move_to_end(order.affinity)
            return host
        if len(self._hosts) >= self._max_hosts and not self._let_one_go():
            return None
        ours, theirs = socket.socketpair()
        descriptor = theirs.fileno()

        def serve() -> int:
            from broker.backends.host import serve as serve_host

            return serve_host(descriptor, order.memory)

        pid = fork(serve)
        theirs.close()
        host = _Host(pid, Peer(ours.fileno(), ours.fileno()), ours)
        self._hosts[order.affinity] = host
        self._loop.add(ours.fileno(), lambda: self._host_says(order.affinity, host))
        return host

    def _let_one_go(self) -> bool:
        """Close the idle host that was used longest ago; False when all are busy."""
        for affinity, host in self._hosts.items():
            if host.idle:
                self._drop(affinity, host)
                return True
        return False

    def _drop(self, affinity: str, host: _Host) -> None:
        self._hosts.pop(affinity, None)
        self._loop.remove(host.end.fileno())
        host.end.close()  # it sees the end of its socket, or is already gone

    # --- hosts --------------------------------------------------------------------------------------

    def _host_says(self, affinity: str, host: _Host) -> None:
        messages = host.peer.hear()
        if messages is None:
            self._host_gone(affinity, host)
            return
        for message in messages:
            self._one_host_message(host, message)

    def _one_host_message(self, host: _Host, message: dict[str, Any]) -> None:
        token = message["token"]
        if message["event"] == "started":
            host.waiting.pop(token, None)
            host.running.add(token)
            self._started(token, message["pid"])
        elif message["event"] == "exited":
            host.running.discard(token)
            self._forget(token)
            self._ended(token, message["code"])
        elif host.waiting.pop(token, None) is not None:  # dropped before it started
            self._ended(token, -signal.SIGTERM)

    def _forget(self, token: str) -> None:
        for pid in [pid for pid, known in self._workers.items() if known == token]:
            del self._workers[pid]

    def _host_gone(self, affinity: str, host: _Host) -> None:
        """A host died: what it had not started ends with it; its workers die with their parent."""
        self._drop(affinity, host)
        kill_group(host.pid)
        for token in [*host.waiting, *host.running]:
            self._forget(token)
            self._ended(token, -signal.SIGKILL)

    # --- ends ---------------------------------------------------------------------------------------

    def _children(self) -> None:
        for pid, code in reap():
            token = self._workers.pop(pid, None)
            if token is not None:
                self._ended(token, code)

    def _stop(self, token: str, number: int) -> None:
        for pid, known in self._workers.items():
            if known == token:
                kill_group(pid, number)
                return
        for affinity, host in list(self._hosts.items()):
            if token not in host.waiting:
                continue
            if len(host.waiting) == 1 and not host.running:
                os.kill(host.pid, signal.SIGKILL)  # it works for this order alone
                self._host_gone(affinity, host)
            else:
                host.peer.say(op="drop", token=token)


def main(max_hosts: int) -> None:
    """Import what workers need, then serve."""
    import importlib

    from agentloop.cache.packs import code_version
    from agentloop.cache.rankings import adapter
    from agentloop.tokens import count

    for name in PRELOAD:
        importlib.import_module(name)
    code_version()  # read once, for all workers
    adapter()
    count("")  # so is the tokenizer: half a second that no worker spends
    Zygote(max_hosts).run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
