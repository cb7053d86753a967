"""A whole log understood: failures with the root first, template clusters, warnings, phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentloop.logs.failures import find_blocks, weights_of
from agentloop.logs.lines import Line, Reading, read_lines, read_series
from agentloop.logs.phases import Phase, find_phases
from agentloop.logs.ranking import Passing, Ranked, anchor, rank, root
from agentloop.logs.severity import Level, Weight
from agentloop.logs.templates import quick_key, template
from agentloop.logs.timestamps import StampKind, bound
from agentloop.request import TimeWindow
from agentloop.types import SourceFile


@dataclass(frozen=True, slots=True)
class Cluster:
    """Lines of one template that speak of trouble: how many, which (indexes), how fast at most."""

    template: str
    level: Level
    weight: Weight
    members: tuple[int, ...]
    peak_minute: int  # most of them in one minute, 0 without stamps


@dataclass(frozen=True, slots=True)
class LogAnalysis:
    """What one log says. Indexes point into `reading.lines`."""

    reading: Reading
    weights: tuple[Weight, ...]
    ranked: tuple[Ranked, ...]  # failure blocks, in the order of the log
    root: Ranked | None
    clusters: tuple[Cluster, ...]  # most frequent first
    phases: tuple[Phase, ...]

    @property
    def least(self) -> str:
        """What stands before a count of lines: of a huge log repeats were not read one by one."""
        return "at least " if self.reading.sampled else ""

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines that were read."""
        return self.reading.lines


def passing_templates(files: Sequence[SourceFile]) -> Passing | None:
    """The line templates of the baseline files; None where there are none."""
    if not files:
        return None
    keys = {quick_key(line.text.strip()) for file in files for line in read_lines(file).lines}
    return Passing(frozenset(keys))


def analyse(
    file: SourceFile | Sequence[SourceFile],
    *,
    passing: Passing | None = None,
    window: TimeWindow | None = None,
) -> LogAnalysis:
    """Understand one log.

    Args:
        file: a file whose text is a log, or the files of a rotated series, oldest first.
        passing: templates of passing runs, to tell what this run alone says.
        window: bounds of the stamps; lines without one belong to the stamp before them.

    Raises:
        ValueError: a bound of `window` is not ISO 8601.
    """
    reading = read_lines(file) if isinstance(file, SourceFile) else read_series(file)
    if window is not None and (window.start or window.end):
        kept = _within(reading.lines, window)
        reading = replace(reading, lines=kept, skipped=reading.total - len(kept))
    weights = weights_of(reading.lines)
    end = anchor(reading.lines, weights)
    ranked = rank(reading.lines, find_blocks(reading.lines, weights), end, passing)
    return LogAnalysis(
        reading,
        tuple(weights),
        tuple(ranked),
        root(ranked, end),
        tuple(_clusters(reading.lines, weights)),
        tuple(find_phases(reading.lines)),
    )


def _clusters(lines: Sequence[Line], weights: Sequence[Weight]) -> list[Cluster]:
    members: dict[str, list[int]] = {}
    for at, weight in enumerate(weights):
        if weight >= Weight.TROUBLE or lines[at].level is Level.WARNING:
            members.setdefault(template(lines[at].text), []).append(at)
    found = [
        Cluster(
            name,
            max(lines[at].level for at in group[:100]),
            max(weights[at] for at in group[:100]),
            tuple(group),
            _peak(lines, group),
        )
        for name, group in members.items()
    ]
    return sorted(found, key=lambda c: (-len(c.members), c.members[0]))


def _peak(lines: Sequence[Line], group: Sequence[int]) -> int:
    minutes: dict[tuple[StampKind, int], int] = {}
    for at in group:
        stamp = lines[at].stamp
        if stamp is not None:
            key = (stamp.kind, int(stamp.seconds // 60))
            minutes[key] = minutes.get(key, 0) + 1
    return max(minutes.values(), default=0)


def _within(lines: Sequence[Line], window: TimeWindow) -> tuple[Line, ...]:
    """Lines whose stamp, or the last one before them, lies in the window. Undated stamps can't be outside."""
    start = bound(window.start, end=False) if window.start else float("-inf")
    end = bound(window.end, end=True) if window.end else float("inf")
    kept: list[Line] = []
    inside = not window.start
    for line in lines:
        if line.stamp is not None and line.stamp.kind is StampKind.DATE:
            inside = start <= line.stamp.seconds <= end
        if inside:
            kept.append(line)
    return tuple(kept)
