"""`agentloop mcp`: the tools over standard input and output.

Nothing but protocol goes to stdout: the descriptor is taken at once, and what else is written to
descriptor 1, by anybody in this process or by a child, goes to stderr. This module imports little, so that
the first answers are out soon; the rest is in `stdio_serve`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from broker.mcp.greeting import Greeting

if TYPE_CHECKING:
    from broker.config import Settings

FIRST_FREE = 3


def take_streams() -> tuple[BinaryIO, int]:
    """A reader of standard input and the descriptor of standard output, both out of others' reach."""
    source = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE)
    sink = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return os.fdopen(source, "rb"), sink


_writing = threading.Lock()  # greetings and the SDK's messages come from different threads


def send(sink: int, text: str) -> None:
    """Write one message.

    Raises:
        BrokenPipeError: the client is gone.
    """
    data = text.encode("utf-8", "replace") + b"\n"
    with _writing:
        while data:
            data = data[os.write(sink, data) :]


class Reader:
    """Reads the client's lines and answers those that only greet; all of them are handed on, in order.

    `greeting.answered` has the ids that need no other answer. The end of the input is handed on as None.
    """

    def __init__(self, source: BinaryIO, sink: int) -> None:
        self.greeting = Greeting()
        self._source, self._sink = source, sink
        self._greets = True
        self._lock = threading.Lock()
        self._kept: list[str | None] = []
        self._hand_on: Callable[[str | None], object] = self._kept.append

    def next(self) -> bool:
        """Take one line; False at the end of the input."""
        raw = self._source.readline()
        line = raw.decode("utf-8", "replace") if raw else None
        if line is not None and self._greets:
            reply = self.greeting.reply(line)
            self._greets = reply is not None
            try:
                if reply:
                    send(self._sink, reply)
            except BrokenPipeError:
                line = None
        with self._lock:
            self._hand_on(line)
        return line is not None

    def rest(self, hand_on: Callable[[str | None], object]) -> None:
        """Hand on what came so far, then what a thread reads from now on."""
        with self._lock:
            for line in self._kept:
                hand_on(line)
            self._hand_on = hand_on

    def go_on(self) -> None:
        """Read in a thread. A daemon: a read of a pipe that stays open can't be interrupted."""

        def read() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                while self.next():
                    pass

        threading.Thread(target=read, daemon=True, name="mcp stdin").start()

    @property
    def asked(self) -> bool:
        """Whether the client said more than its first greeting."""
        return len(self._kept) > 1 or not self._greets


def run(load: Callable[[], Settings]) -> int:
    """Serve one client until it closes its end; the exit status.

    A client that greets and leaves costs nothing. With its second line it is at work: then everything that
    a call needs is started, while the first lines go on being answered at once.

    Args:
        load: reads the settings; called once the first answers are out.
    """
    source, sink = take_streams()
    reader = Reader(source, sink)
    if not reader.next():
        return 0
    imports = threading.Thread(target=_imports, daemon=True, name="mcp imports")
    imports.start()
    if not reader.asked and not reader.next():
        return 0
    reader.go_on()
    imports.join()
    from broker.mcp.stdio_serve import serve_rest

    serve_rest(load, reader, sink)
    return 0


def _imports() -> None:
    """Import what a call needs, while the client reads what it got."""
    import broker.app
    import broker.client
    import broker.mcp.server
    import broker.mcp.stdio_serve
    import broker.serve  # noqa: F401
