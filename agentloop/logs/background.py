"""What stands around a failure: the warnings before it, and the steps that led to it."""

from __future__ import annotations

from collections.abc import Set

from agentloop.logs import wording
from agentloop.logs.analysis import Cluster, LogAnalysis
from agentloop.logs.lines import place
from agentloop.logs.phases import phase_of
from agentloop.logs.severity import Level, Weight
from agentloop.logs.templates import words
from agentloop.types import Draft

MAX_WARNINGS = 2
MAX_COLLAPSED = 2000
STEP_CHARS = 60


def warnings_before(analysis: LogAnalysis, cited: Set[int]) -> list[Draft]:
    """The warnings before the root failure that share rare words with it; without a failure, all kinds.

    Args:
        analysis: the log.
        cited: indexes of lines that other items hold already.
    """
    root = analysis.root
    found: list[tuple[int, int, Cluster]] = []
    told = words(analysis.lines[root.block.head].text) if root is not None else frozenset()
    for cluster in analysis.clusters:
        if cluster.level is not Level.WARNING or (root is not None and cluster.weight < Weight.TROUBLE):
            continue
        before = [m for m in cluster.members if root is None or m < root.block.first]
        if not before or any(m in cited for m in cluster.members):
            continue
        shared = len(told & words(analysis.lines[before[-1]].text))
        if root is None or shared >= 2:
            found.append((-shared, -before[-1], cluster))
    found.sort(key=lambda entry: entry[:2])
    return [_warning(analysis, cluster, -at) for _, at, cluster in found[:MAX_WARNINGS]]


def _warning(analysis: LogAnalysis, cluster: Cluster, at: int) -> Draft:
    facts = ["warning before the failure" if analysis.root is not None else "warning"]
    if len(cluster.members) > 1:
        facts.append(f"{analysis.least}{len(cluster.members)} times")
    facts += wording.times(analysis.lines, cluster.members)
    if cluster.peak_minute > 1:
        facts.append(f"at most {cluster.peak_minute} a minute")
    rest = [member for member in cluster.members if member != at]
    return Draft(
        "warning",
        f"{wording.message(analysis.lines[at].text)} ({', '.join(facts)})",
        (place(analysis.reading, at, at),),
        0.2,
        0.3,
        derived_claim=", ".join(facts),
        collapsed=tuple(place(analysis.reading, member, member) for member in rest[:MAX_COLLAPSED]),
        collapsed_count=len(rest),
    )


def timeline(analysis: LogAnalysis) -> Draft | None:
    """The step in which the root failure stands, and its place among all; None without steps.

    Other steps are not named: a claim must stand in what it cites, and each would cost a ref.
    """
    if analysis.root is None:
        return None
    current = phase_of(analysis.phases, analysis.root.block.first)
    if current is None or len(analysis.phases) < 2:
        return None
    name = wording.message(current.name, STEP_CHARS)
    number = analysis.phases.index(current) + 1
    return Draft(
        "timeline",
        f"{name} (failed; step {number}/{len(analysis.phases)})",
        (place(analysis.reading, current.at, current.at),),
        0.15,
        0.3,
        derived_claim=f"timeline: failure in step {number} of {len(analysis.phases)}",
    )
