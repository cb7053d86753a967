"""Short looks at the file system, off the event loop: those of one moment share one trip to a thread.

A trip costs more than such a look: two threads that want the interpreter in turn wait for each other.
Only looks at the same place travel together, so that a mount that hangs keeps nobody else waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
_Waiting = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Offload:
    """Runs functions on the loop's thread pool."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[_Waiting]] = {}
        self._trips: set[asyncio.Future[list[Any]]] = set()

    async def run(self, place: Hashable, work: Callable[[], T]) -> T:
        """What `work` returns or raises. It must not take long: others at `place` wait for it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        waiting = self._waiting.setdefault(place, [])
        waiting.append((work, future))
        if len(waiting) == 1:
            loop.call_soon(self._leave, place)
        return await future

    def _leave(self, place: Hashable) -> None:
        batch = self._waiting.pop(place)
        works = [work for work, _ in batch]
        trip = asyncio.get_running_loop().run_in_executor(None, _outcomes, works)
        self._trips.add(trip)
        trip.add_done_callback(lambda done: self._arrive(done, batch))

    def _arrive(self, trip: asyncio.Future[list[Any]], batch: Sequence[_Waiting]) -> None:
        self._trips.discard(trip)
        if trip.cancelled():
            for _, future in batch:
                future.cancel()
            return
        for (_, future), outcome in zip(batch, trip.result(), strict=True):
            if future.done():  # its caller went away
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)


def _outcomes(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """The result of each, or the exception that it raised: that is for its own caller."""
    outcomes: list[Any] = []
    for work in works:
        try:
            outcomes.append(work())
        except Exception as exc:  # noqa: BLE001 - raised again where it belongs
            outcomes.append(exc)
    return outcomes
