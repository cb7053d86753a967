"""Looks at the file system share a trip to a thread, and nothing else."""

from __future__ import annotations

import asyncio
import threading

import pytest

from broker.offload import Offload


async def test_looks_of_one_moment_share_a_trip_and_each_gets_its_own() -> None:
    offload = Offload()
    threads: list[int] = []

    def look(number: int) -> int:
        threads.append(threading.get_ident())
        if number == 3:
            raise FileNotFoundError(number)
        return number * 10

    found = await asyncio.gather(
        *(offload.run("root", lambda n=n: look(n)) for n in range(6)),  # type: ignore[misc]
        return_exceptions=True,
    )
    assert [f for f in found if not isinstance(f, Exception)] == [0, 10, 20, 40, 50]
    assert isinstance(found[3], FileNotFoundError)
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


async def test_a_place_that_hangs_keeps_no_other_waiting() -> None:
    offload, hangs = Offload(), threading.Event()
    stuck = asyncio.create_task(offload.run("nfs", lambda: hangs.wait(30)))
    async with asyncio.timeout(10):
        assert await offload.run("disk", lambda: "seen") == "seen"
    assert not stuck.done()
    hangs.set()
    assert await stuck


async def test_a_caller_that_goes_away_takes_nobody_along() -> None:
    offload, gate = Offload(), threading.Event()
    gone = asyncio.create_task(offload.run("root", lambda: gate.wait(30)))
    stays = asyncio.create_task(offload.run("root", lambda: "here"))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    gate.set()
    assert await stays == "here"
