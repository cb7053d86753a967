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

from agentloop.logs.failures import Block, Kind
from agentloop.logs.lines import Line
from agentloop.logs.severity import Weight
from agentloop.logs.templates import quick_key, template
from agentloop.logs.verdicts import ADVICE, BARE, TERMINAL

LOOK = 400
SCORED_LINES = 60  # of a block that are looked at
ENDLESS = 0.5  # of nearness where the run never says that it failed: the end is only where the log stops
REACH = 4000.0  # new lines between a block and the end of the run after which nearness is 0
SAMPLE = 20_000  # lines on which the words' frequency is counted
SHARED_WORDS = 6
LINKED_WORDS = 0.3
LINKED_NEAR = 0.55  # about 40 new lines
KIN_MARGIN = 0.5
FINAL_MARGIN = 1.2
FINAL_LINES = 60  # after the run's first word of failure, in which the reason stands
_WORD = re.compile(r"[A-Za-z_][\w.$-]{3,80}")
_FAMILIES = {Kind.FAILED_TEST: "test", Kind.COMPILE_ERROR: "compile"}


@dataclass(frozen=True, slots=True)
class Ranked:
    """A block with its score, its family (blocks that fail in the same way) and what it adds up from."""

    block: Block
    score: float
    family: str
    template: str
    near: float  # 1 where the run says that it failed, 0 far from it
    shared: float  # rare words shared with that place, 0 to 1
    informative: bool  # some line of it says more than that the run failed
    novel: float  # share of its telling lines that the passing run lacks; 1 without one


@dataclass(frozen=True, slots=True)
class Passing:
    """The line templates of passing runs."""

    keys: frozenset[str]

    def lacks(self, text: str) -> bool:
        """Whether no passing run has a line like this."""
        return quick_key(text.strip()) not in self.keys


def anchor(lines: Sequence[Line], weights: Sequence[Weight]) -> int:
    """The first line of the last place where the run says that it failed; -1 where none does.

    Terminal lines that stand close together (the tool's, then the runner's) are one place. A line that
    repeats an earlier one says nothing of this run's end: the last that is new counts.
    """
    telling = (at for at, weight in enumerate(weights) if weight >= Weight.MENTION)
    found = [at for at in telling if TERMINAL.search(lines[at].text[:LOOK].strip())]
    if not found:
        return -1
    new: dict[str, int] = {}
    for at in found:
        new.setdefault(quick_key(lines[at].text.strip()), at)
    first = max(new.values())
    for at in reversed([at for at in found if at < first]):
        if first - at > 40:
            break
        first = at
    return first


def rank(
    lines: Sequence[Line], blocks: Sequence[Block], end: int, passing: Passing | None = None
) -> list[Ranked]:
    """The blocks with their scores, in the order of the log. `end` is the run's `anchor`."""
    if not blocks:
        return []
    keys = [quick_key(line.text.strip()) for line in lines]
    counts = Counter(keys)
    progress = _progress(keys)
    first_at = {key: at for at, key in reversed(list(enumerate(keys)))}  # a repeat stands where it was new
    told = _last_words(lines, end)
    step = max(1, len(lines) // SAMPLE)
    sample = range(0, len(lines), step)
    frequency = Counter(
        word for at in sample for word in told.intersection(_WORD.findall(lines[at].text[:LOOK]))
    )
    # ids of any form are told apart by the key; among the few heads of blocks their templates count
    heads = [template(lines[block.head].text) for block in blocks]
    alike = Counter(heads)
    ranked: list[Ranked] = []
    for block, head in zip(blocks, heads, strict=True):
        family = _FAMILIES.get(block.kind) or head
        novel = _novel(lines, block, passing)
        first = first_at[keys[block.head]]
        near = _nearness(progress[block.last if first == block.head else first], progress[end])
        near *= 1.0 if end >= 0 else ENDLESS
        shared = _shared(_words(lines, _span(block)), told, frequency, len(sample))
        informative = any(
            not BARE.match(lines[at].text[:LOOK]) for at in _span(block) if lines[at].text.strip()
        )
        score = (
            0.5 * block.weight
            + (0.4 if block.trace else 0.0)
            + 0.8 / math.sqrt(max(counts[keys[block.head]], alike[head]))
            + 1.5 * near
            + 1.0 * shared
            + (1.5 * novel - 1.5 if passing is not None else 0.0)
        )
        ranked.append(Ranked(block, score, family, head, near, shared, informative, novel))
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


def _nearness(position: int, goal: int) -> float:
    """1 at the place where the run says that it failed, falling with the logarithm of the distance."""
    return max(0.0, 1.0 - math.log1p(abs(goal - position)) / math.log1p(REACH))


def _words(lines: Sequence[Line], span: range) -> set[str]:
    return {word for at in span for word in _WORD.findall(lines[at].text[:LOOK])}


def _last_words(lines: Sequence[Line], end: int) -> set[str]:
    """The words of the lines at `end` and after it that say more than that the run failed."""
    if end < 0:
        return set()
    span = range(end, min(len(lines), end + SCORED_LINES))
    texts = [lines[at].text[:LOOK].strip() for at in span]
    return {w for text in texts if not (BARE.match(text) or ADVICE.search(text)) for w in _WORD.findall(text)}


def _shared(words: set[str], told: set[str], frequency: Counter[str], total: int) -> float:
    """How many rare words of the run's last words the block holds, 1 for `SHARED_WORDS` or more.

    A word that stands on every line counts nothing, one that stands on a few about one.
    """
    full = math.log(1 + total)
    weight = sum(max(0.0, 1 - math.log(max(1, frequency[word])) / full) ** 2 for word in words & told)
    return min(1.0, weight / SHARED_WORDS)


def _novel(lines: Sequence[Line], block: Block, passing: Passing | None) -> float:
    if passing is None:
        return 1.0
    span = [at for at in _span(block) if lines[at].text.strip()]
    return sum(passing.lacks(lines[at].text) for at in span) / max(1, len(span))


def root(ranked: Sequence[Ranked], end: int) -> Ranked | None:
    """The failure that the others follow from.

    Where the run says that it failed and why, that block is the root unless an earlier one is linked to
    it: by rare words that both hold, or by standing close before it. Of the linked ones the best counts,
    and of its family the first. Without such a place, the best block's family decides alone. A block
    that says nothing but "failed" is the root only where nothing else was found.
    """
    causes = [r for r in ranked if r.block.kind is not Kind.SUMMARY] or list(ranked)
    if not causes:
        return None
    final = next((r for r in causes if r.block.last >= end >= r.block.first - FINAL_LINES), None)
    pool = causes
    if end >= 0:
        pool = [r for r in causes if r is not final and r.block.first < end and _linked(r)] or causes
        if final is not None and (pool is causes or max(r.score for r in pool) < final.score - FINAL_MARGIN):
            return final
    best = max(pool, key=lambda r: (r.score, -r.block.first))
    kin = [r for r in pool if r.family == best.family and r.block.weight >= Weight.FAILURE]
    close = [r for r in kin if r.score >= best.score - KIN_MARGIN]
    return min([*close, best], key=lambda r: r.block.first)


def _linked(ranked: Ranked) -> bool:
    if ranked.block.weight < Weight.FAILURE and not ranked.block.trace:
        return False
    return ranked.shared >= LINKED_WORDS or ranked.near >= LINKED_NEAR
