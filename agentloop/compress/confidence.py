"""How sure an item is: one monotone logistic over what retrieval and extraction saw."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Features:
    """What confidence rests on, each 0..1: reranked score, share of the question's weight that the cited
    text holds, share of strategies that found it, and closeness to the first rank (1 / rank)."""

    score: float
    coverage: float
    agreement: float
    reciprocal_rank: float


# Starting values by judgement: an item that holds all of the question, found by all strategies, at rank
# one, is right nine times in ten; one that holds a third of it far down, one time in ten. docs/pack.md
# says on which golden sets they were calibrated.
INTERCEPT = -3.2
WEIGHTS = {"score": 1.2, "coverage": 2.4, "agreement": 0.9, "reciprocal_rank": 0.9}


def confidence(features: Features) -> float:
    """Estimated probability that the item's decisive place answers the question, two decimals, 0.01..0.99."""
    z = INTERCEPT
    for name, weight in WEIGHTS.items():
        z += weight * min(1.0, max(0.0, getattr(features, name)))
    return round(min(0.99, max(0.01, 1 / (1 + math.exp(-z)))), 2)
