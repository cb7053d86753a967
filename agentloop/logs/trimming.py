"""What of a failure block is worth citing: without headers that say nothing and the runner's epilogue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentloop.logs.failures import Block
from agentloop.logs.lines import Line

LOOK = 200
_EMPTY_HEADER = re.compile(
    r"^\s*(?:COMPILATION ERROR ?:?|BUILD FAIL(?:URE|ED)|[-=_*~#.\s]*|ERRORS?:?|\d+ errors?)\s*$"
)
EPILOGUE = re.compile(
    r"^\s*(?:\[WS-CLEANUP\]|Archiving artifacts|Sending e-?mails|Recording test results|Post job cleanup|Cleaning up"
    r"|Uploading artifacts|Running after.script|Saving cache|Finished: |Skipped archiving|Notifying|\[Pipeline\]"
    r"|Started calculate|Email was triggered|An attempt to send|Terminate orphan process|BUILD FAIL(?:URE|ED))"
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
