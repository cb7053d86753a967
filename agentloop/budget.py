"""The ledger of a request: what each stage spent, and the decisions that budgets forced.

The four token budgets are enforced by the stages in the specification's order: retrieval stops,
reranking trims, compression bounds its items, the pack builder drops, the validator rejects.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agentloop.clock import Clock
from agentloop.errors import Stage, WarningCode


@dataclass(slots=True)
class Ledger:
    """What a request has spent so far, by stage. One ledger lives as long as its request."""

    clock: Clock
    seconds: dict[str, float] = field(default_factory=dict)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    warnings: list[tuple[WarningCode, str, Stage]] = field(default_factory=list)

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """Add the wall seconds of the block to `stage`."""
        started = self.clock.monotonic()
        try:
            yield
        finally:
            spent = self.clock.monotonic() - started
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent

    def add(self, stage: Stage, **amounts: int) -> None:
        """Add to the counters of a stage (files, bytes, chunks, tokens, calls)."""
        counters = self.counters.setdefault(stage, {})
        for name, amount in amounts.items():
            counters[name] = counters.get(name, 0) + amount

    def get(self, stage: Stage, name: str) -> int:
        """A counter's value, 0 where nothing was added."""
        return self.counters.get(stage, {}).get(name, 0)

    def warn(self, code: WarningCode, message: str, stage: Stage) -> None:
        """Record partial trouble once; it becomes a warning of the pack."""
        if (code, message, stage) not in self.warnings:
            self.warnings.append((code, message, stage))
