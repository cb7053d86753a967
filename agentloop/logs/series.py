"""Rotated logs: the files of one stream, oldest first.

Forms are those of logrotate, Python's handlers and log4j: `app.log`, `app.log.1`, `app.log.2.gz` (a larger
number is older) and `app.log-20240501`, `app.log.2024-05-01_13` (dates rise). Other numbered names are
logs of different runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentloop.types import SourceFile

_PACKED = re.compile(r"\.(?:gz|xz|bz2|zst)$", re.IGNORECASE)
_NUMBER = re.compile(r"^(?P<base>.+)\.(?P<number>\d{1,4})$")
_DATE = re.compile(r"^(?P<base>.+)[.-](?P<date>\d{4}-?\d\d-?\d\d(?:[T_-]?\d\d(?:[-:_]?\d\d){0,2})?)$")
_LOGGED = re.compile(r"(?:\.(?:log|out|err|txt)|log|messages)$", re.IGNORECASE)
_NEWEST = (1, "", 0)


def series(files: Sequence[SourceFile]) -> list[tuple[SourceFile, ...]]:
    """The logs as streams, in the order of each stream's first file among `files`.

    Rotated files of one input, folder and base name are one stream, oldest first; any other log is alone.
    """
    streams: dict[tuple[str, str], list[tuple[tuple[int, str, int], SourceFile]]] = {}
    for file in files:
        base, age = _named(file.path)
        streams.setdefault((file.input_id, base), []).append((age, file))
    return [tuple(file for _, file in sorted(group, key=lambda m: m[0])) for group in streams.values()]


def _named(path: str) -> tuple[str, tuple[int, str, int]]:
    """The base name of a rotated log with its folder, and a key that rises with time."""
    plain = _PACKED.sub("", path)
    if (dated := _DATE.match(plain)) and _LOGGED.search(dated["base"]):
        return dated["base"], (0, dated["date"], 0)
    if (numbered := _NUMBER.match(plain)) and _LOGGED.search(numbered["base"]):
        return numbered["base"], (0, "", -int(numbered["number"]))
    return (plain, _NEWEST) if _LOGGED.search(plain) and plain == path else (path, _NEWEST)
