"""A model whose replies are kept as they come: a run that starts again is not charged for them twice."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from agentloop.loop.messages import ChatModel, FinalTurn, Message, Reply, ToolSpec, Window
from agentloop.loop.replay import asked_of, reply_from_json, reply_to_json


class ResumingModel:
    """Answers what was answered before from a file, and asks the other model for the rest.

    A reply belongs to the very messages and tools that it was given to, so a run over other inputs finds
    none. Failed calls are not kept. A line that was cut off by a crash is passed over.
    """

    def __init__(self, inner: ChatModel, path: Path) -> None:
        self._inner = inner
        self._path = path
        self._known: dict[str, Reply] = {}
        with contextlib.suppress(OSError, UnicodeDecodeError):
            for line in path.read_text("utf-8").splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    value = json.loads(line)
                    self._known[value["asked"]] = reply_from_json(value["reply"])

    @property
    def name(self) -> str:
        """The other model's name."""
        return self._inner.name

    @property
    def window(self) -> Window:
        """The other model's bounds."""
        return self._inner.window

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        timeout: float,  # noqa: ASYNC109 - part of the protocol
        final: FinalTurn | None = None,
    ) -> Reply:
        """The kept reply, or the other model's.

        Raises:
            ModelError: as the other model.
        """
        key = json.dumps([asked_of(messages, tools), final.instruction if final else ""], sort_keys=True)
        found = self._known.get(key)
        if found is not None:
            return found
        reply = await self._inner.complete(messages, tools, timeout=timeout, final=final)
        line = json.dumps({"asked": key, "reply": reply_to_json(reply)}, ensure_ascii=True)
        with contextlib.suppress(OSError):  # a full disk costs a later run a call, nothing else
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        return reply
