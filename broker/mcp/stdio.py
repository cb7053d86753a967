"""`agentloop mcp`: the tools over standard input and output.

Nothing but protocol goes to stdout: the descriptor is taken at once, and what else is written to
descriptor 1, by anybody in this process or by a child, goes to stderr. This module imports little, so that
the first answers are out soon; the rest is in `stdio_serve`.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Callable, Iterator
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


def send(sink: int, text: str) -> None:
    """Write one message.

    Raises:
        BrokenPipeError: the client is gone.
    """
    data = text.encode("utf-8", "replace") + b"\n"
    while data:
        data = data[os.write(sink, data) :]


def run(load: Callable[[], Settings]) -> int:
    """Serve one client until it closes its end; the exit status.

    Args:
        load: reads the settings; called once the first answers are out.
    """
    source, sink = take_streams()
    greeting = Greeting()
    warm = threading.Thread(target=_warm, daemon=True, name="mcp imports")
    first: str | None = None
    try:
        for line in _greetable(source):
            reply = greeting.reply(line)
            if reply is None:
                first = line
                break
            if reply:
                send(sink, reply)
            if not warm.is_alive() and warm.ident is None:
                warm.start()
    except BrokenPipeError:
        return 0
    if first is None:
        return 0  # the client left without asking for anything
    if warm.ident is not None:
        warm.join()
    from broker.mcp.stdio_serve import serve_rest

    serve_rest(load, [*greeting.lines, first], greeting.answered, source, sink)
    return 0


def _greetable(source: BinaryIO) -> Iterator[str]:
    while raw := source.readline():
        yield raw.decode("utf-8", "replace")


def _warm() -> None:
    """Import what a call needs, while the client reads what it got."""
    import broker.app
    import broker.client
    import broker.mcp.server
    import broker.mcp.stdio_serve
    import broker.serve  # noqa: F401
