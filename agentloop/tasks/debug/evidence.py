"""The evidence of a debug session: likely causes, the failures themselves, then what the question found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentloop.chunks import Chunks
from agentloop.compress import EvidenceId
from agentloop.compress.code import first_sentence, qualified
from agentloop.compress.region import place_of, span_region
from agentloop.index.symbols import SymbolParser
from agentloop.logs.ansi import strip
from agentloop.request import CompressRequest, InputRole
from agentloop.tasks.codegraph import CodeGraph
from agentloop.tasks.debug.changes import changed_functions
from agentloop.tasks.debug.failures import Failure, failures
from agentloop.tasks.debug.suspects import Suspect, suspects
from agentloop.tasks.logs import LEADING, distinct, log_files
from agentloop.tasks.model import TaskEvidence
from agentloop.types import Corpus, Draft, Place, Span, Symbol

CAUSES = 5
FIRST_CAUSES = 3  # before the failures themselves
MAX_LOG_BYTES = 16 << 20  # of a log, for tests and frames; larger logs are read from their end
RULED_OUT = 3
TOLD_FAILURES = 8
TOLD_ODDITY = 0.3
BROAD = 3.0  # passing tests reach it so many times more than failing ones: hardly the cause


@dataclass(frozen=True, slots=True)
class _Cause:
    suspect: Suspect
    symbol: Symbol
    path: str
    draft: Draft


def debug_evidence(
    found: Sequence[Draft],
    log_drafts: Sequence[Draft],
    corpus: Corpus,
    chunks: Chunks,
    request: CompressRequest,
    parser: SymbolParser,
) -> TaskEvidence:
    """Likely causes first, then the failures of the logs, then the drafts of the question.

    Args:
        found: what the question's own retrieval found, best first.
        log_drafts: what the logs say of their failures, best first.
    """
    failed = reported(corpus, request)
    graph = CodeGraph(corpus, chunks, parser)
    params = request.task_params
    ranked = suspects(
        failed,
        corpus,
        graph,
        failing_tests=params.failing_tests,
        suspect_paths=params.suspect_paths,
        changed=changed_functions(corpus, graph, request),
    )
    graph.tell_bounds()
    causes = _causes(ranked, failed, corpus, graph)
    drafts = [c.draft for c in causes]
    order = [*drafts[:FIRST_CAUSES], *log_drafts[:LEADING], *drafts[FIRST_CAUSES:], *log_drafts[LEADING:]]

    def details(evidence_id: EvidenceId) -> dict[str, Any]:
        return _details(evidence_id, causes, failed, ranked, graph, quote=not corpus.classification.protected)

    return TaskEvidence(distinct([*order, *found], corpus), details)


def reported(corpus: Corpus, request: CompressRequest) -> list[Failure]:
    """The failures that the logs and the pasted trace report, in their order."""
    texts = [request.task_params.stack_trace or "", request.question]
    for file in log_files(corpus, InputRole.PRIMARY):
        if file.derived is not None:
            texts.append(file.derived.joined(0, len(file.derived.items) - 1)[-MAX_LOG_BYTES:])
        else:
            start = max(0, file.content.size - MAX_LOG_BYTES)
            texts.append(file.content.read(start, file.content.size).decode("utf-8", "replace"))
    return [failure for text in texts if text for failure in failures(strip(text))]


def _causes(
    ranked: Sequence[Suspect], failed: Sequence[Failure], corpus: Corpus, graph: CodeGraph
) -> list[_Cause]:
    best = ranked[0].score if ranked else 1.0
    total = sum(s.score for s in ranked[: 2 * CAUSES]) or 1.0
    made = []
    for suspect in ranked[:CAUSES]:
        symbol, file = graph.symbol(suspect.function), graph.source(suspect.function)
        why = reasons(suspect, len(failed))
        doc = first_sentence(symbol.doc)
        claim = f"Likely cause: {qualified(symbol)} ({symbol.kind}), {', '.join(why)}."
        draft = Draft(
            kind="likely_cause",
            claim=f"{claim} {symbol.signature}{' | ' + doc if doc else ''}",
            places=(_place(corpus, symbol, suspect.function.file),),
            relevance=round(suspect.score / best, 2) if best else 0.0,
            # the share of all suspicion that it draws, halved: static evidence alone never convicts
            confidence=round(0.2 + 0.7 * suspect.score / total, 2),
            derived_claim=claim,
        )
        made.append(_Cause(suspect, symbol, file.path, draft))
    return made


def reasons(suspect: Suspect, failed: int) -> list[str]:
    """Why a function is suspected, strongest first, in words that quote nothing."""
    why = []
    if suspect.changes:
        why.append(f"changed in {', '.join(suspect.changes[:2])}")
    if suspect.frame_depth is not None:
        where = "innermost project frame" if suspect.frame_depth == 0 else f"frame {suspect.frame_depth + 1}"
        why.append(f"{where} of a trace")
    if suspect.reached_by:
        why.append(f"reached by {suspect.reached_by} of {failed} failing tests")
        passing = round(suspect.passing / max(suspect.failing / suspect.reached_by, 1e-9))
        why.append("by no passing test" if not passing else f"and by about {passing} that pass")
    if suspect.asserted:
        why.append("named in the assertion")
    if suspect.value:
        why.append("holds a value that the assertion shows")
    if suspect.oddity is not None and suspect.oddity.weight >= TOLD_ODDITY:
        why.append(f"line {suspect.oddity.line}: {suspect.oddity.name}")
    return why or ["under a suspect path"]


def _place(corpus: Corpus, symbol: Symbol, file: int) -> Place:
    """The definition; its first lines where it is longer than a ref may be."""
    span = Span(symbol.byte_start, symbol.byte_end, symbol.line_start, symbol.line_end)
    region = span_region(corpus, file, span)
    return place_of(corpus, region, 0, len(region.lines) - 1)


def _details(
    evidence_id: EvidenceId,
    causes: Sequence[_Cause],
    failed: Sequence[Failure],
    ranked: Sequence[Suspect],
    graph: CodeGraph,
    *,
    quote: bool,
) -> dict[str, Any]:
    told = [
        {"symbol": qualified(c.symbol), "path": c.path, "evidence": [found]}
        for c in causes
        if (found := evidence_id(c.draft))
    ]
    tests = [
        {"test": f.name, "assertion": f.assertion[0][:160] if quote and f.assertion else ""}
        for f in failed[:TOLD_FAILURES]
        if f.name
    ]
    broad = [
        {"symbol": qualified(graph.symbol(s.function)), "why": "passing tests reach it far more often"}
        for s in ranked[CAUSES : CAUSES * 4]
        if s.failing and s.passing > BROAD * s.failing
    ]
    return {
        "failures": len(failed),
        "failing_tests": tests,
        "likely_causes": told,
        "ruled_out": broad[:RULED_OUT],
        "next_steps": _next_steps(causes, failed),
    }


def _next_steps(causes: Sequence[_Cause], failed: Sequence[Failure]) -> list[str]:
    steps = []
    if causes:
        first = causes[0]
        steps.append(f"Read {first.path}:{first.symbol.line_start}-{first.symbol.line_end}.")
    named = next((f for f in failed if f.name), None)
    if named:
        steps.append(f"Run {named.scope + ' ' if named.scope else ''}{named.name} alone.")
    return steps
