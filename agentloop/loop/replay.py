"""Record a model's replies, and play them back: the same pack again, offline.

A recording is JSON lines: a head with the model's name and bounds, then one line a call with a digest
of what was asked, and the reply or the error. It holds what the model wrote, so it is as private as
the data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.loop.messages import (
    ChatModel,
    FinalTurn,
    Message,
    ModelError,
    Reply,
    ToolCall,
    ToolSpec,
    Usage,
    Window,
)
from agentloop.reasons import unreadable

FORMAT = "agentloop-recording-1"


class ReplayDiverged(AgentloopError):
    """A replay was asked something else than the recording holds. Says at which call and message."""

    def __init__(self, message: str, details: dict[str, Any]) -> None:
        super().__init__(ErrorCode.MODEL_UNAVAILABLE, message, Stage.LOOP, details)


class RecordingModel:
    """Passes calls on to another model and writes each to a file as it happens."""

    def __init__(self, inner: ChatModel, path: Path) -> None:
        self._inner = inner
        self._path = path
        window = inner.window
        head = {
            "format": FORMAT,
            "model": inner.name,
            "window": asdict(window),
        }
        try:
            path.write_text(json.dumps(head) + "\n", "utf-8")
        except OSError as error:
            raise AgentloopError(
                ErrorCode.REQUEST_INVALID,
                f"The recording can't be written to {path.name}: {error.strerror}.",
                Stage.REQUEST,
                {"field": "record"},
            ) from None

    @property
    def name(self) -> str:
        """The recorded model's name."""
        return self._inner.name

    @property
    def window(self) -> Window:
        """The recorded model's bounds."""
        return self._inner.window

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        timeout: float,  # noqa: ASYNC109 - part of the protocol
        final: FinalTurn | None = None,
    ) -> Reply:
        """The inner model's reply, written down.

        Raises:
            ModelError: as the inner model; errors are written down too.
        """
        asked = asked_of(messages, tools)
        try:
            reply = await self._inner.complete(messages, tools, timeout=timeout, final=final)
        except ModelError as error:
            self._write({**asked, "error": _error(error)})
            raise
        self._write({**asked, "reply": reply_to_json(reply)})
        return reply

    def _write(self, line: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=True) + "\n")


class ReplayModel:
    """Plays a recording. What is asked must be what was asked then, message by message."""

    def __init__(self, path: Path) -> None:
        try:
            lines = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
        except (OSError, ValueError) as error:
            raise _unreadable(path, unreadable(error)) from None
        if not lines or not isinstance(lines[0], dict) or lines[0].get("format") != FORMAT:
            raise _unreadable(path, f"it does not start with a head of the format {FORMAT}")
        try:
            self._name = str(lines[0]["model"])
            bounds = lines[0]["window"]
            self.window = Window(**{**bounds, "prices": tuple(bounds["prices"])})
        except (KeyError, TypeError):
            raise _unreadable(path, "its first line lacks the model or its window; record again") from None
        self._calls = lines[1:]
        self._at = 0

    @property
    def name(self) -> str:
        """The recorded model's name: packs of a replay are those of the recorded run."""
        return self._name

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        timeout: float,  # noqa: ASYNC109 - part of the protocol
        final: FinalTurn | None = None,
    ) -> Reply:
        """The recorded reply to this very request.

        Raises:
            ReplayDiverged: the request differs from the recorded one, or the recording has ended.
            ModelError: the recorded call failed.
        """
        if self._at >= len(self._calls):
            raise ReplayDiverged(
                f"The replay ends after {len(self._calls)} model calls, and the loop asks for another one.",
                {"call": self._at + 1},
            )
        recorded = self._calls[self._at]
        self._at += 1
        asked = asked_of(messages, tools)
        for number, digest in enumerate(asked["messages"]):
            known = recorded["messages"][number] if number < len(recorded["messages"]) else None
            if digest != known:
                role = messages[number].role
                raise ReplayDiverged(
                    f"The replay diverges at model call {self._at}, message {number + 1} ({role}): "
                    "the inputs, the question, the settings or the version differ from the recorded run.",
                    {"call": self._at, "message": number + 1, "role": role},
                )
        if asked != {key: recorded.get(key) for key in asked}:
            raise ReplayDiverged(
                f"The replay diverges at model call {self._at}: other tools are offered, or fewer messages.",
                {"call": self._at},
            )
        if "error" in recorded:
            error = recorded["error"]
            raise ModelError(
                error["message"],
                retryable=error["retryable"],
                retry_after=error["retry_after"],
                overflow=error["overflow"],
            )
        return reply_from_json(recorded["reply"])


def asked_of(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """A digest of each message, and the names of the tools: what a reply belongs to."""
    digests = [
        hashlib.sha256(
            json.dumps(
                [m.role, m.content, [[c.id, c.name, c.arguments] for c in m.tool_calls], m.tool_call_id]
            ).encode()
        ).hexdigest()[:16]
        for m in messages
    ]
    return {"messages": digests, "tools": [t.name for t in tools]}


def reply_to_json(reply: Reply) -> dict[str, Any]:
    """A reply as JSON values."""
    return {
        "text": reply.text,
        "tool_calls": [[c.id, c.name, c.arguments] for c in reply.tool_calls],
        "finish_reason": reply.finish_reason,
        "reasoning": reply.reasoning,
        "usage": [reply.usage.prompt_tokens, reply.usage.completion_tokens],
        "malformed": reply.malformed,
    }


def reply_from_json(value: dict[str, Any]) -> Reply:
    """The reply that `reply_to_json` wrote."""
    calls = tuple(ToolCall(*call) for call in value["tool_calls"])
    return Reply(
        value["text"],
        calls,
        value["finish_reason"],
        value["reasoning"],
        Usage(*value["usage"]),
        value["malformed"],
    )


def _error(error: ModelError) -> dict[str, Any]:
    return {
        "message": error.message,
        "retryable": error.retryable,
        "retry_after": error.retry_after,
        "overflow": error.overflow,
    }


def _unreadable(path: Path, why: str) -> AgentloopError:
    return AgentloopError(
        ErrorCode.REQUEST_INVALID,
        f"The recording {path.name} can't be played: {why}.",
        Stage.REQUEST,
        {"field": "model"},
    )
