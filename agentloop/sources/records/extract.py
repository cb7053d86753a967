"""Records: JSON and JSON Lines of items, and exports of conversations, one derived item a record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from agentloop.sources.records.emit import Emitter
from agentloop.sources.records.fields import LeftOut
from agentloop.sources.records.newest import Newest
from agentloop.sources.records.node import Node, read_node
from agentloop.sources.records.pull import JsonPull, MalformedError
from agentloop.types import Content, Derived, Memory

EXTRACTOR = "records"
VERSION = "1"
_PLAIN_NAME = re.compile(r"[\w$@.:-]{1,40}")
_BLOCK = 1 << 20
_LONGEST_LINE = 64 << 20


class BinaryOnlyError(ValueError):
    """Records without any text."""


def extract_records(content: Content, max_chars: int) -> Derived:
    """One item a record or message, with the bytes and lines of its JSON element.

    The text of all items is at most `max_chars` characters: whole records at the older end of the file
    are left out, and the notes say how many.

    Raises:
        BinaryOnlyError: the records hold binary data only.
        ValueError: no record has text, or the file is no JSON at all.
    """
    left = LeftOut()
    newest = Newest(max_chars)
    _read(content, Emitter(content, newest, left), left)
    if not newest.total and left.binary:
        raise BinaryOnlyError(f"its records hold binary data only ({_counted(left.binary)})")
    if not newest.total:
        raise ValueError("it is no JSON" if left.malformed or left.broken_line else "no record holds text")
    kept = newest.kept()
    return Derived(EXTRACTOR, VERSION, kept, tuple(_notes(left, newest, len(kept))))


def extract_all(data: bytes, limit: int) -> Derived:
    """As `extract_records` without a cap: verification looks for records by their bytes."""
    return extract_records(Memory(data), len(data) + 1)


def _read(content: Content, emitter: Emitter, left: LeftOut) -> None:
    """Give each element of an array, a stream or lines of JSON to the emitter."""
    pull = JsonPull(content)
    first = pull.peek()
    number = 0
    step = True
    try:
        if first == "[":
            for number in pull.elements():
                node = read_node(pull, step=step)
                step = bool(node.kids)
                emitter.element(node, str(number + 1))
            return
        while first:  # JSON Lines, or one object
            number += 1
            node = read_node(pull, step=step)
            step = bool(node.kids)
            emitter.element(node, str(number))
            first = pull.peek()
    except MalformedError as exc:
        if first == "[":  # an array can't go on behind what is no JSON, lines can
            left.broken_line = exc.at.line
        else:
            left.broken(exc.at.line)
            _lines(content, exc.at.byte, exc.at.line, emitter, left, number)


def _lines(content: Content, at: int, line: int, emitter: Emitter, left: LeftOut, number: int) -> None:
    """The items of the lines behind the one that holds byte `at`, each line for itself."""
    start = -1  # of the current line; the one with `at` is known to be no JSON
    while at < content.size:
        data = content.read(at, at + _BLOCK)
        found = data.find(b"\n")
        if found < 0 and at + len(data) < content.size and len(data) < _LONGEST_LINE:
            data = content.read(at, at + _LONGEST_LINE)
            found = data.find(b"\n")
        while found >= 0 or at + len(data) >= content.size:
            end = at + found + 1 if found >= 0 else content.size
            if start >= 0:
                number += 1
                _line(JsonPull(content, start, line, end), emitter, left, number)
            if found < 0:
                return
            start, line = end, line + 1
            found = data.find(b"\n", found + 1)
        at = start if start > at else at + len(data)


def _line(pull: JsonPull, emitter: Emitter, left: LeftOut, number: int) -> None:
    """The objects of a line, if it holds nothing else: `"key": 1,` of a broken object is no record."""
    nodes: list[Node] = []
    try:
        while opened := pull.peek():
            if opened not in "{[":
                raise MalformedError(pull.mark)
            nodes.append(read_node(pull))
    except MalformedError as exc:
        left.broken(exc.at.line)
    else:
        for node in nodes:
            emitter.element(node, str(number))


def _counted(fields: Counter[str]) -> str:
    """At most eight fields with their counts, by name."""
    counts: Counter[str] = Counter()
    for name, count in fields.items():
        counts[_told(name)] += count
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())[:8])


def _told(name: str) -> str:
    """A field's name as notes carry it: they stand in a model's instructions, so no sentence may."""
    return name if _PLAIN_NAME.fullmatch(name) else "(other)"


def _notes(left: LeftOut, newest: Newest, kept: int) -> Iterator[str]:
    """What a model must know of the data that it can't see."""
    yield from newest.notes("records", kept)
    if left.binary:
        yield f"binary data is left out ({_counted(left.binary)})"
    if left.reserved:
        yield f"reserved fields are left out ({', '.join(sorted(set(map(_told, left.reserved)))[:8])})"
    if left.branches:
        yield f"{left.branches} messages of other branches than the chosen one are left out"
    if left.broken_line:
        yield f"from line {left.broken_line} on it is no JSON; the records there are left out"
    if left.malformed:
        if left.malformed == 1:
            yield f"line {left.first_malformed} is no JSON; the record there is left out"
        else:
            first = f"the first at line {left.first_malformed}"
            yield f"{left.malformed} places are no JSON, {first}; the records there are left out"
    if left.deep:
        yield f"{left.deep} values are nested too deeply and left out"
