"""Records as a shallow tree: an object, its bytes, and the messages inside it with theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agentloop.sources.records.fields import TEXT_KEYS
from agentloop.sources.records.pull import JsonPull, MalformedError, Mark

CONTAINERS = frozenset(
    {
        "mapping", "chat_messages", "messages", "conversations", "chats", "list", "threads", "channels",
        "items",
        "records", "data", "entries", "posts", "comments", "turns", "sessions", "replies", "results",
    }
)  # fmt: skip
_MAX_LEVELS = 6  # of containers in containers; deeper ones are values of their record


@dataclass(slots=True)
class Node:
    """A JSON value with its span. `kids` are the members of containers, with the key or number of each."""

    value: Any
    start: Mark
    end: Mark
    kids: dict[str, list[tuple[str, Node]]] = field(default_factory=dict)
    kids_start: Mark | None = None

    def get(self, key: str) -> Any:
        """A member of an object, None where there is none."""
        return self.value.get(key) if isinstance(self.value, dict) else None


def read_node(pull: JsonPull, level: int = 0, *, step: bool = True) -> Node:
    """The next value. Containers are stepped into, so that what they hold has spans of its own.

    Args:
        pull: stands at the value's first character.
        level: how many containers it lies in.
        step: whether containers are to be expected, as its neighbour had some. Stepping into an object
            without any gives the same node; taking it whole is faster.

    Raises:
        MalformedError: it is no JSON; the place is that of the value's start.
    """
    start = pull.mark
    if level < _MAX_LEVELS:
        if step and pull.peek() == "{":
            return _stepped(pull, level, start)
        value, end = pull.glance()
        if _has_containers(value):
            return _stepped(pull, level, start)
        pull.skip(end)
        return Node(value, start, pull.mark)
    return Node(pull.value(), start, pull.mark)


def _stepped(pull: JsonPull, level: int, start: Mark) -> Node:
    members: dict[str, Any] = {}
    node = Node(members, start, start)
    try:
        for key in pull.members():
            opened = pull.peek() if key in CONTAINERS else ""
            if opened and opened in "[{":
                node.kids_start = node.kids_start or pull.mark
                node.kids[key] = list(_kids(pull, opened, level))
            else:
                members[key] = pull.value()
    except MalformedError:
        raise MalformedError(start) from None
    node.end = pull.mark
    return node


def _has_containers(value: Any) -> bool:
    if not isinstance(value, dict) or CONTAINERS.isdisjoint(value):
        return False
    return any(isinstance(value[key], dict | list) for key in CONTAINERS.intersection(value))


def _kids(pull: JsonPull, opened: str, level: int) -> Iterator[tuple[str, Node]]:
    """The members of a container; a container right inside one, as in `{"chats": {"list": […]}}`, opens."""
    step = True
    if opened == "[":
        for number in pull.elements():
            node = read_node(pull, level + 1, step=step)
            step = bool(node.kids)
            yield str(number), node
        return
    for name in pull.members():
        if name in CONTAINERS and pull.peek() == "[":
            yield from _kids(pull, "[", level + 1)
        else:
            node = read_node(pull, level + 1, step=step)
            step = bool(node.kids)
            yield name, node


def whole(node: Node) -> Any:
    """The plain value again, containers put back: for records whose containers hold no messages."""
    if not node.kids:
        return node.value
    members = dict(node.value)
    for key, kids in node.kids.items():
        members[key] = [whole(kid) for _, kid in kids]
    return members


def says_something(value: Any) -> bool:
    """Whether an object has a field that holds text for people."""
    if not isinstance(value, dict):
        return False
    for key, member in value.items():
        if key.lower() in TEXT_KEYS:
            if isinstance(member, str) and member.strip():
                return True
            if isinstance(member, dict | list) and member:
                return True
    return False
