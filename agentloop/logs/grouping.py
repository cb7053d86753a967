"""Failure blocks that repeat one another, collapsed to the first of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentloop.logs.ranking import Ranked


@dataclass(frozen=True, slots=True)
class Group:
    """The first block of its kind and template, and the later ones; the score is the best of them."""

    ranked: Ranked
    repeats: tuple[Ranked, ...]
    score: float

    def lines(self) -> Iterator[int]:
        """Indexes of all lines of the group's blocks."""
        for member in (self.ranked, *self.repeats):
            yield from range(member.block.first, member.block.last + 1)


def groups_of(ranked: Sequence[Ranked], root: Ranked, *, repeats: bool, traces: bool) -> list[Group]:
    """Groups in the order of their first block. The root stands alone.

    Args:
        ranked: the blocks of one log, in its order.
        root: the root failure.
        repeats: collapse blocks whose heads have one template.
        traces: collapse stack traces whose heads have one template.
    """
    grouped: dict[str, list[Ranked]] = {}
    for number, member in enumerate(ranked):
        collapse = (traces if member.block.trace else repeats) and member is not root
        key = f"{member.block.kind}:{member.template}" if collapse else f"#{number}"
        grouped.setdefault(key, []).append(member)
    return [Group(m[0], tuple(m[1:]), max(r.score for r in m)) for m in grouped.values()]


def kin(groups: Sequence[Group], root: Ranked) -> int:
    """How many other failures have the root's family."""
    return sum(
        1 + len(group.repeats)
        for group in groups
        if group.ranked is not root and group.ranked.family == root.family
    )
