"""The broker's own log: JSON lines on stderr. No bodies, no tokens, no input text."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "taskName"}


_encode = json.JSONEncoder(ensure_ascii=True, default=str).encode


class JsonLines(logging.Formatter):
    """One JSON object a record; control characters can't leave their string."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of ASCII."""
        value = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        value |= {k: v for k, v in record.__dict__.items() if k not in _STANDARD}
        if record.exc_info:
            value["trace"] = self.formatException(record.exc_info)
        return _encode(value)


class Lines(logging.StreamHandler[TextIO]):
    """Writes to a stream: the lines of one turn of the event loop at once, others as they come.

    A write lets other threads run first; one a request would be much of what a request costs.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record's line; it is written before the loop waits again."""
        self._lines.append(self.format(record))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # another thread, or no loop: nobody would come back to it
            self.flush()
            return
        if len(self._lines) == 1:
            loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what was taken."""
        with self.lock or contextlib.nullcontext():
            lines, self._lines = self._lines, []
            try:
                if lines:
                    self.stream.write("\n".join([*lines, ""]))
                super().flush()
            except OSError:  # a log that can't be written (disk full) stops nobody
                return


def set_up(level: str = "info") -> None:
    """Send the broker's records to stderr as JSON lines."""
    logging.raiseExceptions = False  # a log that can't be written (disk full) is no reason for more of it
    handler = Lines(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger("broker")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
