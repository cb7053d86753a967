"""Terminal control sequences: removed from what is read, with the offsets of what stays."""

from __future__ import annotations

import re
from dataclasses import dataclass

# ECMA-48 CSI, OSC and two-character escapes. Each alternative is linear: no repeat overlaps the next.
ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[()][0-9A-Za-z]|[@-Z\\^_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Stripped:
    """Text without control sequences. `offsets[i]` is the place of character `i` in the raw text."""

    text: str
    offsets: tuple[int, ...]


def strip(raw: str) -> str:
    """One line without escapes and control characters, as a terminal would show it at the end.

    Text before a carriage return was overwritten, so that only the last non-blank part stays.
    """
    if raw.isprintable():
        return raw
    text = ESCAPE.sub("", raw) if "\x1b" in raw else raw
    if "\r" in text:
        parts = [part for part in text.split("\r") if part.strip()]
        text = parts[-1] if parts else ""
    return _CONTROL.sub("", text)


def strip_mapped(raw: str) -> Stripped:
    """`strip` with the offset of each kept character, for spans inside a coloured line."""
    kept = list(range(len(raw)))
    for match in reversed(list(ESCAPE.finditer(raw))):
        del kept[match.start() : match.end()]
    groups: list[list[int]] = [[]]
    for offset in kept:
        if raw[offset] == "\r":
            groups.append([])
        else:
            groups[-1].append(offset)
    shown = [g for g in groups if "".join(raw[o] for o in g).strip()]
    last = shown[-1] if shown else []
    offsets = tuple(o for o in last if not _CONTROL.match(raw[o]))
    return Stripped("".join(raw[o] for o in offsets), offsets)
