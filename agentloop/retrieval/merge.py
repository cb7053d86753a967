"""One ranking out of the first pass and the loop's searches.

A search is trusted as far as what it adds to the question comes from passages that ranked high: a bridge
from the best passage is worth more than one from the tenth. What no passage explains is the model's own
wording, which gets a trust of its own. The figures behind the constants are in docs/retrieval.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

K = 4
"""Sharper than the 60 of reciprocal-rank fusion: a hop's answer is at the top of its search or nowhere."""
SEARCH_WEIGHT = 3.0
LEAST_TRUST = 0.6
"""What each search keeps: a model that knows the next hop asks in words that no passage explains."""
CODE_WEIGHT = 0.3
"""Where the first pass leads to code: there a question is rarely a chain of hops, and the first pass knows
more than a search does, so what only the loop found comes in behind the head."""
LEADING = 10
"""Chunks of the first pass that say whether it leads to code."""
FALL = 0.5
"""The n-th passage of a ranking is worth 1 / (1 + FALL * (n - 1)) to what is asked because of it."""
OWN_WORDS = 0.8
AGAIN = 0.3
"""What a place in a second ranking adds to the best one."""
ADDED = 0.6
"""What a search adds to the scores of turns of a conversation, against the first pass."""
_AHEAD = 1e-6  # of the rest: scores of merged places differ by more
SOURCES = 20
EXPLAINING = 5
DEPTH = 8


@dataclass(frozen=True, slots=True)
class Searched:
    """A search of the loop: its content words and the chunks it found, best first."""

    words: frozenset[str]
    chunks: Sequence[int]


def merge(
    first: Sequence[int],
    searches: Sequence[Searched],
    trust: Sequence[float],
    weight: float,
) -> dict[int, float]:
    """Scores of all chunks found, by their places in the rankings. The best of the first pass stays first:
    what the loop adds is the other ends of bridges, and the head is what most bridges start from.

    Args:
        first: the first pass, best first.
        trust: of each search.
        weight: of a fully trusted search against the first pass.
    """
    scores = {chunk: 1.0 / (K + rank) for rank, chunk in enumerate(first, 1)}
    for search, share in zip(searches, trust, strict=True):
        for rank, chunk in enumerate(search.chunks[:DEPTH], 1):
            value = weight * max(LEAST_TRUST, share) / (K + rank)
            known = scores.get(chunk, 0.0)
            scores[chunk] = max(known, value) + AGAIN * min(known, value)
    for chunk in first[:1]:
        scores[chunk] = max(scores.values()) + _AHEAD
    return scores


def add(
    first: Mapping[int, float], searches: Sequence[Mapping[int, float]], trust: Sequence[float]
) -> dict[int, float]:
    """Scores where answers are spread over neighbours, as in a conversation: all evidence adds up.

    Args:
        first: scores of the first pass, the best 1.
        searches: scores of each search, the best 1.
        trust: of each search.
    """
    scores = {chunk: score / (K + 1) for chunk, score in first.items()}
    for found, share in zip(searches, trust, strict=True):
        for chunk, score in found.items():
            scores[chunk] = scores.get(chunk, 0.0) + ADDED * share * score / (K + 1)
    return scores


def trusts(
    first: Sequence[int],
    searches: Sequence[Searched],
    asked: frozenset[str],
    terms_of: Callable[[int], frozenset[str]],
    weight_of: Callable[[str], float],
) -> list[float]:
    """How far each search is trusted, 0..1, in order; a search may build on those before it.

    Args:
        asked: the question's words, function words included.
        terms_of: the index terms of a chunk.
        weight_of: how telling a word is; 0 for one that the corpus lacks.
    """
    worth = {chunk: 1.0 / (1.0 + FALL * place) for place, chunk in enumerate(first[:SOURCES])}
    found: list[float] = []
    for search in searches:
        added = {word: weight_of(word) for word in sorted(search.words - asked)}
        total = sum(added.values())
        trust = OWN_WORDS
        if total > 0:
            share, value = max(
                (
                    (round(sum(w for word, w in added.items() if word in terms_of(chunk)) / total, 6), value)
                    for chunk, value in worth.items()
                ),
                default=(0.0, 0.0),
            )
            trust = share * value + (1.0 - share) * OWN_WORDS
        found.append(trust)
        for place, chunk in enumerate(search.chunks[:EXPLAINING]):
            worth[chunk] = max(worth.get(chunk, 0.0), trust / (1.0 + FALL * place))
    return found
