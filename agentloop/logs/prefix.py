"""What a logger puts before the message: a stamp, a level, a runner's marks."""

from __future__ import annotations

import re

from agentloop.logs.timestamps import find_stamp

LEVEL = re.compile(
    r"[ \t]{0,3}(?:##\[(?P<gh>\w+)\]|::(?P<cmd>error|warning|notice)\b[^:]{0,300}::"
    r"|[\[(<|]?(?P<word>TRACE|DEBUG|FINE|INFO|NOTICE|WARN|WARNING|ERROR|ERR|SEVERE|CRITICAL|CRIT|FATAL|ALERT|EMERG"
    r"|trace|debug|info|notice|warn|warning|error|critical|fatal)(?:[\])>|]|(?=[ \t:]))(?=[\s:\])>|-]|$))"
    r"(?:[ \t]?:)?[ \t]?"
)
_STEP = re.compile(r"#\d{1,4} (?=\S)(?:\d{1,6}\.\d{1,3} )?")
_CLOSE = re.compile(r"[\])>|Z]{0,2}:?")


def without_prefix(line: str) -> str:
    """The message of a clean line, with the indentation that it has after stamp and level."""
    at = 0
    first = line[:1]
    if first == "#":
        step = _STEP.match(line)
        at = step.end() if step else 0
    elif first not in ("\t", "") and (first.isdigit() or first in "[(<| " or line[:240].find(":") > 0):
        stamp = find_stamp(line)
        if stamp is not None:
            at = stamp.end
            close = _CLOSE.match(line, at)
            at = close.end() if close else at
            if line[at : at + 1] == " ":
                at += 1
    level = LEVEL.match(line, at)
    if (
        level is not None
        and level.end() > at
        and (at or line[:1] in "[#:(<|" or level.group("word").isupper())
    ):
        return line[level.end() :]
    return line[at:]
