"""Whether a JSON file is a set of records, or configuration and data: in doubt it is data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from agentloop.sources.records.fields import TEXT_KEYS
from agentloop.sources.records.node import Node, read_node
from agentloop.sources.records.pull import JsonPull, MalformedError, Mark
from agentloop.types import Content, Memory

_SAMPLE = 40
_LOOK = 1 << 16
_PROSE_CHARS = 12  # with a space: a name or a code has neither


def looks_like_records(content: Content) -> bool:
    """A list or JSON Lines of objects, most of which hold a text for people, or a container of such.

    Only the first elements are looked at. Configuration is one object without such a container.
    """
    pull = JsonPull(content)
    nodes: list[Node] = []
    first = pull.peek()
    try:
        if first == "[":
            for number in pull.elements():
                nodes.append(read_node(pull))
                if number + 1 >= _SAMPLE:
                    break
        elif first == "{":
            nodes.append(read_node(pull))
            lines = pull.peek() != ""
            while lines and len(nodes) < _SAMPLE and pull.peek():
                nodes.append(read_node(pull))
            if not lines:
                return _holds_messages(nodes[0])
    except MalformedError as exc:
        if first == "{":
            nodes += _behind(content, exc.at)
    present = [node for node in nodes if node.value is not None]
    good = sum(1 for node in present if _holds_messages(node) or _has_prose(node))
    return good > 0 and good * 10 >= len(present) * 6


def _behind(content: Content, at: Mark) -> Iterator[Node]:
    """Elements of the lines behind a broken one, as far as the look goes."""
    rows = content.read(at.byte, at.byte + _LOOK).split(b"\n")[1:_SAMPLE]
    for row in rows[:-1]:
        if row.startswith(b"{"):
            with suppress(MalformedError):
                yield read_node(JsonPull(Memory(row)))


def _holds_messages(node: Node) -> bool:
    if any(isinstance(kid.get("message"), dict) for _, kid in node.kids.get("mapping", [])):
        return True
    for key in ("chat_messages", "messages", "conversations", "chats", "comments", "turns"):
        kids = node.kids.get(key, [])
        good = sum(1 for _, kid in kids[:_SAMPLE] if _has_prose(kid) or _holds_messages(kid))
        if good and good * 2 >= len(kids[:_SAMPLE]):
            return True
    return any(
        _holds_messages(kid) for key in ("list", "data") for _, kid in node.kids.get(key, [])[:_SAMPLE]
    )


def _has_prose(node: Node) -> bool:
    if not isinstance(node.value, dict):
        return False
    for key, value in node.value.items():
        if key.lower() in TEXT_KEYS:
            if isinstance(value, str) and len(value) >= _PROSE_CHARS and " " in value:
                return True
            if isinstance(value, list) and any(isinstance(v, dict) and v.get("text") for v in value):
                return True
    return False
