"""Claims from a ranking: one draft a symbol, section or run, in the ranking's order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentloop.budget import Ledger
from agentloop.compress.code import code_claim, qualified
from agentloop.compress.confidence import Features, confidence
from agentloop.compress.data import data_claim, diff_claim
from agentloop.compress.log_lines import log_claim
from agentloop.compress.prose import prose_claim
from agentloop.compress.records import record_claim
from agentloop.compress.region import Region, chunk_region, overlap, place_of, quotable, span_region
from agentloop.compress.seen import seen_before
from agentloop.compress.terms import Question, profile
from agentloop.compress.wording import WITHHELD, Claim
from agentloop.errors import Stage
from agentloop.index.symbols import SymbolParser
from agentloop.pack import MAX_REFS
from agentloop.redact.injection import instruction_like
from agentloop.request import CompressRequest
from agentloop.types import (
    Candidate,
    Chunk,
    ChunkType,
    Corpus,
    Derived,
    Draft,
    FileKind,
    Place,
    Ranking,
    SourceFile,
)

# An item of the leanest shape has 105 to 160 tokens (bench/pack_tokens.py): claims for many more than
# would fit are work for nothing.
LEAST_ITEM_TOKENS = 105
MAX_DRAFTS = 400
CALLER_WINDOW = 40  # candidates searched for calls of a claimed symbol


@dataclass(frozen=True, slots=True)
class _Sources:
    """What claims are drawn from: the ranked candidates with their texts, and the question's weights."""

    ranking: Ranking
    corpus: Corpus
    chunks: Sequence[Chunk]
    parser: SymbolParser
    asked: str
    candidates: Sequence[Candidate]
    texts: Sequence[str]
    question: Question
    most_ranks: int  # rankings that hold the candidate which most rankings hold

    def file(self, candidate: Candidate) -> SourceFile:
        """The file of a candidate's chunk."""
        return self.corpus.files[self.chunks[candidate.chunk].file]


def draft_claims(
    ranking: Ranking,
    corpus: Corpus,
    chunks: Sequence[Chunk],
    request: CompressRequest,
    parser: SymbolParser,
    ledger: Ledger,
) -> list[Draft]:
    """Extractive drafts of the ranked candidates, best first, no more than the final budget could hold."""
    seen = seen_before(request.task_params.exclude_evidence, corpus)
    fitting = request.constraints.final_evidence_pack_budget // LEAST_ITEM_TOKENS + 4
    most = min(MAX_DRAFTS, fitting + len(seen.hashes))
    candidates = ranking.candidates[: 2 * most]
    texts = [corpus.text(chunks[c.chunk]) for c in candidates]
    asked = request.question
    question = profile(" ".join((asked, *ranking.foreign)), texts)
    most_ranks = max((len(c.ranks) for c in candidates), default=0) or 1
    sources = _Sources(ranking, corpus, chunks, parser, asked, candidates, texts, question, most_ranks)
    made: list[Draft] = []
    symbols: dict[tuple[int, int], int] = {}
    for n, candidate in enumerate(candidates):
        if len(made) == most:
            break
        claim = _claim(candidate, sources)
        if claim is None:
            continue
        key = (chunks[candidate.chunk].file, claim.symbol.byte_start) if claim.symbol else None
        home = symbols.get(key) if key else _home(made, claim.places[0])
        if home is not None:
            made[home] = _merged(made[home], claim, candidate, chunks)
            continue
        if key:
            symbols[key] = len(made)
            claim = _with_callers(claim, sources)
        made.append(_draft(claim, n, sources))
    ledger.add(Stage.COMPRESSION, chunks=len(made))
    return made


def _claim(candidate: Candidate, sources: _Sources) -> Claim | None:
    chunk, corpus, question = sources.chunks[candidate.chunk], sources.corpus, sources.question
    file = sources.file(candidate)
    if file.kind is FileKind.CODE and file.derived is None:
        return code_claim(candidate, corpus, chunk, question, sources.parser)
    whole = _focused(candidate, chunk, corpus)
    region = quotable(whole)
    hidden = question.held(whole.text) - question.held(region.text) if region is not whole else frozenset()
    if hidden and 2 * question.weight(hidden) > question.weight(question.held(whole.text)):
        return _withheld(whole, region, corpus)  # what answers reads as an order to a model
    if file.kind is FileKind.LOG:
        return log_claim(region, corpus, question, sources.asked)
    if file.kind is FileKind.RECORDS or (file.derived is not None and _has_records(file.derived)):
        return record_claim(region, corpus, question, chunk)
    if file.kind in (FileKind.DATA, FileKind.DIFF):
        told = data_claim if file.kind is FileKind.DATA else diff_claim
        return told(region, corpus, question)
    focus = candidate.focus[0] if candidate.focus and file.derived is None else None
    return prose_claim(region, chunk, corpus, question, focus)


def _has_records(derived: Derived) -> bool:
    return bool(derived.items) and bool(derived.items[0].record_id)


def _focused(candidate: Candidate, chunk: Chunk, corpus: Corpus) -> Region:
    """The chunk's lines, or those of a focus that reaches beyond it (a run of neighbouring records)."""
    if candidate.focus and (
        candidate.focus[0].byte_start < chunk.byte_start or candidate.focus[0].byte_end > chunk.byte_end
    ):
        return span_region(corpus, chunk.file, candidate.focus[0])
    return chunk_region(corpus, chunk)


def _withheld(whole: Region, region: Region, corpus: Corpus) -> Claim:
    """A claim that tells where the lines stand that no claim may repeat, and nothing of what they say."""
    lines = zip(whole.lines, region.lines, strict=True)
    hidden = [n for n, (line, left) in enumerate(lines) if line.text != left.text]
    place = place_of(corpus, whole, hidden[0], hidden[-1])
    text = f"{len(hidden)} line{'s' if len(hidden) > 1 else ''} with words of the question; {WITHHELD}"
    return Claim("statement", text, (place,), text)


def _home(made: Sequence[Draft], place: Place) -> int | None:
    """The draft whose decisive place already shows this one."""
    return next((n for n, draft in enumerate(made) if overlap(draft.places[0], place)), None)


def _merged(draft: Draft, claim: Claim, candidate: Candidate, chunks: Sequence[Chunk]) -> Draft:
    """A draft with the places of a later hit on the same symbol or section."""
    places = list(draft.places)
    for place in claim.places:
        if len(places) < MAX_REFS and not any(overlap(place, p) for p in places):
            places.append(place)
    twins = tuple(chunk_place(chunks[c]) for c in candidate.duplicates)
    return replace(
        draft,
        places=tuple(places),
        collapsed=draft.collapsed + twins,
        collapsed_count=draft.collapsed_count + len(twins),
    )


def _with_callers(claim: Claim, sources: _Sources) -> Claim:
    """The claim with the first matched caller, when another candidate calls the symbol."""
    symbol = claim.symbol
    assert symbol is not None  # noqa: S101 - callers checked it
    if (
        len(symbol.name) < 3
        or symbol.name.startswith("__")
        or symbol.kind not in ("function", "method", "class", "macro")
    ):
        return claim
    call = re.compile(rf"(?<![\w$]){re.escape(symbol.name)}\s*\(")
    for other, text in zip(sources.candidates[:CALLER_WINDOW], sources.texts, strict=False):
        file = sources.file(other)
        if file.kind is not FileKind.CODE or file.derived is not None or symbol.name not in text:
            continue
        if not call.search(text):
            continue
        region = chunk_region(sources.corpus, sources.chunks[other.chunk])
        for found in call.finditer(text):
            line = min(text.count("\n", 0, found.start()), len(region.lines) - 1)
            where = place_of(sources.corpus, region, line, line)
            if any(overlap(where, p) for p in claim.places):
                continue
            caller = sources.parser.enclosing(file, where.byte_start, where.byte_end)
            if caller is None or caller.name == symbol.name or caller.line_start == where.line_start:
                continue
            told = f"{claim.text.rstrip(';')}; called by {qualified(caller)}"
            return Claim(claim.kind, told, (*claim.places, where), f"{claim.derived}; has a caller", symbol)
    return claim


def _draft(claim: Claim, n: int, sources: _Sources) -> Draft:
    candidate, text = sources.candidates[n], sources.texts[n]
    total = sources.question.total
    features = Features(
        score=candidate.score,
        coverage=sources.question.weight(sources.question.held(text)) / total if total else 0.0,
        agreement=len(candidate.ranks) / sources.most_ranks,
        reciprocal_rank=1 / (n + 1),
    )
    twins = tuple(chunk_place(sources.chunks[c]) for c in candidate.duplicates)
    trace = sources.chunks[candidate.chunk].type is ChunkType.TRACE
    return Draft(
        kind="stack_trace" if trace else claim.kind,
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
