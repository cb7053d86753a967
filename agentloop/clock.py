"""Time as a value that tests can hold. Durations use the monotonic clock, stamps the wall clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def monotonic(self) -> float:
        """Seconds since some fixed point; never goes back."""
        ...

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """Seconds since some fixed point; never goes back."""
        return time.monotonic()

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return datetime.now(UTC)
