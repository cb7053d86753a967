"""Records: JSON and JSON Lines of items, and exports of conversations, one derived item a record."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agentloop.sources.documents.spans import MAX_ANCHOR_LINES, anchor
from agentloop.sources.records import chatgpt
from agentloop.sources.records.fields import (
    ID_KEYS,
    SPEAKER_KEYS,
    TEXT_KEYS,
    TIME_KEYS,
    TITLE_KEYS,
    LeftOut,
    clean,
    first_of,
    harvest,
    iso_time,
    name_of,
)
from agentloop.sources.records.node import Node, read_node, says_something, whole
from agentloop.sources.records.pull import JsonPull, MalformedError, Mark
from agentloop.types import Content, Derived, Item, Memory

EXTRACTOR = "records"
VERSION = "1"
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
    items = [_bounded(content, item) for item in _items(content, left)]
    if not items and left.binary:
        raise BinaryOnlyError(f"its records hold binary data only ({_counted(left.binary)})")
    if not items:
        raise ValueError("it is no JSON" if left.malformed else "no record holds text")
    kept, dropped = _newest(items, max_chars)
    return Derived(EXTRACTOR, VERSION, kept, tuple(_notes(left, dropped, len(items))))


def extract_all(data: bytes, limit: int) -> Derived:
    """As `extract_records` without a cap: verification looks for records by their bytes."""
    return extract_records(Memory(data), len(data) + 1)


def _bounded(content: Content, item: Item) -> Item:
    """An element of many lines (pretty-printed metadata) is named by its first ones: refs are short."""
    if item.line_end - item.line_start < MAX_ANCHOR_LINES:
        return item
    data = content.read(item.byte_start, item.byte_end)
    _, end, _, last = anchor(data, 0, len(data), item.line_start)
    return replace(item, byte_end=item.byte_start + end, line_end=last)


def _items(content: Content, left: LeftOut) -> Iterator[Item]:
    pull = JsonPull(content)
    first = pull.peek()
    number = 0
    try:
        if first == "[":
            for number in pull.elements():
                yield from _emit(read_node(pull), left, str(number + 1), "")
            return
        while first:  # JSON Lines, or one object
            number += 1
            yield from _emit(read_node(pull), left, str(number), "")
            first = pull.peek()
    except MalformedError as exc:
        left.malformed += 1
        if first != "[":  # an array can't go on behind what is no JSON, lines can
            yield from _lines(content, exc.at, pull.mark.line, left, number)


def _lines(content: Content, at: int, line: int, left: LeftOut, number: int) -> Iterator[Item]:
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
                yield from _line(content, start, end, line, left, number)
            if found < 0:
                return
            start, line = end, line + 1
            found = data.find(b"\n", found + 1)
        at = start if start > at else at + len(data)


def _line(content: Content, start: int, end: int, line: int, left: LeftOut, number: int) -> Iterator[Item]:
    pull = JsonPull(content, start, line, end)
    try:
        if pull.peek():
            yield from _emit(read_node(pull), left, str(number), "")
    except MalformedError:
        left.malformed += 1


def _emit(node: Node, left: LeftOut, number: str, scope: str) -> Iterator[Item]:
    """The items of one element: a message, a record, or a container of either."""
    if "mapping" in node.kids:
        yield from _conversation(node, left, number)
        return
    if not node.kids or not isinstance(node.value, dict):
        yield from _record(node, whole(node), left, number, scope, node.end)
        return
    messages = {key: kids for key, kids in node.kids.items() if _are_messages(kids)}
    if not messages:
        yield from _record(node, whole(node), left, number, scope, node.end)
        return
    inner = name_of(first_of(node.value, TITLE_KEYS)[1]) or scope
    if says_something(node.value) and node.kids_start is not None:
        yield from _record(node, node.value, left, number, scope, node.kids_start)
    identity = name_of(first_of(node.value, ID_KEYS)[1]) or number
    for kids in messages.values():
        for position, (_, kid) in enumerate(kids, 1):
            yield from _emit(kid, left, f"{identity}/{position}", inner)


def _are_messages(kids: list[tuple[str, Node]]) -> bool:
    """Whether most members of a container are messages, or containers of messages themselves."""
    objects = [kid for _, kid in kids if isinstance(kid.value, dict)]
    speaking = sum(1 for kid in objects if says_something(kid.value) or kid.kids)
    return speaking > 0 and speaking * 2 >= len(objects)


def _conversation(node: Node, left: LeftOut, number: str) -> Iterator[Item]:
    title = name_of(node.get("title"))
    identity = name_of(first_of(node.value, ("conversation_id", *ID_KEYS))[1]) or number
    path = chatgpt.branch(node)
    messages = sum(1 for _, kid in node.kids["mapping"] if isinstance(kid.get("message"), dict))
    used = 0
    for key, kid in path:
        message = kid.get("message")
        if not isinstance(message, dict):
            continue
        used += 1
        text = chatgpt.message_text(message, left)
        if text:
            yield Item(
                text,
                kid.start.byte,
                kid.end.byte,
                kid.start.line,
                kid.end.line,
                record_id=name_of(message.get("id")) or f"{identity}/{key}",
                scope=title,
                timestamp=iso_time(message.get("create_time")) or iso_time(node.get("create_time")),
                speaker=sys.intern(name_of(message.get("author"))),
            )
    left.branches += messages - used


def _record(node: Node, value: Any, left: LeftOut, number: str, scope: str, end: Mark) -> Iterator[Item]:
    """A record as one item, if it has text."""
    if not isinstance(value, dict):
        text = "\n".join(harvest(value, left)).strip()
        if text:
            yield Item(text, node.start.byte, end.byte, node.start.line, end.line, number, scope)
        return
    id_key, identity = first_of(value, ID_KEYS)
    time_key, when = first_of(value, TIME_KEYS)
    stamp = iso_time(when)
    speaker_key, speaker = first_of(value, SPEAKER_KEYS)
    scope_key = ""
    if not scope:
        scope_key, container = first_of(value, ("session", "thread", "channel", "conversation", "group"))
        scope = sys.intern(name_of(container))
    used = {id_key, scope_key if scope else "", speaker_key if _is_speaker(value, speaker_key) else ""}
    if stamp:
        used.add(time_key)
    if "session" in value and "group" in value:
        used.add("group")
    text = _text({key: member for key, member in value.items() if key not in used}, left)
    if text:
        yield Item(
            text,
            node.start.byte,
            end.byte,
            node.start.line,
            end.line,
            record_id=name_of(identity) or number,
            scope=scope,
            timestamp=stamp,
            speaker=sys.intern(name_of(speaker)) if speaker_key in used else "",
        )


def _is_speaker(value: Mapping[str, Any], key: str) -> bool:
    """A `name` is a speaker only beside a text: `{"name": …, "price": …}` is a thing."""
    return bool(key) and (key.lower() != "name" or bool(first_of(value, TEXT_KEYS)[0]))


def _text(record: Mapping[str, Any], left: LeftOut) -> str:
    """All text of a record; a title that its text begins with is not told twice."""
    parts = list(harvest(record, left))
    kept = [part for n, part in enumerate(parts) if not (n and parts[0].startswith(part))]
    return clean("\n".join(kept).strip())


def _newest(items: list[Item], max_chars: int) -> tuple[tuple[Item, ...], int]:
    """The items at the newer end of the file whose text fits, and how many were dropped."""
    total = sum(len(item.text) for item in items)
    if total <= max_chars:
        return tuple(items), 0
    stamped = [item.timestamp for item in items if item.timestamp]
    rising = bool(stamped) and stamped[-1] > stamped[0]
    kept: list[Item] = []
    room = max_chars
    for item in reversed(items) if rising else items:
        if len(item.text) > room:
            break
        kept.append(item)
        room -= len(item.text)
    if not kept:
        edge = items[-1] if rising else items[0]
        kept = [replace(edge, text=edge.text[:max_chars])]
    return tuple(reversed(kept) if rising else kept), len(items) - len(kept)


def _counted(fields: Counter[str]) -> str:
    """At most eight fields with their counts, by name."""
    return ", ".join(f"{name} {count}" for name, count in sorted(fields.items())[:8])


def _notes(left: LeftOut, dropped: int, total: int) -> Iterator[str]:
    """What a model must know of the data that it can't see."""
    if dropped:
        yield f"{dropped} of {total} records are left out: the text is over the cap; the newest are kept"
    if left.binary:
        yield f"binary data is left out ({_counted(left.binary)})"
    if left.reserved:
        yield f"reserved fields are left out ({', '.join(sorted(left.reserved)[:8])})"
    if left.branches:
        yield f"{left.branches} messages of other branches than the chosen one are left out"
    if left.malformed:
        yield f"{left.malformed} places are no JSON; the records there are left out"
    if left.deep:
        yield f"{left.deep} values are nested too deeply and left out"
