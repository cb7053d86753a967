"""Which failure block is the root, and in which order the others matter.

A block's score adds: the severity of its head, a stack trace, how rare its lines are in this log, how
near it stands to the place where the run says that it failed, how many rare words it shares with what
is said there, and, with a passing run to compare with, how much of it the passing run lacks. Distance
is counted in lines that are new in the log, so that ordinary output after the failure changes little.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agentloop.logs.failures import TERMINAL, Block, Kind
from agentloop.logs.lines import Line
from agentloop.logs.severity import Weight
from agentloop.logs.templates import quick_key, template

LOOK = 400
SCORED_LINES = 60  # of a block that are looked at
REACH = 4000.0  # new lines between a block and the end of the run after which nearness is 0
_WORD = re.compile(r"[A-Za-z_][\w.$-]{3,80}")
_FAMILIES = {Kind.FAILED_TEST: "test", Kind.COMPILE_ERROR: "compile"}


@dataclass(frozen=True, slots=True)
class Ranked:
    """A block with its score, its family (blocks that fail in the same way) and what it adds up from."""

    block: Block
    score: float
    family: str
    template: str
    novel: float  # share of its telling lines that the passing run lacks; 1 without one


@dataclass(frozen=True, slots=True)
class Passing:
    """The line templates of passing runs."""

    keys: frozenset[str]

    def lacks(self, text: str) -> bool:
        """Whether no passing run has a line like this."""
        return quick_key(text.strip()) not in self.keys


def anchor(lines: Sequence[Line]) -> int:
    """The first line of the last place where the run says that it failed; -1 where none does.

    Terminal lines that stand close together (the tool's, then the runner's) are one place.
    """
    found = [at for at, line in enumerate(lines) if TERMINAL.search(line.text[:LOOK].strip())]
    if not found:
        return -1
    first = found[-1]
    for at in reversed(found[:-1]):
        if first - at > 40:
            break
        first = at
    return first


def rank(lines: Sequence[Line], blocks: Sequence[Block], passing: Passing | None) -> list[Ranked]:
    """The blocks with their scores, in the order of the log."""
    if not blocks:
        return []
    keys = [quick_key(line.text.strip()) for line in lines]
    counts = Counter(keys)
    progress = _progress(keys)
    end = anchor(lines)
    told = _words(lines, range(end, min(len(lines), end + SCORED_LINES))) if end >= 0 else set()
    frequency = Counter(word for block in blocks for word in _words(lines, _span(block)))
    ranked: list[Ranked] = []
    for block in blocks:
        family = _FAMILIES.get(block.kind) or template(lines[block.head].text)
        novel = _novel(lines, block, passing)
        score = (
            0.5 * block.weight
            + (0.4 if block.trace else 0.0)
            + 0.8 * _rarity(keys, counts, block)
            + 1.5 * _nearness(progress, block, end)
            + 1.0 * _shared(_words(lines, _span(block)), told, frequency, len(blocks))
            + (2.0 * novel - 2.0 if passing is not None else 0.0)
        )
        ranked.append(Ranked(block, score, family, template(lines[block.head].text), novel))
    return ranked


def _span(block: Block) -> range:
    return range(block.first, min(block.last + 1, block.first + SCORED_LINES))


def _progress(keys: Sequence[str]) -> list[int]:
    """For each line, how many distinct lines the log had said up to it."""
    seen: set[str] = set()
    progress: list[int] = []
    for key in keys:
        seen.add(key)
        progress.append(len(seen))
    return progress


def _nearness(progress: Sequence[int], block: Block, end: int) -> float:
    """1 at the place where the run says that it failed, falling with the logarithm of the distance."""
    goal = progress[end] if end >= 0 else progress[-1]
    distance = abs(goal - progress[min(block.last, len(progress) - 1)])
    return max(0.0, 1.0 - math.log1p(distance) / math.log1p(REACH))


def _rarity(keys: Sequence[str], counts: Counter[str], block: Block) -> float:
    """How rare the head's template is: 1 when it stands once, near 0 for a line that recurs."""
    return 1.0 / math.sqrt(counts[keys[block.head]])


def _words(lines: Sequence[Line], span: range) -> set[str]:
    return {word for at in span for word in _WORD.findall(lines[at].text[:LOOK])}


def _shared(words: set[str], told: set[str], frequency: Counter[str], total: int) -> float:
    """Share of the rare words of the run's last words that the block holds, saturating at five words."""
    weight = sum(math.log(1 + total / frequency[word]) for word in words & told if frequency[word])
    return min(1.0, weight / (5 * math.log(1 + total)))


def _novel(lines: Sequence[Line], block: Block, passing: Passing | None) -> float:
    if passing is None:
        return 1.0
    span = [at for at in _span(block) if lines[at].text.strip()]
    return sum(passing.lacks(lines[at].text) for at in span) / max(1, len(span))


def root(ranked: Sequence[Ranked]) -> Ranked | None:
    """The failure that the others follow from: the first of its family among those that score near the top.

    Summaries are echoes: one is the root only where nothing else was found.
    """
    causes = [r for r in ranked if r.block.kind is not Kind.SUMMARY] or list(ranked)
    if not causes:
        return None
    best = max(causes, key=lambda r: (r.score, -r.block.first))
    kin = [r for r in causes if r.family == best.family and r.block.weight >= Weight.FAILURE]
    close = [r for r in kin if r.score >= best.score - 1.5]
    return min([*close, best], key=lambda r: r.block.first)
