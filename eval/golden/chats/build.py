"""Builds the export and the questions of this set from the hand-written texts in `source/`.

    python eval/golden/chats/build.py

Ids are UUIDs made from names, times follow from each conversation's date: the same texts give the same
files. The shape is that of a ChatGPT data export (`conversations.json`): a tree of messages a
conversation, with an empty root and a hidden system message, newest conversation first, as exports have it.
"""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NAMESPACE = uuid.UUID("6f1c2f0e-7d3a-4c55-9a61-3d9e5f0b8a27")
TEXTS = ("english_1.txt", "english_2.txt", "polish.txt")
ROLES = {"U": "user", "A": "assistant"}


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation as written: `messages` are `(role, text)`."""

    slug: str
    title: str
    started: datetime
    messages: tuple[tuple[str, str], ...]


def read(path: Path) -> list[Conversation]:
    """The conversations of a text file, in its order."""
    found: list[Conversation] = []
    for block in path.read_text(encoding="utf-8").split("# ")[1:]:
        head, *lines = block.strip().split("\n")
        slug, title, when = (part.strip() for part in head.split("|"))
        started = datetime.strptime(when, "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
        messages = tuple((ROLES[line[0]], line[3:].strip()) for line in lines)
        found.append(Conversation(slug, title, started, messages))
    return found


def message_id(slug: str, number: int | str) -> str:
    """The id of a conversation's message; messages count from 1."""
    return str(uuid.uuid5(NAMESPACE, f"{slug}/{number}"))


def export(conversation: Conversation) -> dict[str, Any]:
    """A conversation in the shape of the export."""
    chance = random.Random(conversation.slug)  # noqa: S311  # pauses between messages, no secret
    slug, clock = conversation.slug, conversation.started.timestamp()
    root, hidden = message_id(slug, "root"), message_id(slug, "system")
    mapping: dict[str, Any] = {root: {"id": root, "message": None, "parent": None, "children": [hidden]}}
    mapping[hidden] = _node(hidden, root, "system", "", clock, hidden=True)
    parent = hidden
    for number, (role, text) in enumerate(conversation.messages, 1):
        clock += chance.randint(20, 90) if role == "assistant" else chance.randint(60, 900)
        node = message_id(slug, number)
        mapping[parent]["children"].append(node)
        mapping[node] = _node(node, parent, role, text, clock)
        parent = node
    return {
        "title": conversation.title,
        "create_time": conversation.started.timestamp(),
        "update_time": clock,
        "mapping": mapping,
        "current_node": parent,
        "conversation_id": message_id(slug, "conversation"),
        "id": message_id(slug, "conversation"),
    }


def _node(
    node: str, parent: str, role: str, text: str, clock: float, *, hidden: bool = False
) -> dict[str, Any]:
    message: dict[str, Any] = {
        "id": node,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": None if hidden else clock,
        "update_time": None,
        "content": {"content_type": "text", "parts": [text]},
        "status": "finished_successfully",
        "end_turn": role == "assistant",
        "weight": 0.0 if hidden else 1.0,
        "metadata": {"is_visually_hidden_from_conversation": True} if hidden else {},
        "recipient": "all",
    }
    return {"id": node, "message": message, "parent": parent, "children": []}


def questions(conversations: dict[str, Conversation]) -> list[dict[str, Any]]:
    """The questions with their gold as message ids.

    Raises:
        ValueError: a gold entry names a message that isn't there.
    """
    rows = []
    lines = (HERE / "source" / "questions.txt").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate((x for x in lines if x and not x.startswith("#")), 1):
        kind, lang, question, places = (part.strip() for part in line.split("|"))
        gold = []
        for place in (p.strip() for p in places.split(",")):
            slug, at = place.split("/")
            if not 1 <= int(at) <= len(conversations[slug].messages):
                raise ValueError(f"{place}: no such message")
            gold.append(message_id(slug, int(at)))
        rows.append(
            {
                "id": f"chats-{number:02d}",
                "question": question,
                "gold": gold,
                "lang": lang,
                "kind": kind,
                "places": [p.strip() for p in places.split(",")],
            }
        )
    return rows


def main() -> None:
    """Write `conversations.json` and `questions.jsonl` beside this file."""
    found = sorted((c for name in TEXTS for c in read(HERE / "source" / name)), key=lambda c: c.started)
    # one line, with every character outside ASCII escaped: as the real exports are written
    exported = json.dumps([export(c) for c in reversed(found)])
    (HERE / "conversations.json").write_text(exported + "\n", encoding="utf-8")
    rows = questions({c.slug: c for c in found})
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (HERE / "questions.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
