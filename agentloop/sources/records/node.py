"""Records as a shallow tree: an object, its bytes, and the messages inside it with theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agentloop.sources.records.fields import TEXT_KEYS
from agentloop.sources.records.pull import JsonPull, Mark

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


def read_node(pull: JsonPull, level: int = 0) -> Node:
    """The next value. Containers are stepped into, so that what they hold has spans of its own.

    Raises:
        MalformedError: it is no JSON.
    """
    pull.peek()
    start = pull.mark
    value, take = pull.glance()
    if level >= _MAX_LEVELS or not _has_containers(value):
        take()
        return Node(value, start, pull.mark)
    members: dict[str, Any] = {}
    node = Node(members, start, start)
    for key in pull.members():
        opened = pull.peek() if key in CONTAINERS else ""
        if opened and opened in "[{":
            node.kids_start = node.kids_start or pull.mark
            node.kids[key] = list(_kids(pull, opened, level))
        else:
            members[key] = pull.value()
    node.end = pull.mark
    return node


def _has_containers(value: Any) -> bool:
    return isinstance(value, dict) and any(
        isinstance(value[key], dict | list) for key in CONTAINERS.intersection(value)
    )


def _kids(pull: JsonPull, opened: str, level: int) -> Iterator[tuple[str, Node]]:
    """The members of a container; a container right inside one, as in `{"chats": {"list": […]}}`, opens."""
    if opened == "[":
        for number in pull.elements():
            yield str(number), read_node(pull, level + 1)
        return
    for name in pull.members():
        if name in CONTAINERS and pull.peek() == "[":
            yield from _kids(pull, "[", level + 1)
        else:
            yield name, read_node(pull, level + 1)


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
