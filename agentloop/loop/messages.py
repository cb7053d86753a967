"""The values of a conversation with a model, and the one seam to every brain: `ChatModel`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model asked for. `arguments` is the model's own text and may be no JSON at all."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the history. A `tool` message answers the call that `tool_call_id` names."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that an endpoint says it counted; 0 where it says nothing."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    def plus(self, other: Usage) -> Usage:
        """The sum of two accounts."""
        return Usage(
            self.prompt_tokens + other.prompt_tokens, self.completion_tokens + other.completion_tokens
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said. `reasoning` is kept for the trace and never taken for an answer.

    `malformed` says why a reply of the `json` wire form was no action; it is empty for a good reply.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    reasoning: str = ""
    usage: Usage = field(default_factory=Usage)
    malformed: str = ""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as models see it. `parameters` is a flat JSON Schema: strings only, nothing nested."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FinalTurn:
    """What the tools-free turn asks for: an instruction, and a flat schema for servers that take one."""

    instruction: str
    schema: Mapping[str, Any]


class ModelError(Exception):
    """One call of a model failed.

    Args:
        message: what happened, in words that may stand in a pack: no secret, no input text.
        retryable: whether the same call may go better a moment later.
        retry_after: seconds that the endpoint asked to wait; the loop bounds them.
        overflow: the prompt did not fit the model's context; a retry must send less.
        unreachable: nobody answered at the endpoint: its server may be gone.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        overflow: bool = False,
        unreachable: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        self.overflow = overflow
        self.unreachable = unreachable


@dataclass(frozen=True, slots=True)
class Window:
    """What a brain can take. `prompt_tokens` of 0 means no context window.

    `token_factor` is model tokens per o200k_base token. `relays_tools` is false where the relay in front
    of the model carries no tool traffic: such a brain can't drive the loop.
    """

    prompt_tokens: int = 0
    token_factor: float = 1.0
    call_seconds: float = 120.0
    relays_tools: bool = True
    reply_tokens: int = 4096  # the output cap
    prices: tuple[float, float] = (0.0, 0.0)  # money for a million prompt and completion tokens
    currency: str = ""


class ChatModel(Protocol):
    """A brain: an endpoint, the built-in planner, a script or a recording."""

    @property
    def name(self) -> str:
        """The name that packs carry."""
        ...

    @property
    def window(self) -> Window:
        """The bounds of one call."""
        ...

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        timeout: float,  # noqa: ASYNC109 - a bound that implementations hand to their transport
        final: FinalTurn | None = None,
    ) -> Reply:
        """One call, no retry. `timeout` is in seconds.

        `final` is what the tools-free turn asks for; a brain whose replies follow a schema may answer
        in that form in an earlier turn too.

        Raises:
            ModelError: the call gave no reply.
        """
        ...
