"""Confidence intervals and paired tests, seeded. Formulas as in Efron and Tibshirani 1993, and Smucker
et al. 2007 (randomisation test for paired retrieval runs)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np

RESAMPLES = 2000
FLIPS = 10_000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its bootstrap interval, over `n` questions."""

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Paired:
    """Two rungs on the same questions: `difference` is mean(b) - mean(a), `p` is two-sided."""

    difference: float
    low: float
    high: float
    wins: int
    losses: int
    ties: int
    p: float
    test: str


def interval(values: Sequence[float], seed: int) -> Interval:
    """Mean and 95 % percentile bootstrap interval; all zero for no values."""
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        return Interval(0.0, 0.0, 0.0, 0)
    low, high = _bootstrap(data, seed)
    return Interval(float(data.mean()), low, high, int(data.size))


@lru_cache(maxsize=64)
def _draws(size: int, seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The resamples of `size` questions: the same for every metric, so that figures move together."""
    return np.random.default_rng(seed).integers(0, size, (RESAMPLES, size))


def _bootstrap(data: np.ndarray[tuple[int, ...], np.dtype[np.float64]], seed: int) -> tuple[float, float]:
    means = data[_draws(data.size, seed)].mean(axis=1)
    tail = (1 - LEVEL) / 2
    return float(np.quantile(means, tail)), float(np.quantile(means, 1 - tail))


def paired(a: Sequence[float], b: Sequence[float], seed: int) -> Paired:
    """Compare two rungs question by question.

    Exact McNemar where every value is 0 or 1; else a randomisation test that flips the signs of the
    differences (10,000 times, or all of them up to 12 questions with a difference).

    Raises:
        ValueError: the lengths differ.
    """
    left, right = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if left.shape != right.shape:
        raise ValueError("paired values must be over the same questions")
    if left.size == 0:
        return Paired(0.0, 0.0, 0.0, 0, 0, 0, 1.0, "none")
    change = right - left
    wins, losses = int((change > 1e-12).sum()), int((change < -1e-12).sum())
    binary = bool(np.isin(np.concatenate([left, right]), (0.0, 1.0)).all())
    p = mcnemar(wins, losses) if binary else randomisation(change, seed)
    low, high = _bootstrap(change, seed)
    name = "mcnemar" if binary else "randomisation"
    return Paired(float(change.mean()), low, high, wins, losses, int(change.size) - wins - losses, p, name)


def mcnemar(wins: int, losses: int) -> float:
    """Exact two-sided p of `wins` against `losses` under a fair coin."""
    n, k = wins + losses, min(wins, losses)
    if n == 0:
        return 1.0
    return min(1.0, 2 * sum(comb(n, i) for i in range(k + 1)) / (1 << n))


def randomisation(change: np.ndarray[tuple[int, ...], np.dtype[np.float64]], seed: int) -> float:
    """Two-sided p that the mean of the differences is zero, by flipping signs."""
    moved = change[np.abs(change) > 1e-12]
    if moved.size == 0:
        return 1.0
    seen = abs(float(moved.sum())) - 1e-12
    if moved.size <= 12:
        signs = 1 - 2 * ((np.arange(2**moved.size)[:, None] >> np.arange(moved.size)) & 1)
        return int((np.abs(signs @ moved) >= seen).sum()) / len(signs)
    rng = np.random.default_rng(seed)
    signs = rng.choice(np.array([-1.0, 1.0]), size=(FLIPS, moved.size))
    extreme = int((np.abs(signs @ moved) >= seen).sum())
    return (extreme + 1) / (FLIPS + 1)
