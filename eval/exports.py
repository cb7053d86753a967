"""Messages of a ChatGPT data export, for plain rungs and for what a document id means.

A reader of its own: it must not share a fault with the engine's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentloop.reasons import unreadable
from eval.golden import GoldenError


@lru_cache(maxsize=4)
def messages(path: Path) -> tuple[dict[str, str], ...]:
    """`id`, `text`, `session` and `timestamp` of each message with text, oldest first in a conversation.

    Raises:
        GoldenError: the file is no such export.
    """
    try:
        conversations = json.loads(path.read_text(encoding="utf-8"))
        return tuple(message for conversation in conversations for message in _conversation(conversation))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        ours = isinstance(exc, (KeyError, TypeError, AttributeError))
        why = "a conversation has not the form of one" if ours else unreadable(exc)
        raise GoldenError(f"{path}: no ChatGPT export: {why}.") from None


def _conversation(conversation: dict[str, Any]) -> Iterator[dict[str, str]]:
    session = str(conversation.get("conversation_id") or conversation["id"])
    nodes = [node["message"] for node in conversation["mapping"].values() if node.get("message")]
    for message in sorted(nodes, key=lambda m: m.get("create_time") or 0):
        parts = (message.get("content") or {}).get("parts") or []
        text = "\n".join(part for part in parts if isinstance(part, str)).strip()
        if text:
            moment = datetime.fromtimestamp(message.get("create_time") or 0, UTC)
            yield {
                "id": str(message["id"]),
                "text": text,
                "session": session,
                "timestamp": moment.isoformat(),
            }
