"""A model that says what its script says: for tests and for the eval harness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agentloop.loop.messages import FinalTurn, Message, ModelError, Reply, ToolSpec, Window

Step = Reply | ModelError | Callable[[Sequence[Message]], Reply]


class ScriptExhausted(AssertionError):
    """The loop asked for more replies than the script holds. Never caught by the loop."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that a scripted model received."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    final: FinalTurn | None
    timeout: float


class ScriptedModel:
    """Plays replies in order. A step may be an error to raise, or a function of the history.

    `asked` keeps each request, for tests to look at.
    """

    def __init__(self, steps: Iterable[Step], name: str = "scripted", window: Window | None = None) -> None:
        self._steps = list(steps)
        self._name = name
        self.window = window or Window()
        self.asked: list[Asked] = []

    @property
    def name(self) -> str:
        """The name that packs carry."""
        return self._name

    @property
    def left(self) -> int:
        """Steps that were not played yet."""
        return len(self._steps) - len(self.asked)

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        timeout: float,  # noqa: ASYNC109 - part of the protocol
        final: FinalTurn | None = None,
    ) -> Reply:
        """The next step of the script.

        Raises:
            ScriptExhausted: the script has run out.
            ModelError: the script says so.
        """
        if not self.left:
            raise ScriptExhausted(f"the script of {len(self._steps)} replies has run out")
        step = self._steps[len(self.asked)]
        self.asked.append(Asked(tuple(messages), tuple(tools), final, timeout))
        if isinstance(step, ModelError):
            raise step
        return step(messages) if callable(step) else step
