"""Who waits for a job: wake-ups inside this process, carrying nothing but that something changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator


class Bus:
    """Tells waiters of a job that it changed. They read the store for what."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def publish(self, job_id: str) -> None:
        """Wake all who wait for this job."""
        for event in self._waiting.get(job_id, ()):
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
