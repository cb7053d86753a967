"""The client's lines on standard input, and messages to it: what greets is answered at once."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import BinaryIO

from broker.mcp.greeting import Greeting

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
