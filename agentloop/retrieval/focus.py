"""The decisive span of a candidate: the definition it is about, from its first line to its last."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentloop.retrieval.terms import Query
from agentloop.types import Chunk, Corpus, FileKind, Span, Symbol

_WORD = re.compile(rb"[A-Za-z0-9]+")


def symbol_for(
    chunk: Chunk, symbols: Sequence[Symbol], corpus: Corpus, query: Query, names: Sequence[str]
) -> Symbol | None:
    """The definition that a chunk of code is about: the named one, else what holds most of the question.

    A symbol outside the chunk is not considered; of nested ones the innermost that holds as much wins.
    """
    file = corpus.files[chunk.file]
    if file.kind is not FileKind.CODE or file.derived is not None:
        return None
    near = [s for s in symbols if s.byte_start < chunk.byte_end and s.byte_end > chunk.byte_start]
    starting = [s for s in near if s.name in names and s.byte_start >= chunk.byte_start]
    if starting:
        return max(starting, key=lambda s: (s.byte_end - s.byte_start, -s.byte_start))
    data = file.content.read(chunk.byte_start, chunk.byte_end)
    hits = _hits(data, query)
    best, best_key = None, (0.0, 0)
    for symbol in near:
        low, high = symbol.byte_start - chunk.byte_start, symbol.byte_end - chunk.byte_start
        held = {word: weight for at, word, weight in hits if low <= at < high}
        key = (round(sum(held.values()), 6), symbol.byte_start - symbol.byte_end)
        if held and (best is None or key > best_key):
            best, best_key = symbol, key
    return best


def _hits(data: bytes, query: Query) -> list[tuple[int, str, float]]:
    """Where a chunk holds words of the question: offset, word, weight."""
    by_form = {form.encode(): (asked.word, asked.weight) for asked in query.asked for form in asked.forms}
    found = []
    for match in _WORD.finditer(data.lower()):
        hit = by_form.get(match.group())
        if hit is not None:
            found.append((match.start(), *hit))
    return found


def span_of(symbol: Symbol) -> Span:
    """A symbol's place as a span."""
    return Span(symbol.byte_start, symbol.byte_end, symbol.line_start, symbol.line_end)
