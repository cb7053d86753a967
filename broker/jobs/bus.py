"""Who waits for a job: wake-ups inside this process, carrying nothing but that something changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator


class Bus:
    """Tells waiters of a job that it changed. They read the store for what."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._everything: set[asyncio.Event] = set()

    def publish(self, job_id: str) -> None:
        """Wake all who wait for this job."""
        for event in (*self._waiting.get(job_id, ()), *self._everything):
            event.set()

    @contextlib.contextmanager
    def subscribe(self, job_id: str) -> Iterator[asyncio.Event]:
        """An event that is set at each change while the block lasts; clear it before reading the store."""
        event = asyncio.Event()
        self._waiting.setdefault(job_id, set()).add(event)
        try:
            yield event
        finally:
            mine = self._waiting[job_id]
            mine.discard(event)
            if not mine:
                del self._waiting[job_id]

    @contextlib.contextmanager
    def subscribe_all(self) -> Iterator[asyncio.Event]:
        """An event that is set at each change of any job while the block lasts."""
        event = asyncio.Event()
        self._everything.add(event)
        try:
            yield event
        finally:
            self._everything.discard(event)
