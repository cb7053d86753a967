"""A fast outline by regular expressions: names of definitions and imports, without a parser.

It is meant for index fields and for cutting windows, over every file of a corpus. It reads tens of
megabytes a second and never more than a bounded look-ahead per line, so hostile input can't stall it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from agentloop.chunking.languages import DEFINITIONS, GENERIC, IMPORTS, KINDS, canonical

_BOM = b"\xef\xbb\xbf"
_FIRST_LINE_BYTES = 4096
"""The first line has no line end before it: so much of the file is matched with one put there."""


class Definition(NamedTuple):
    """A definition as a regular expression sees it. `byte_offset` is the start of its line."""

    name: str
    kind: str
    byte_offset: int


Mark = tuple[int, int, bytes, str]
"""A definition inside the chunker: offset of its line, width of its indentation, raw name, group name.

A plain tuple: there are tens of thousands, and making named ones costs a third of the outline's time.
"""


_compiled: dict[str, re.Pattern[bytes]] = {}


def _pattern(language: str) -> re.Pattern[bytes]:
    """A language's pattern after a line end, compiled on first use: all of them would cost every start-up.

    A literal `\\n` first lets the engine skip from line to line instead of trying each byte.
    """
    found = _compiled.get(language)
    if found is None:
        body = DEFINITIONS.get(canonical(language), GENERIC)
        flags = re.IGNORECASE if body.startswith("(?i)") else 0
        raw = body.removeprefix("(?i)").encode("ascii")
        found = _compiled[language] = re.compile(rb"\n([ \t]*+)(?:" + raw + rb")", flags)
    return found


def marks(data: bytes, language: str) -> list[Mark]:
    """The definitions of a file in order of offset. Names and kinds come from the matching group."""
    pattern = _pattern(language)
    found: list[Mark] = []
    skipped = 3 if data.startswith(_BOM) else 0
    head = pattern.match(b"\n" + data[skipped : skipped + _FIRST_LINE_BYTES])
    if head is not None:
        found.append((0, head.end(1) - head.start(1), head[head.lastindex or 0], head.lastgroup or ""))
    found += [
        (start := m.start() + 1, m.end(1) - start, m[m.lastindex or 0], m.lastgroup or "")
        for m in pattern.finditer(data)
    ]
    return found


def outline(text: bytes | str, language: str) -> tuple[Definition, ...]:
    """The definitions that line-anchored regular expressions find, in order.

    Args:
        text: a file's bytes or its text; offsets are always those of the UTF-8 bytes.
        language: a language's name; an unknown one gets a generic pattern.
    """
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return tuple(
        Definition(name.decode("utf-8", "replace"), KINDS.get(kind, kind), offset)
        for offset, _, name, kind in marks(data, language)
    )


def import_targets(text: bytes | str, language: str) -> list[str]:
    """What a file imports, as written (`a.b`, `./x`, `<stdio.h>` as `stdio.h`), in order, each once."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    pattern = IMPORTS.get(canonical(language))
    if pattern is None:
        return []
    seen: dict[str, None] = {}
    for match in re.finditer(pattern.encode("ascii"), data, re.MULTILINE):
        for group in match.groups():
            if group:
                for target in re.split(rb"[\s,]+(?:as\s+\w+\s*,?\s*)?", group.strip()):
                    if target:
                        seen[target.decode("utf-8", "replace")] = None
    return list(seen)
