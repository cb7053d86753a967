"""The envelope around the items: question, scope, retrieval counts, warnings, quality, provenance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from agentloop import tokens
from agentloop.budget import Ledger
from agentloop.compress.items import clip_tokens
from agentloop.errors import Stage, WarningCode
from agentloop.pack import (
    InputScope,
    PackWarning,
    Provenance,
    QualitySignals,
    Retrieval,
    canonical,
    schema_ref,
    short_hash,
    to_json,
)
from agentloop.redact import Redactor
from agentloop.request import CompressRequest
from agentloop.types import Corpus, Ranking

if TYPE_CHECKING:
    from agentloop.loop import LoopResult

MAX_QUERY_TOKENS = 200  # the echoed question; an eighth of the budget where that is less
LEAST_QUERY_TOKENS = 16
MAX_WARNING_TOKENS = 90
MAX_LIKE_WARNINGS = 2  # warnings of one code and stage that are told in full
PROVENANCE_TOKENS = 300  # DESIGN: provenance is at most so large
LOW_COVERAGE_SHARE = 0.5  # of the question's terms; below it the pack warns


@dataclass(frozen=True, slots=True)
class Loop:
    """What the pack tells of the tool loop; all empty where there was none."""

    model: str
    tool_calls: int = 0
    turns: int = 0
    stop_reason: str = ""

    @classmethod
    def of(cls, looped: LoopResult | None) -> Loop:
        """The account of a loop's result."""
        if looped is None:
            return cls("none")
        return cls(looped.model_name, looped.tool_calls, looped.turns, looped.stop_reason)


def query_echo(request: CompressRequest, redactor: Redactor) -> str:
    """The question, cleaned and bounded."""
    most = min(MAX_QUERY_TOKENS, max(LEAST_QUERY_TOKENS, request.constraints.final_evidence_pack_budget // 8))
    return clip_tokens(redactor.clean(request.question.strip()).text, most)


def scope(request: CompressRequest, corpus: Corpus) -> InputScope:
    """Classification and inputs, as the specification names them."""
    refs = zip(request.input_refs, corpus.inputs, strict=True)
    return InputScope(
        classification=corpus.classification,
        source_refs=tuple(schema_ref(ref, info.content_hash) for ref, info in refs),
    )


def retrieval(ranking: Ranking, request: CompressRequest, loop: Loop, compressed: int) -> Retrieval:
    """The counts of retrieval and of the loop."""
    return Retrieval(
        strategies=ranking.strategies,
        chunks_considered=ranking.considered,
        chunks_retrieved=ranking.retrieved,
        chunks_reranked=ranking.reranked,
        chunks_compressed=compressed,
        mode=str(request.task_params.mode),
        model=loop.model,
        tool_calls=loop.tool_calls,
        turns=loop.turns,
        stop_reason=loop.stop_reason,
    )


def quality(ranking: Ranking, items: int, by_model: int) -> QualitySignals:
    """Coverage of the question's terms, agreement of strategies, share of claims by a model."""
    return QualitySignals(
        term_coverage=round(min(1.0, max(0.0, ranking.term_coverage)), 2),
        strategy_agreement=round(min(1.0, max(0.0, ranking.strategy_agreement)), 2),
        model_claims=round(by_model / items, 2) if items else 0.0,
        low_coverage=low_coverage(ranking, items),
    )


def low_coverage(ranking: Ranking, items: int) -> bool:
    """Whether the evidence is too thin for a confident answer."""
    return not items or ranking.term_coverage < LOW_COVERAGE_SHARE


def low_coverage_message(ranking: Ranking, items: int) -> str:
    """What the evidence lacks, and what to do."""
    held = {term for candidate in ranking.candidates for term in candidate.terms}
    missing = [term for term in ranking.terms if term not in held]
    named = ", ".join(repr(term[:40]) for term in missing[:5])
    if not items:
        return "Nothing in the inputs matches the question; ask with other words or other inputs."
    lack = f"No evidence holds {named}" if named else "The evidence holds few of the question's terms"
    return f"{lack}; ask a narrower question or name the term that the data uses."


def pack_warnings(
    warnings: Iterable[tuple[WarningCode, str, Stage]], redactor: Redactor
) -> tuple[PackWarning, ...]:
    """Warnings, cleaned and bounded; of many of one kind the first are told and the rest counted."""
    groups: dict[tuple[WarningCode, Stage], list[str]] = {}
    for code, message, stage in warnings:
        groups.setdefault((code, stage), []).append(message)
    told = []
    for (code, stage), messages in groups.items():
        shown = messages if len(messages) <= MAX_LIKE_WARNINGS + 1 else messages[:MAX_LIKE_WARNINGS]
        for n, message in enumerate(shown):
            text = clip_tokens(redactor.clean(message).text, MAX_WARNING_TOKENS)
            if n == len(shown) - 1 and len(shown) < len(messages):
                text += f" ({len(messages) - len(shown)} more of this kind)"
            told.append(PackWarning(code=str(code), message=text, stage=str(stage)))
    return tuple(told)


def provenance(
    ledger: Ledger,
    pack_id: str,
    job_id: str | None,
    artifacts: dict[str, str],
    cost: dict[str, float] | None = None,
) -> Provenance:
    """Ids, times and artifact hashes in at most 300 tokens: stage times go first."""
    seconds = sum(ledger.seconds.values())
    full = Provenance(
        agentloop=version("agentloop"),
        created=ledger.clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z"),
        seconds=round(seconds, 2),
        pack_id=pack_id,
        job_id=job_id,
        stages={stage: round(spent, 2) for stage, spent in ledger.seconds.items() if round(spent, 2) > 0},
        artifacts={name: short_hash(value) for name, value in artifacts.items()},
        cost=cost or {},
    )
    if tokens.count(canonical(to_json(full))) <= PROVENANCE_TOKENS:
        return full
    return full.model_copy(update={"stages": {}})
