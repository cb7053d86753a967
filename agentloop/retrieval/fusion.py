"""Reciprocal-rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

K = 60
"""The constant of the paper: it keeps one list's first places from deciding alone."""


def fuse(lists: Mapping[str, tuple[float, Sequence[int]]], k: int = K) -> dict[int, float]:
    """Scores of the chunks of several rankings: the sum of `weight / (k + rank)`.

    Args:
        lists: name -> (weight, chunk ids best first).
    """
    scores: dict[int, float] = {}
    for weight, ranked in lists.values():
        for rank, chunk in enumerate(ranked, 1):
            scores[chunk] = scores.get(chunk, 0.0) + weight / (k + rank)
    return scores


def ranks(lists: Mapping[str, tuple[float, Sequence[int]]]) -> dict[int, dict[str, int]]:
    """Each chunk's 1-based rank by list."""
    found: dict[int, dict[str, int]] = {}
    for name, (_, ranked) in lists.items():
        for rank, chunk in enumerate(ranked, 1):
            found.setdefault(chunk, {}).setdefault(name, rank)
    return found
