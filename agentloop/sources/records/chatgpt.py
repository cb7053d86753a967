"""ChatGPT exports: a conversation is a tree of nodes, and one branch of it is what the person saw last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentloop.sources.records.fields import LONG_BLOB, LeftOut, clean, harvest, is_binary
from agentloop.sources.records.node import Node

_OTHER_TEXT = (
    "text", "result", "content", "summary", "thoughts", "title", "user_profile", "user_instructions",
)  # fmt: skip


def branch(node: Node) -> list[tuple[str, Node]]:
    """The nodes from the root to `current_node`; where that is missing, to the latest leaf.

    Null nodes, parents that don't exist and cycles end the branch instead of failing it.
    """
    nodes = {key: kid for key, kid in node.kids.get("mapping", []) if isinstance(kid.value, dict)}
    current = node.get("current_node")
    if current not in nodes:
        current = _latest_leaf(nodes)
    path: list[tuple[str, Node]] = []
    seen: set[str] = set()
    while isinstance(current, str) and current in nodes and current not in seen:
        seen.add(current)
        path.append((current, nodes[current]))
        current = nodes[current].get("parent")
    # a child is written behind its parent; where a file has it otherwise, its own order keeps spans rising
    return sorted(path, key=lambda entry: entry[1].start.byte)


def _latest_leaf(nodes: dict[str, Node]) -> str | None:
    """The leaf with the latest message; among equals the last one in the file."""
    best: tuple[float, str | None] = (float("-inf"), None)
    for key, node in nodes.items():
        children = node.get("children")
        leaf = not (
            isinstance(children, list) and any(child in nodes for child in children if _hashable(child))
        )
        message = node.get("message")
        when = message.get("create_time") if isinstance(message, dict) else None
        stamp = float(when) if isinstance(when, int | float) else 0.0
        if leaf and stamp >= best[0]:
            best = (stamp, key)
    return best[1] if best[1] is not None else next(reversed(nodes), None)


def _hashable(value: Any) -> bool:
    return isinstance(value, str | int)


def message_text(message: Mapping[str, Any], left: LeftOut) -> str:
    """The text of a message; parts that are images or sound are counted, not read."""
    metadata = message.get("metadata")
    if isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation"):
        return ""
    content = message.get("content")
    if isinstance(content, str):
        return clean(content.strip())
    if not isinstance(content, dict):
        return ""
    return "\n".join(_parts(content, left)).strip()


def _parts(content: Mapping[str, Any], left: LeftOut) -> list[str]:
    parts = content.get("parts")
    found: list[str] = []
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, str) and (len(part) < LONG_BLOB or not is_binary("", part)):
            found.append(clean(part.strip()))
        elif isinstance(part, dict) and not is_binary("", part):
            found += harvest({key: part[key] for key in ("text", "title", "url") if key in part}, left)
        elif isinstance(part, dict):
            left.binary[str(part.get("content_type", "part"))] += 1
        else:
            found += harvest(part, left)
    for key in _OTHER_TEXT:
        if key in content:
            found += harvest(content[key], left, "text")
    return found
