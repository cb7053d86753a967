"""What a model claimed, checked against what it cites. An unsupported claim is dropped, with its reason."""

from __future__ import annotations

from collections.abc import Sequence

from agentloop.budget import Ledger
from agentloop.compress.region import chunk_region, place_of
from agentloop.errors import Stage, WarningCode
from agentloop.loop import LoopResult, ModelClaim
from agentloop.loop.support import Source, Verdict, check
from agentloop.types import Chunk, Corpus, Draft, Place

CONFIDENCE = 0.8  # of a supported claim: docs/verification.md publishes how often the check errs
TOLD_REASONS = 3
AnswerDrafts = list[tuple[str, tuple[Draft, ...]]]
"""Sentences of an answer, each with the drafts that it rests on."""


def model_drafts(
    looped: LoopResult,
    corpus: Corpus,
    chunks: Sequence[Chunk],
    ledger: Ledger,
) -> tuple[list[Draft], AnswerDrafts]:
    """Drafts of the supported claims in the model's order, and its answer's supported sentences."""
    # Only the reasons are told: the text of a dropped claim must not reach the pack on this way either.
    reasons = [r.reason for r in looped.rejected]
    drafts: list[Draft] = []
    for claim in looped.claims:
        made = _draft(claim, corpus, chunks, reasons)
        if made is not None:
            drafts.append(made)
    answer: AnswerDrafts = []
    for sentence in looped.answer:
        made = _draft(sentence, corpus, chunks, reasons)
        if made is not None:
            resting = _resting_on(made, drafts)
            drafts += [d for d in resting if not any(d is known for known in drafts)]
            answer.append((sentence.claim, resting))
    if reasons:
        different = list(dict.fromkeys(reasons))
        told = "; ".join(different[:TOLD_REASONS])
        more = f" and {len(different) - TOLD_REASONS} more" if len(different) > TOLD_REASONS else ""
        message = f"{len(reasons)} claims of the model were dropped: {told}{more}."
        ledger.warn(WarningCode.CLAIM_REJECTED, message, Stage.VALIDATION)
    return drafts, answer


def _draft(claim: ModelClaim, corpus: Corpus, chunks: Sequence[Chunk], reasons: list[str]) -> Draft | None:
    cited = [chunks[int(ref[1:])] for ref in claim.refs]
    sources = [
        Source(ref, corpus.text(chunk), f"{corpus.files[chunk.file].path} {chunk.name}")
        for ref, chunk in zip(claim.refs, cited, strict=True)
    ]
    verdict = check(claim.claim, sources)
    if not verdict.supported:
        reasons.append(verdict.reason)
        return None
    return Draft(
        kind="model_claim",
        claim=claim.claim,
        places=_places(verdict, cited, sources, corpus),
        relevance=1.0,
        confidence=CONFIDENCE,
        derived_claim="claim of the model, withheld for this classification",
        by_model=True,
    )


def _places(
    verdict: Verdict, cited: Sequence[Chunk], sources: Sequence[Source], corpus: Corpus
) -> tuple[Place, ...]:
    """The lines that decided, then nothing else: at most a place a clause."""
    places: dict[Place, None] = {}
    for position, start, end in verdict.places:
        region, text = chunk_region(corpus, cited[position]), sources[position].text
        last_line = len(region.lines) - 1
        first = min(text.count("\n", 0, start), last_line)
        last = min(text.count("\n", 0, max(start, end - 1)), last_line)
        places.setdefault(place_of(corpus, region, first, last))
    return tuple(places)


def _resting_on(made: Draft, drafts: Sequence[Draft]) -> tuple[Draft, ...]:
    """The drafts that cite what a sentence cites; the sentence itself becomes one where none does."""
    same = [d for d in drafts if set(d.places) & set(made.places)]
    return tuple(same) or (made,)
