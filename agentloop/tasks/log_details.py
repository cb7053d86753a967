"""`details` of summarize_logs: for each log its phases, its clusters with counts, and its bursts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentloop.request import CompressRequest

if TYPE_CHECKING:
    from agentloop.logs.analysis import Cluster, LogAnalysis

SHARE = 0.1  # of the pack's budget: the rest is for evidence
CHARS_PER_TOKEN = 3  # of JSON with numbers and paths, on the safe side
MOST_LOGS = 8
MOST_PHASES = 12
MOST_CLUSTERS = 12
TEMPLATE_CHARS = 100
BURST = 10  # lines of one template in a minute


class LogSummaries:
    """Collects the analyses of a request's logs as rows; keeps no lines."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = []

    def add(self, analysis: LogAnalysis, path: str) -> None:
        """Note one log under the path that its refs have."""
        from agentloop.logs.severity import Weight

        lines, reading = analysis.lines, analysis.reading
        failed = [r for r in analysis.ranked if r.block.weight >= Weight.FAILURE]
        head: dict[str, Any] = {"path": path, "lines": reading.total, "failures": len(failed)}
        if reading.parts:
            head["rotated"] = len(reading.parts)
        if reading.skipped:
            head["unread"] = reading.skipped
        if analysis.root is not None:
            root = lines[analysis.root.block.head]
            head["root_line"] = root.number
            if reading.parts:
                head["root_path"] = reading.of(root).path
        bursts = sum(cluster.peak_minute >= BURST for cluster in analysis.clusters)
        if bursts:
            head["bursts"] = bursts
        phases = [{"name": p.name, "line": lines[p.at].number} for p in analysis.phases[-MOST_PHASES:]]
        clusters = [_row(analysis, cluster) for cluster in analysis.clusters[:MOST_CLUSTERS]]
        score = analysis.root.score if analysis.root else 0.0
        self._rows.append((score, head, phases, clusters))

    def details(self, request: CompressRequest) -> dict[str, Any]:
        """The rows of all logs, worst first, within their share of the budget.

        Each log is told by its counts; clusters come before phases, in turn, as far as there is room. Of
        the phases the last ones stay.
        """
        room = int(request.constraints.final_evidence_pack_budget * SHARE * CHARS_PER_TOKEN)
        told: list[dict[str, Any]] = []
        ordered = sorted(self._rows, key=lambda row: (-row[0], row[1]["path"]))[:MOST_LOGS]
        for _, head, _, _ in ordered:
            room -= _size(head)
            if told and room < 0:
                break
            told.append(dict(head))
        for summary, (_, _, _, clusters) in zip(told, ordered, strict=False):
            room = _take(summary, "clusters", clusters, room)
        for summary, (_, _, phases, _) in zip(told, ordered, strict=False):
            room = _take(summary, "phases", phases[::-1], room)
            if "phases" in summary:
                summary["phases"].reverse()
        return {"logs": told} if told else {}


def _row(analysis: LogAnalysis, cluster: Cluster) -> dict[str, Any]:
    lines = [analysis.lines[at] for at in cluster.members]
    row: dict[str, Any] = {
        "template": cluster.template.strip()[:TEMPLATE_CHARS],
        "level": cluster.level.name.lower(),
        "count": len(lines),
        "first_line": lines[0].number,
        "last_line": lines[-1].number,
    }
    stamps = [line.stamp for line in lines if line.stamp is not None]
    if stamps:
        row["first"] = min(stamps, key=lambda s: s.seconds).text
        row["last"] = max(stamps, key=lambda s: s.seconds).text
    if cluster.peak_minute >= BURST:
        row["peak_per_minute"] = cluster.peak_minute
    return row


def _take(summary: dict[str, Any], name: str, rows: Sequence[dict[str, Any]], room: int) -> int:
    """Add rows while there is room; what is left of it."""
    for row in rows:
        if _size(row) > room:
            break
        room -= _size(row)
        summary.setdefault(name, []).append(row)
    return room


def _size(row: dict[str, Any]) -> int:
    return len(json.dumps(row, ensure_ascii=False, separators=(",", ":"))) + 1
