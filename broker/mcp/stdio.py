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
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from broker.mcp.reader import Reader

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
