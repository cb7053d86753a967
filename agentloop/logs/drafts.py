"""The evidence of a log: the root failure, the failures beside it, the summary, warnings, the timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentloop.budget import Ledger
from agentloop.errors import Stage, WarningCode
from agentloop.logs import wording
from agentloop.logs.analysis import Cluster, LogAnalysis, analyse, passing_templates
from agentloop.logs.lines import place
from agentloop.logs.phases import phase_of
from agentloop.logs.ranking import Ranked
from agentloop.logs.severity import Level, Weight
from agentloop.logs.trimming import Extent, extent
from agentloop.request import CompressRequest
from agentloop.types import Corpus, Draft, Place, SourceFile

PLACE_LINES = 80
PLACES = 4
MARGIN = 2.0  # a block that scores this much below the root is not told
MAX_FAILURES = 12
MAX_WARNINGS = 2
MAX_COLLAPSED = 2000  # duplicates listed of one draft; their number is always exact


@dataclass(frozen=True, slots=True)
class _Group:
    """A block and its later repeats."""

    ranked: Ranked
    repeats: tuple[Ranked, ...]


def log_drafts(
    corpus: Corpus,
    files: Sequence[SourceFile],
    request: CompressRequest,
    ledger: Ledger,
    *,
    baseline_files: Sequence[SourceFile] = (),
) -> list[Draft]:
    """Evidence of the logs in `files`, best first.

    Args:
        corpus: the corpus that the files' indexes belong to.
        files: the failing logs.
        request: `time_window`, `deduplicate_repeated_lines` and `cluster_stack_traces` are honoured.
        ledger: a log that was not read line by line is told here.
        baseline_files: logs of passing runs; what they also say weighs less.
    """
    passing = passing_templates(baseline_files)
    told: list[tuple[float, int, list[Draft]]] = []
    for order, file in enumerate(files):
        analysis = analyse(file, passing=passing, window=request.task_params.time_window)
        ledger.add(
            Stage.COMPRESSION, log_lines=analysis.reading.total, log_lines_unread=analysis.reading.skipped
        )
        drafts = _of_log(analysis, request)
        if drafts:
            told.append((-(analysis.root.score if analysis.root else 0.0), order, drafts))
    if files and not told:
        ledger.warn(
            WarningCode.LOW_COVERAGE,
            "No line of the logs speaks of a failure or a warning.",
            Stage.COMPRESSION,
        )
    told.sort(key=lambda entry: entry[:2])
    return [draft for _, _, drafts in told for draft in drafts]


def _of_log(analysis: LogAnalysis, request: CompressRequest) -> list[Draft]:
    drafts: list[Draft] = []
    root = analysis.root
    if root is not None:
        groups = _groups(analysis, request)
        first = next(group for group in groups if group.ranked is root)
        drafts.append(_failure(analysis, first, root, groups, is_root=True))
        rest = [g for g in groups if g is not first and g.ranked.score >= root.score - MARGIN]
        rest.sort(key=lambda g: (-g.ranked.score, g.ranked.block.first))
        for group in rest[: MAX_FAILURES - 1]:
            drafts.append(_failure(analysis, group, root, groups, is_root=False))
    drafts += [_warning(analysis, cluster, root) for cluster in _warnings(analysis, root)]
    timeline = _timeline(analysis, root)
    return [*drafts, timeline] if timeline is not None else drafts


def _groups(analysis: LogAnalysis, request: CompressRequest) -> list[_Group]:
    """Blocks with their repeats, in order of the first; the root is never a repeat."""
    params = request.task_params
    grouped: dict[str, list[Ranked]] = {}
    root = analysis.root
    for number, ranked in enumerate(analysis.ranked):
        collapse = params.cluster_stack_traces if ranked.block.trace else params.deduplicate_repeated_lines
        key = f"{ranked.block.kind}:{ranked.template}" if collapse and ranked is not root else f"#{number}"
        grouped.setdefault(key, []).append(ranked)
    groups = []
    for members in grouped.values():
        best = max(members, key=lambda r: (r.score, -r.block.first))
        groups.append(_Group(best, tuple(m for m in members if m is not best)))
    return sorted(groups, key=lambda g: g.ranked.block.first)


def _failure(
    analysis: LogAnalysis, group: _Group, root: Ranked, groups: Sequence[_Group], *, is_root: bool
) -> Draft:
    block = group.ranked.block
    span = extent(analysis.lines, block)
    message, detail = wording.told(analysis.lines, block)
    kind = "root_failure" if is_root else str(block.kind)
    parts = [message if not detail or detail in message else f"{message} | {detail}"]
    facts = _facts(analysis, group, kin=_kin(groups, root) if is_root else 0)
    derived = ", ".join([wording.noun(block.kind), *wording.classes(analysis.lines, block), *facts])
    relevance = 1.0 if is_root else max(0.05, min(0.95, group.ranked.score / max(root.score, 0.1)))
    return Draft(
        kind,
        f"{parts[0]} ({', '.join(facts)})",
        _places(analysis, span),
        relevance,
        _confidence(group.ranked),
        derived_claim=derived,
        collapsed=tuple(
            place(analysis.reading, r.block.first, min(r.block.last, r.block.first + PLACE_LINES - 1))
            for r in group.repeats[:MAX_COLLAPSED]
        ),
        collapsed_count=len(group.repeats),
    )


def _kin(groups: Sequence[_Group], root: Ranked) -> int:
    """How many later failures have the root's family."""
    return sum(1 + len(g.repeats) for g in groups if g.ranked is not root and g.ranked.family == root.family)


def _facts(analysis: LogAnalysis, group: _Group, kin: int) -> list[str]:
    """Severity, what follows, count, first and last time, phase."""
    lines = analysis.lines
    block = group.ranked.block
    facts = [wording.severity(lines[block.head].level, block.weight), wording.noun(block.kind)]
    if kin:
        facts.append(f"first of {kin + 1} such failures")
    members = [block, *(r.block for r in group.repeats)]
    if group.repeats:
        facts.append(f"{len(members)} times")
    stamps = [lines[at].stamp for b in members for at in range(b.first, b.last + 1) if lines[at].stamp]
    texts = [stamp.text for stamp in sorted((s for s in stamps if s), key=lambda s: s.seconds)]
    if texts:
        facts.append(texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}")
    phase = phase_of(analysis.phases, block.first)
    if phase is not None:
        facts.append(f"in {phase.name}")
    if group.ranked.novel < 0.5:
        facts.append("also in the passing run")
    return facts


def _places(analysis: LogAnalysis, span: Extent) -> tuple[Place, ...]:
    """The block in pieces of at most 80 lines, its beginning first."""
    places: list[Place] = []
    at = span.first
    while at <= span.last and len(places) < PLACES:
        end = min(span.last, at + PLACE_LINES - 1)
        places.append(place(analysis.reading, at, end))
        at = end + 1
    return tuple(places)


def _confidence(ranked: Ranked) -> float:
    return round(max(0.1, min(0.95, 0.2 + 0.18 * ranked.score)), 2)


def _warnings(analysis: LogAnalysis, root: Ranked | None) -> list[Cluster]:
    """The last kinds of warnings before the root failure."""
    limit = root.block.first if root is not None else len(analysis.lines)
    found = [
        c for c in analysis.clusters
        if c.level is Level.WARNING and c.weight >= Weight.TROUBLE and c.members[0] < limit
    ]  # fmt: skip
    found.sort(key=lambda c: (-max(m for m in c.members if m < limit), c.members[0]))
    return found[:MAX_WARNINGS]


def _warning(analysis: LogAnalysis, cluster: Cluster, root: Ranked | None) -> Draft:
    limit = root.block.first if root is not None else len(analysis.lines)
    at = max(m for m in cluster.members if m < limit)
    line = analysis.lines[at]
    facts = ["warning before the failure" if root else "warning", f"{len(cluster.members)} times"]
    if cluster.peak_minute > 1:
        facts.append(f"at most {cluster.peak_minute} a minute")
    rest = [m for m in cluster.members if m != at]
    return Draft(
        "warning",
        f"{wording.message(line.text)} ({', '.join(facts)})",
        (place(analysis.reading, at, at),),
        0.2,
        0.3,
        derived_claim=", ".join(facts),
        collapsed=tuple(place(analysis.reading, m, m) for m in rest[:MAX_COLLAPSED]),
        collapsed_count=len(rest),
    )


def _timeline(analysis: LogAnalysis, root: Ranked | None) -> Draft | None:
    """The phase in which the root failure stands, and how the run got there."""
    if root is None or not analysis.phases:
        return None
    current = phase_of(analysis.phases, root.block.first)
    if current is None:
        return None
    before = [p for p in analysis.phases if p.at < current.at][-3:]
    names = [wording.message(p.name, 60) for p in [*before, current]]
    claim = f"{' → '.join(names)}: the root failure is in the last ({len(analysis.phases)} phases in all)"
    return Draft(
        "timeline",
        claim,
        (place(analysis.reading, current.at, current.at),),
        0.15,
        0.3,
        derived_claim=f"timeline, {len(analysis.phases)} phases",
    )
