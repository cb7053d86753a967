"""What of a failure block is worth citing: without headers that say nothing and the runner's epilogue."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agentloop.logs.failures import Block, Kind
from agentloop.logs.growth import RARE
from agentloop.logs.lines import Line
from agentloop.logs.phases import Phase, phase_of
from agentloop.logs.templates import quick_key
from agentloop.logs.verdicts import EPILOGUE

LOOK = 200
LEAD_UP_LINES = 12
_EMPTY_HEADER = re.compile(
    r"^\s*(?:COMPILATION ERROR ?:?|BUILD FAIL(?:URE|ED)|[-=_*~#.\s]*|ERRORS?:?|\d+ errors?)\s*$"
)


@dataclass(frozen=True, slots=True)
class Extent:
    """Line indexes, inclusive."""

    first: int
    last: int


def extent(lines: Sequence[Line], block: Block) -> Extent:
    """The block without empty headers at its start and the runner's epilogue at its end; never empty."""
    first, last = block.first, block.last
    while last > block.head and (_blank(lines[last]) or EPILOGUE.match(lines[last].text[:LOOK])):
        last -= 1
    while first < block.head and _EMPTY_HEADER.match(lines[first].text[:LOOK]):
        first += 1
    if _EMPTY_HEADER.match(lines[first].text[:LOOK]):
        ahead = first
        while ahead < last and _EMPTY_HEADER.match(lines[ahead].text[:LOOK]):
            ahead += 1
        first = ahead
    return Extent(first, max(first, last))


def _blank(line: Line) -> bool:
    return not line.text.strip()


def lead_up(lines: Sequence[Line], phases: Sequence[Phase], block: Block) -> Extent | None:
    """The output of the same step right above a stack trace: what the program said before it crashed.

    Only plain output that is rare in the log counts: a logger's line, a command, another step or a line
    of a kind that recurs (a passed test) ends it.
    """
    if block.kind is not Kind.STACK_TRACE:
        return None
    phase = phase_of(phases, block.first)
    floor = phase.at + 1 if phase is not None else 0
    near = {quick_key(line.text) for line in lines[max(0, block.first - LEAD_UP_LINES) : block.first]}
    counts = Counter(key for line in lines if (key := quick_key(line.text)) in near and line.text.strip())
    first = block.first
    while first > floor and block.first - first < LEAD_UP_LINES:
        above = lines[first - 1]
        if above.prefixed or (above.text.strip() and counts[quick_key(above.text)] > RARE):
            break
        first -= 1
    while first < block.first and _blank(lines[first]):
        first += 1
    return Extent(first, block.first - 1) if first < block.first else None
