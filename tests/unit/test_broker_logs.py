"""The broker's log: the lines of one turn of the loop in one write, in order; others at once."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import threading

import pytest

from broker.jobs.model import new_id
from broker.logs import JsonLines, Lines


class Counted(io.StringIO):
    """A stream that counts its writes."""

    def __init__(self, *, broken: bool = False) -> None:
        super().__init__()
        self.writes = 0
        self.broken = broken

    def write(self, text: str) -> int:
        """Count and keep, or fail as a full disk does."""
        self.writes += 1
        if self.broken:
            raise OSError(28, "No space left on device")
        return super().write(text)


def logger(stream: Counted) -> logging.Logger:
    found = logging.Logger("broker.test")
    handler = Lines(stream)
    handler.setFormatter(JsonLines())
    found.addHandler(handler)
    return found


async def test_lines_of_a_turn_are_written_together_before_the_loop_waits() -> None:
    stream = Counted()
    log = logger(stream)
    for number in range(3):
        log.info("turn", extra={"number": number})
    assert stream.writes == 0
    await asyncio.sleep(0)
    assert stream.writes == 1
    thread = threading.Thread(target=log.info, args=("from a thread\nwith a line",))
    thread.start()
    thread.join()
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("number") for line in found] == [0, 1, 2, None]
    assert found[3]["message"] == "from a thread\nwith a line"


@pytest.mark.req("A6")
def test_a_log_that_cannot_be_written_stops_nobody() -> None:
    stream = Counted(broken=True)
    log = logger(stream)
    log.info("one")
    log.info("two")
    assert stream.writes == 2


def test_a_fork_gives_ids_of_its_own() -> None:
    new_id("job")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, new_id("job").encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).decode()[-16:] != new_id("job")[-16:]
    os.close(reader)
    os.close(writer)
