"""Claims from a ranking: one draft a symbol, section or run, in the ranking's order."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentloop.budget import Ledger
from agentloop.compress.code import code_claim, qualified
from agentloop.compress.confidence import Features, confidence
from agentloop.compress.data import data_claim
from agentloop.compress.log_lines import log_claim
from agentloop.compress.prose import prose_claim
from agentloop.compress.records import record_claim
from agentloop.compress.region import Region, chunk_region, overlap, place_of, quotable, span_region
from agentloop.compress.terms import Question, profile
from agentloop.compress.wording import Claim, one_line
from agentloop.errors import Stage
from agentloop.index.symbols import SymbolParser
from agentloop.pack import MAX_REFS
from agentloop.redact_injection import instruction_like
from agentloop.request import CompressRequest
from agentloop.types import Candidate, Chunk, ChunkType, Corpus, Draft, FileKind, Place, Ranking

# An item of the leanest shape has 105 to 160 tokens (bench/pack_tokens.py): claims for many more than
# would fit are work for nothing.
LEAST_ITEM_TOKENS = 105
MAX_DRAFTS = 400
CALLER_WINDOW = 40  # candidates searched for calls of a claimed symbol


def draft_claims(
    ranking: Ranking,
    corpus: Corpus,
    chunks: list[Chunk],
    request: CompressRequest,
    parser: SymbolParser,
    ledger: Ledger,
) -> list[Draft]:
    """Extractive drafts of the ranked candidates, best first, no more than the final budget could hold."""
    most = min(MAX_DRAFTS, request.constraints.final_evidence_pack_budget // LEAST_ITEM_TOKENS + 4)
    candidates = ranking.candidates[: 2 * most]
    texts = [corpus.text(chunks[c.chunk]) for c in candidates]
    question = profile(request.question, texts)
    made: list[Draft] = []
    symbols: dict[tuple[int, int], int] = {}
    for rank, candidate in enumerate(candidates, 1):
        if len(made) == most:
            break
        claim = _claim(candidate, corpus, chunks, question, request.question, parser)
        if claim is None:
            continue
        file = chunks[candidate.chunk].file
        key = (file, claim.symbol.byte_start) if claim.symbol else None
        home = symbols.get(key) if key else _home(made, claim.places[0])
        if home is not None:
            made[home] = _merged(made[home], claim, candidate, chunks)
            continue
        if key:
            symbols[key] = len(made)
            claim = _with_callers(claim, candidate, candidates, texts, chunks, corpus)
        made.append(_draft(claim, candidate, rank, corpus, chunks, question, ranking))
    ledger.add(Stage.COMPRESSION, chunks=len(made))
    return made


def _claim(
    candidate: Candidate,
    corpus: Corpus,
    chunks: list[Chunk],
    question: Question,
    asked: str,
    parser: SymbolParser,
) -> Claim | None:
    chunk = chunks[candidate.chunk]
    file = corpus.files[chunk.file]
    if file.kind is FileKind.CODE and file.derived is None:
        return code_claim(candidate, corpus, chunks, question, parser)
    region = _focused(candidate, chunk, corpus)
    if file.kind is FileKind.LOG:
        return log_claim(region, corpus, question, asked)
    if file.kind is FileKind.RECORDS or (file.derived is not None and file.derived.items[0].record_id):
        return record_claim(region, corpus, question)
    if file.kind is FileKind.DATA:
        return data_claim(region, corpus, question)
    if file.kind is FileKind.DIFF:
        return _diff(region, corpus, question)
    focus = candidate.focus[0] if candidate.focus and file.derived is None else None
    return prose_claim(region, chunk, corpus, question, focus)


def _focused(candidate: Candidate, chunk: Chunk, corpus: Corpus) -> Region:
    """The chunk's lines, or those of a focus that reaches beyond it (a run of neighbouring records)."""
    if candidate.focus and (
        candidate.focus[0].byte_start < chunk.byte_start or candidate.focus[0].byte_end > chunk.byte_end
    ):
        return quotable(span_region(corpus, chunk.file, candidate.focus[0]))
    return quotable(chunk_region(corpus, chunk))


def _diff(region: Region, corpus: Corpus, question: Question) -> Claim | None:
    """The changed file and the hunk's lines that answer."""
    best = max(
        range(len(region.lines)),
        key=lambda n: (question.score(region.lines[n].text) + (region.lines[n].text[:1] in "+-") * 0.5, -n),
    )
    if not region.lines[best].text.strip():
        return None
    first = next((n for n in range(best, -1, -1) if region.lines[n].text.startswith("@@")), max(0, best - 8))
    target = next(
        (region.lines[n].text[4:] for n in range(best, -1, -1) if region.lines[n].text.startswith("+++ ")), ""
    )
    last = next(
        (
            n - 1
            for n in range(best + 1, len(region.lines))
            if region.lines[n].text.startswith(("@@", "diff "))
        ),
        min(len(region.lines) - 1, best + 12),
    )
    lead = f"{target.removeprefix('b/')}: " if target else ""
    text = f"{lead}L{region.lines[best].number}: {one_line(region.lines[best].text)}"
    added = sum(line.text.startswith("+") for line in region.lines[first : last + 1])
    removed = sum(line.text.startswith("-") for line in region.lines[first : last + 1])
    place = place_of(corpus, region, first, last)
    return Claim("change", text, (place,), f"diff hunk, {added} lines added, {removed} removed")


def _home(made: Sequence[Draft], place: Place) -> int | None:
    """The draft whose decisive place already shows this one."""
    return next((n for n, draft in enumerate(made) if overlap(draft.places[0], place)), None)


def _merged(draft: Draft, claim: Claim, candidate: Candidate, chunks: list[Chunk]) -> Draft:
    """A draft with the places of a later hit on the same symbol or section."""
    places = list(draft.places)
    for place in claim.places:
        if len(places) < MAX_REFS and not any(overlap(place, p) for p in places):
            places.append(place)
    twins = tuple(chunk_place(chunks[c]) for c in candidate.duplicates)
    return Draft(
        draft.kind,
        draft.claim,
        tuple(places),
        draft.relevance,
        draft.confidence,
        draft.derived_claim,
        draft.collapsed + twins,
        draft.collapsed_count + len(twins),
        draft.flags,
        draft.by_model,
    )


def _with_callers(
    claim: Claim,
    candidate: Candidate,
    candidates: Sequence[Candidate],
    texts: Sequence[str],
    chunks: list[Chunk],
    corpus: Corpus,
) -> Claim:
    """The claim with the first matched caller, when another candidate calls the symbol."""
    symbol = claim.symbol
    assert symbol is not None  # noqa: S101 - callers checked it
    if len(symbol.name) < 3 or symbol.kind not in ("function", "method", "class", "macro"):
        return claim
    call = re.compile(rf"(?<![\w$]){re.escape(symbol.name)}\s*\(")
    for other, text in zip(candidates[:CALLER_WINDOW], texts, strict=False):
        chunk = chunks[other.chunk]
        if other.symbol is None or other.symbol.name == symbol.name:
            continue
        found = call.search(text)
        if found is None or corpus.files[chunk.file].kind is not FileKind.CODE:
            continue
        region = chunk_region(corpus, chunk)
        line = min(text.count("\n", 0, found.start()), len(region.lines) - 1)
        where = place_of(corpus, region, line, line)
        if any(overlap(where, p) for p in claim.places):
            continue
        told = f"{claim.text}; called by {qualified(other.symbol)}"
        return Claim(claim.kind, told, (*claim.places, where), f"{claim.derived}; has a caller", symbol)
    return claim


def _draft(
    claim: Claim,
    candidate: Candidate,
    rank: int,
    corpus: Corpus,
    chunks: list[Chunk],
    question: Question,
    ranking: Ranking,
) -> Draft:
    text = corpus.text(chunks[candidate.chunk])
    total = question.total
    features = Features(
        score=candidate.score,
        coverage=question.weight(question.held(text)) / total if total else 0.0,
        agreement=len(candidate.ranks) / max(1, len(ranking.strategies)),
        reciprocal_rank=1 / rank,
    )
    twins = tuple(chunk_place(chunks[c]) for c in candidate.duplicates)
    kind = "stack_trace" if chunks[candidate.chunk].type is ChunkType.TRACE else claim.kind
    return Draft(
        kind=kind,
        claim=claim.text,
        places=claim.places[:MAX_REFS],
        relevance=min(1.0, max(0.0, candidate.score)),
        confidence=confidence(features),
        derived_claim=claim.derived,
        collapsed=twins,
        collapsed_count=len(twins),
        flags=("instruction_like",) if instruction_like(text) else (),
    )


def chunk_place(chunk: Chunk) -> Place:
    """The place of a whole chunk."""
    return Place(
        chunk.file,
        chunk.byte_start,
        chunk.byte_end,
        chunk.line_start,
        chunk.line_end,
        chunk.first_item,
        chunk.last_item,
        chunk.char_start,
        chunk.char_end,
    )
