"""What a logger or a runner puts before the message: a stamp, a level, a step's mark."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentloop.logs.severity import Level, level_inside, level_named, level_of_klog
from agentloop.logs.timestamps import Stamp, find_stamp

_LEVEL = re.compile(
    r"[ \t]{0,3}(?:##\[(?P<gh>\w+)\]|::(?P<cmd>error|warning|notice)\b[^:]{0,300}::"
    r"|[\[(<|]?(?P<word>TRACE|DEBUG|FINE|INFO|NOTICE|WARN|WARNING|ERROR|ERR|SEVERE|CRITICAL|CRIT|FATAL"
    r"|ALERT|EMERG"
    r"|trace|debug|info|notice|warn|warning|error|critical|fatal)"
    r"(?: {0,2}[\])>|]|(?=[ \t:]))(?=[\s:\])>|-]|$))"
    r"(?:[ \t]?:)?[ \t]?"
)
_STEP = re.compile(r"#\d{1,4} (?=\S)(?:\d{1,6}\.\d{1,3} )?")
_KLOG_PLACE = re.compile(r" {0,12}\d{1,8} (?=\S{1,120}:\d{1,6}\] )")
_CLOSE = re.compile(r"[\])>|]{0,2}:?")
_LEVEL_LOOK = 120  # characters after the stamp in which a logger's level stands


@dataclass(frozen=True, slots=True)
class Prefix:
    """A line split: the message with its indentation, and what stood before it."""

    text: str
    level: Level
    stamp: Stamp | None
    found: bool


def split_prefix(line: str) -> Prefix:
    """Split a clean line (no ANSI) into its prefix and its message."""
    stamp, at = _stamp(line)
    level = Level.NONE
    match = _LEVEL.match(line, at)
    if (
        match is not None
        and match.end() > at
        and (at or line[:1] in "[#:(<|" or (match["word"] or "").isupper())
    ):
        level = level_named(match["gh"] or match["cmd"] or match["word"])
        if level is not Level.NONE:
            bare = stamp is None and line[:1] not in "[#:(<|"  # "ERROR: x" without a logger is the message
            end = match.end()
            if len(match["word"] or "") == 4 and line[end : end + 1] == " " != line[end + 1 : end + 2]:
                end += 1  # INFO and WARN are padded to the five letters of ERROR: no indentation
            return Prefix(line if bare else line[end:], level, stamp, True)
    if stamp is not None:
        place = _KLOG_PLACE.match(line, at)
        at = place.end() if place else at
        letter = stamp.text[:1] if stamp.text[1:2].isdigit() else ""
        level = level_of_klog(letter) if letter.isalpha() else level_inside(line[at : at + _LEVEL_LOOK])
    elif "level" in line[:_LEVEL_LOOK] or "severity" in line[:_LEVEL_LOOK]:
        level = level_inside(line[:_LEVEL_LOOK])
    return Prefix(line[at:], level, stamp, stamp is not None)


def without_prefix(line: str) -> str:
    """The message of a clean line, with the indentation that it has after stamp and level."""
    return split_prefix(line).text


def _stamp(line: str) -> tuple[Stamp | None, int]:
    """The stamp at the line's start and where the message begins."""
    first = line[:1]
    if first == "#":
        step = _STEP.match(line)
        return find_stamp(line), step.end() if step else 0
    if first in ("\t", "") or not (first.isdigit() or first in "[(<| {" or ":" in line[:240]):
        return None, 0
    stamp = find_stamp(line)
    if stamp is None or first in "{t":
        return stamp, 0  # a structured line is its own message
    close = _CLOSE.match(line, stamp.end)
    at = close.end() if close else stamp.end
    return stamp, at + 1 if line[at : at + 1] == " " else at
