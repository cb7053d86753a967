"""Model outputs in the cache: one call a prompt, apart by model, namespace and policy; no bad replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentloop.cache import FileCache
from agentloop.loop.kept import CachedModel, OutputSpace
from agentloop.loop.messages import FinalTurn, Message, ModelError, Reply, Window

SPACE = OutputSpace("red", "v1", "t1", "evidence_only")
ASKED = (Message("user", "what is it?"),)


class Counting:
    """A model that counts its calls, with the replies that it was given."""

    name = "m"
    window = Window(8000, 1000)

    def __init__(self, *replies: Reply | ModelError) -> None:
        self.replies = list(replies)
        self.calls = 0

    async def complete(self, messages: Sequence[Message], tools: Any, **_: Any) -> Reply:
        self.calls += 1
        reply = self.replies[min(self.calls, len(self.replies)) - 1]
        if isinstance(reply, ModelError):
            raise reply
        return reply


async def ask(
    cache: FileCache, model: Counting, space: OutputSpace = SPACE, final: FinalTurn | None = None
) -> Reply:
    return await CachedModel(model, cache, space).complete(ASKED, (), timeout=1, final=final)


@pytest.mark.req("F1")
async def test_the_same_prompt_is_asked_once(tmp_path: Path) -> None:
    cache, model = FileCache(tmp_path), Counting(Reply("an answer"), Reply("another"))
    assert (await ask(cache, model)).text == "an answer"
    assert (await ask(cache, model)).text == "an answer"
    assert model.calls == 1
    for other in (
        replace(SPACE, namespace="blue"),
        replace(SPACE, version="v2"),
        replace(SPACE, template="t2"),
        replace(SPACE, policy_mode="no_excerpts"),
    ):
        assert (await ask(cache, model, other)).text == "another"
    assert (await ask(cache, model, final=FinalTurn("answer now", {"type": "object"}))).text == "another"
    assert model.calls == 6


@pytest.mark.parametrize(
    "reply",
    [Reply(""), Reply("{", malformed="no JSON"), Reply("cut", finish_reason="length"), ModelError("gone")],
)
async def test_what_is_of_no_use_is_not_kept(tmp_path: Path, reply: Reply | ModelError) -> None:
    cache, model = FileCache(tmp_path), Counting(reply, Reply("good"))
    if isinstance(reply, ModelError):
        with pytest.raises(ModelError):
            await ask(cache, model)
    else:
        await ask(cache, model)
    assert (await ask(cache, model)).text == "good"
