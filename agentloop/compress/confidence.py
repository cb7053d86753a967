"""How sure an item is: one monotone logistic over what retrieval and extraction saw."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Features:
    """What confidence rests on, each 0..1.

    The reranked score; the share of the question's weight that the cited text holds; in how many rankings
    it stands, relative to the candidate that stands in most; and one over its rank.
    """

    score: float
    coverage: float
    agreement: float
    reciprocal_rank: float


# Logistic regression (ridge 1e-3) on the first ten items of 70 conversation, 40 multi-hop and 40 code
# questions; docs/pack.md has the figures. Golden sets mark only some of what is relevant: a lower bound.
INTERCEPT = -4.48
WEIGHTS = {"score": 0.52, "coverage": 2.1, "agreement": 1.19, "reciprocal_rank": 2.29}


def confidence(features: Features) -> float:
    """Estimated probability that the item's decisive place answers the question, two decimals, 0.01..0.99."""
    z = INTERCEPT
    for name, weight in WEIGHTS.items():
        z += weight * min(1.0, max(0.0, getattr(features, name)))
    return round(min(0.99, max(0.01, 1 / (1 + math.exp(-z)))), 2)
