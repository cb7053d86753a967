"""The bounds of one loop, and the one place that checks them before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentloop.clock import Clock
from agentloop.loop.messages import Usage

FINAL_SHARE = 0.25  # of the wall time is kept for the tools-free turn, at most:
FINAL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What a loop may spend. Token limits of 0 mean that the brain has no context window."""

    max_tool_calls: int = 6
    max_turns: int = 16
    context_tokens: int = 0  # prompt tokens that fit beside the reply
    token_factor: float = 1.0  # model tokens per o200k_base token, from the profile
    seconds: float = 300.0
    call_seconds: float = 120.0  # one model call
    max_format_errors: int = 3  # turns in a row
    retries: int = 2  # of one model call
    max_backoff_seconds: float = 5.0


@dataclass(slots=True)
class Spent:
    """What a loop has spent so far."""

    clock: Clock
    started: float
    tool_calls: int = 0
    refused: int = 0
    turns: int = 0
    format_errors: int = 0  # in a row
    retries: int = 0
    model_seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)

    def remaining(self, limits: Limits) -> float:
        """Wall seconds that are left; may be negative."""
        return limits.seconds - (self.clock.monotonic() - self.started)

    def stop(self, limits: Limits) -> str:
        """Why no more tools may be offered, or an empty string. Checked before each turn."""
        if self.format_errors >= limits.max_format_errors:
            return "format_errors"
        remaining = self.remaining(limits)
        if remaining <= 0:
            return "deadline"
        if self.tool_calls >= limits.max_tool_calls:
            return "max_tool_calls"
        if self.turns >= limits.max_turns:
            return "max_turns"
        if remaining < min(FINAL_SECONDS, limits.seconds * FINAL_SHARE):
            return "time"
        return ""


ENDS = frozenset({"format_errors", "deadline"})  # no tools-free turn after these
