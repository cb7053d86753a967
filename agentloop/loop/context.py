"""Fit a history into a model's context. What is left out is replaced by a marker that says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from agentloop.loop.messages import Message, ModelError, ToolSpec
from agentloop.tokens import count_all

MESSAGE_TOKENS = 6  # role, separators and call ids of a chat template, rounded up
MARKER = "This result was left out because the conversation no longer fits the context. Call again if needed."


def fit(
    messages: Sequence[Message], tools: Sequence[ToolSpec], limit: int, factor: float = 1.0
) -> tuple[tuple[Message, ...], int]:
    """Messages that fit `limit` model tokens, and how many tool results were replaced.

    The oldest tool results go first; the newest one stays as long as any other can go. `factor` is
    model tokens per o200k_base token. A limit of 0 means no limit.

    Raises:
        ModelError: the conversation does not fit even without its tool results.
    """
    if limit <= 0:
        return tuple(messages), 0
    sizes = [_tokens(size, factor) for size in count_all([_wire_text(m) for m in messages])]
    described = [f"{t.name} {t.description} {json.dumps(dict(t.parameters))}" for t in tools]
    total = sum(sizes) + sum(_tokens(size, factor) for size in count_all(described))
    fitted = list(messages)
    marker = json.dumps({"note": MARKER})
    marker_size = _tokens(count_all([marker])[0], factor)
    replaced = 0
    for at, message in enumerate(messages):
        if total <= limit:
            break
        if message.role != "tool" or sizes[at] <= marker_size:
            continue
        fitted[at] = replace(message, content=marker)
        total += marker_size - sizes[at]
        replaced += 1
    if total > limit:
        raise ModelError(
            f"The prompt needs about {total} tokens and the model's context leaves {limit}. "
            "Use a model profile with a larger context, or a shorter question."
        )
    return tuple(fitted), replaced


def _tokens(counted: int, factor: float) -> int:
    return int((counted + MESSAGE_TOKENS) * factor) + 1


def _wire_text(message: Message) -> str:
    return message.content + "".join(f"{c.name}{c.arguments}" for c in message.tool_calls)
