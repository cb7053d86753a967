"""The broker's own log: JSON lines on stderr. No bodies, no tokens, no input text."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "taskName"}


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
        return json.dumps(value, ensure_ascii=True, default=str)


def set_up(level: str = "info") -> None:
    """Send the broker's records to stderr as JSON lines."""
    logging.raiseExceptions = False  # a log that can't be written (disk full) is no reason for more of it
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger("broker")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
