"""The evidence of a log: the root failure, the failures beside it, the summary, warnings, the timeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentloop.budget import Ledger
from agentloop.errors import Stage, WarningCode
from agentloop.logs import wording
from agentloop.logs.analysis import LogAnalysis, analyse, passing_templates
from agentloop.logs.background import timeline, warnings_before
from agentloop.logs.failures import Kind
from agentloop.logs.grouping import Group, groups_of, kin
from agentloop.logs.lines import place
from agentloop.logs.phases import phase_of
from agentloop.logs.ranking import Ranked
from agentloop.logs.series import series
from agentloop.logs.severity import Weight
from agentloop.logs.trimming import extent, lead_up
from agentloop.request import CompressRequest
from agentloop.types import Corpus, Draft, Place, SourceFile

PLACE_LINES = 80  # DESIGN: at most 80 lines a reference, at most 4 references an item
PLACES = 4
PHASE_CHARS = 60
MARGIN = 1.5  # a block that scores this much below the root is not told
NEAR = 0.6  # how close to the end of the run, or to its words, a minor block must be to be told
MAX_FAILURES = 12
MAX_COLLAPSED = 2000  # duplicates listed of one draft; their number is always exact


def log_drafts(
    corpus: Corpus,
    files: Sequence[SourceFile],
    request: CompressRequest,
    ledger: Ledger,
    *,
    baseline_files: Sequence[SourceFile] = (),
    seen: Callable[[LogAnalysis], None] | None = None,
) -> list[Draft]:
    """Evidence of the logs in `files`, best first: a log's own items stay together, the worst log leads.

    Args:
        corpus: the corpus that the files' indexes belong to.
        files: the failing logs.
        request: `time_window`, `deduplicate_repeated_lines` and `cluster_stack_traces` are honoured.
        ledger: lines that were not read one by one are counted here; logs without trouble are told.
        baseline_files: logs of passing runs; what they also say weighs less.
        seen: is given each analysis as it is made.
    """
    passing = passing_templates(baseline_files)
    told: list[tuple[float, int, list[Draft]]] = []
    for order, stream in enumerate(series(files)):
        analysis = analyse(stream, passing=passing, window=request.task_params.time_window)
        if seen is not None:
            seen(analysis)
        reading = analysis.reading
        ledger.add(Stage.COMPRESSION, log_lines=reading.total, log_lines_unread=reading.skipped)
        drafts = _of_log(analysis, request)
        if drafts:
            told.append((-(analysis.root.score if analysis.root else 0.0), order, drafts))
    if files and not told:
        names = ", ".join(corpus.files[file.index].path for file in files[:3])
        ledger.warn(
            WarningCode.LOW_COVERAGE,
            f"No line of {names} speaks of a failure or a warning.",
            Stage.COMPRESSION,
        )
    told.sort(key=lambda entry: entry[:2])
    return [draft for _, _, drafts in told for draft in drafts]


def _of_log(analysis: LogAnalysis, request: CompressRequest) -> list[Draft]:
    root = analysis.root
    drafts: list[Draft] = []
    cited: list[Group] = []
    if root is not None:
        params = request.task_params
        groups = groups_of(
            analysis.ranked,
            root,
            repeats=params.deduplicate_repeated_lines,
            traces=params.cluster_stack_traces,
        )
        first = next(group for group in groups if group.ranked is root)
        rest = [g for g in groups if g is not first and _worth_telling(g, root)]
        rest.sort(key=lambda g: (-g.score, g.ranked.block.first))
        cited = [first, *rest[: MAX_FAILURES - 1]]
        drafts = [_failure(analysis, group, root, kin(groups, root)) for group in cited]
    drafts += warnings_before(analysis, {at for group in cited for at in group.lines()})
    steps = timeline(analysis)
    return [*drafts, steps] if steps is not None else drafts


def _worth_telling(group: Group, root: Ranked) -> bool:
    """Whether a block beside the root is evidence: of a failure's weight, or close to the end of the run."""
    ranked = group.ranked
    if ranked.block.kind is Kind.SUMMARY and root.block.kind is not Kind.SUMMARY:
        return ranked.informative
    minor = ranked.block.weight < Weight.FAILURE and not ranked.block.trace
    if minor and max(ranked.near, ranked.shared) < NEAR:
        return False
    return group.score >= root.score - MARGIN


def _failure(analysis: LogAnalysis, group: Group, root: Ranked, followers: int) -> Draft:
    ranked = group.ranked
    block = ranked.block
    is_root = ranked is root
    message, detail = wording.told(analysis.lines, block)
    facts = _facts(analysis, group, followers if is_root else 0)
    phase = phase_of(analysis.phases, block.first)
    shown = [*facts, f"in {wording.message(phase.name, PHASE_CHARS)}"] if phase is not None else facts
    text = message if not detail or detail in message else f"{message} | {detail}"
    return Draft(
        "root_failure" if is_root else str(block.kind),
        f"{text} ({', '.join(shown)})",
        _places(analysis, group, is_root=is_root),
        1.0 if is_root else round(max(0.05, min(0.95, group.score / max(root.score, 0.1))), 2),
        round(max(0.1, min(0.95, 0.2 + 0.18 * group.score)), 2),
        derived_claim=", ".join([*facts, *wording.classes(analysis.lines, block)]),
        collapsed=tuple(
            place(analysis.reading, r.block.first, min(r.block.last, r.block.first + PLACE_LINES - 1))
            for r in group.repeats[:MAX_COLLAPSED]
        ),
        collapsed_count=len(group.repeats),
    )


def _facts(analysis: LogAnalysis, group: Group, followers: int) -> list[str]:
    """Severity and kind, what follows, count, first and last time; nothing of the source's words."""
    lines = analysis.lines
    block = group.ranked.block
    severity, noun = wording.severity(lines[block.head].level, block.weight), wording.noun(block.kind)
    facts = [noun if noun == severity else f"{severity}, {noun}"]
    if followers:
        facts.append(f"first of {followers + 1} such failures")
    if group.repeats:
        facts.append(f"{analysis.least}{len(group.repeats) + 1} times")
    facts += wording.times(lines, group.lines())
    if group.ranked.novel < 0.5:
        facts.append("also in the passing run")
    return facts


def _places(analysis: LogAnalysis, group: Group, *, is_root: bool) -> tuple[Place, ...]:
    """The block in pieces of at most 80 lines, its beginning first; the root's lead-up after it."""
    span = extent(analysis.lines, group.ranked.block)
    places: list[Place] = []
    at = span.first
    while at <= span.last and len(places) < PLACES:
        end = analysis.reading.end_of_part(at, min(span.last, at + PLACE_LINES - 1))
        places.append(place(analysis.reading, at, end))
        at = end + 1
    before = lead_up(analysis.lines, analysis.phases, group.ranked.block) if is_root else None
    if before is not None and len(places) < PLACES:
        places.append(place(analysis.reading, before.first, before.last))
    return tuple(places)
