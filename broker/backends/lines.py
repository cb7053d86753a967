"""JSON lines between broker, zygote and hosts, and a loop that waits for them and for children."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
from collections.abc import Callable
from typing import Any


class Peer:
    """One end of a conversation: whole lines in, whole lines out."""

    def __init__(self, reader: int, writer: int) -> None:
        self.reader = reader
        self._writer = writer
        self._buffer = b""

    def say(self, **message: Any) -> None:
        """Send a message; a peer that is gone hears nothing."""
        data = json.dumps(message).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while data:
                data = data[os.write(self._writer, data) :]

    def hear(self) -> list[dict[str, Any]] | None:
        """The messages that have arrived; None when the peer is gone."""
        try:
            data = os.read(self.reader, 65_536)
        except ConnectionResetError:
            return None
        if not data:
            return None
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]


class Loop:
    """Waits for descriptors and for the end of children, in one thread."""

    def __init__(self, on_children: Callable[[], None]) -> None:
        self._selector = selectors.DefaultSelector()
        self._on_children = on_children
        self._wake, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's ^C is the broker's to handle
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._selector.register(self._wake, selectors.EVENT_READ, None)

    def add(self, descriptor: int, react: Callable[[], None]) -> None:
        """Call `react` whenever `descriptor` can be read."""
        self._selector.register(descriptor, selectors.EVENT_READ, react)

    def remove(self, descriptor: int) -> None:
        """Wait for `descriptor` no more."""
        self._selector.unregister(descriptor)

    def turn(self, seconds: float | None = None) -> None:
        """Wait for something to happen, at most `seconds`, and react to it."""
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
                self._on_children()
            else:
                key.data()
