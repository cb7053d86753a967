"""From a node of JSON to items: messages, records, and containers of either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentloop.items import Group
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
from agentloop.sources.records.newest import Newest
from agentloop.sources.records.node import Node, says_something, whole
from agentloop.sources.records.pull import Mark
from agentloop.types import Content

_SCOPE_KEYS = ("session", "thread", "channel", "conversation", "group")


class Emitter:
    """Puts the items of elements into `newest`, and what gave no text into `left`."""

    def __init__(self, content: Content, newest: Newest, left: LeftOut) -> None:
        self._content = content
        self._newest = newest
        self._left = left

    def element(self, node: Node, number: str, scope: str = "") -> None:
        """The items of one element: a message, a record, or a container of either."""
        if not node.kids:
            self._record(node, node.value, number, scope, node.end)
        elif "mapping" in node.kids:
            self._conversation(node, number)
        elif messages := [kids for kids in node.kids.values() if _are_messages(kids)]:
            self._container(node, messages, number, scope)
        else:
            self._record(node, whole(node), number, scope, node.end)

    def _container(self, node: Node, messages: list[list[tuple[str, Node]]], number: str, scope: str) -> None:
        inner = name_of(first_of(node.value, TITLE_KEYS)[1]) or scope
        if says_something(node.value) and node.kids_start is not None:
            self._record(node, node.value, number, scope, node.kids_start)
        identity = name_of(first_of(node.value, ID_KEYS)[1]) or number
        for kids in messages:
            for position, (_, kid) in enumerate(kids, 1):
                self.element(kid, f"{identity}/{position}", inner)

    def _conversation(self, node: Node, number: str) -> None:
        title = name_of(node.get("title"))
        identity = name_of(first_of(node.value, ("conversation_id", *ID_KEYS))[1]) or number
        started = iso_time(node.get("create_time"))
        messages = sum(1 for _, kid in node.kids["mapping"] if isinstance(kid.get("message"), dict))
        for key, kid in chatgpt.branch(node):
            message = kid.get("message")
            if not isinstance(message, dict):
                continue
            messages -= 1
            text = chatgpt.message_text(message, self._left)
            if text:
                identifier = name_of(message.get("id")) or f"{identity}/{key}"
                stamp = iso_time(message.get("create_time")) or started
                group = (title, name_of(message.get("author")), 0, "")
                self._put(text, kid.start, kid.end, identifier, stamp, group)
        self._left.branches += messages

    def _record(self, node: Node, value: Any, number: str, scope: str, end: Mark) -> None:
        """A record as one item, if it has text."""
        if not isinstance(value, dict):
            text = "\n".join(harvest(value, self._left)).strip()
            if text:
                self._put(text, node.start, end, number, "", (scope, "", 0, ""))
            return
        id_key, identity = first_of(value, ID_KEYS)
        time_key, when = first_of(value, TIME_KEYS)
        stamp = iso_time(when)
        speaker_key, speaker = first_of(value, SPEAKER_KEYS)
        scope_key = ""
        if not scope:
            scope_key, container = first_of(value, _SCOPE_KEYS)
            scope = name_of(container)
        used = {id_key, scope_key if scope else "", speaker_key if _is_speaker(value, speaker_key) else ""}
        if stamp:
            used.add(time_key)
        if "session" in value and "group" in value:
            used.add("group")
        text = _text({key: member for key, member in value.items() if key not in used}, self._left)
        if text:
            who = name_of(speaker) if speaker_key in used else ""
            self._put(text, node.start, end, name_of(identity) or number, stamp, (scope, who, 0, ""))

    def _put(self, text: str, start: Mark, end: Mark, identity: str, stamp: str, group: Group) -> None:
        """Add an item. An element of many lines (pretty-printed metadata) is named by its first ones: refs
        are short.
        """
        span = (start.byte, end.byte, start.line, end.line)
        if end.line - start.line >= MAX_ANCHOR_LINES:
            data = self._content.read(start.byte, end.byte)
            _, size, _, last = anchor(data, 0, len(data), start.line)
            span = (start.byte, start.byte + size, start.line, last)
        self._newest.add(text, span, identity, stamp, group)


def _are_messages(kids: list[tuple[str, Node]]) -> bool:
    """Whether most members of a container are messages, or containers of messages themselves."""
    objects = [kid for _, kid in kids if isinstance(kid.value, dict)]
    speaking = sum(1 for kid in objects if says_something(kid.value) or kid.kids)
    return speaking > 0 and speaking * 2 >= len(objects)


def _is_speaker(value: Mapping[str, Any], key: str) -> bool:
    """A `name` is a speaker only beside a text: `{"name": …, "price": …}` is a thing."""
    return bool(key) and (key.lower() != "name" or bool(first_of(value, TEXT_KEYS)[0]))


def _text(record: Mapping[str, Any], left: LeftOut) -> str:
    """All text of a record; a title that its text begins with is not told twice."""
    parts = list(harvest(record, left))
    kept = [part for n, part in enumerate(parts) if not (n and parts[0].startswith(part))]
    return clean("\n".join(kept).strip())
