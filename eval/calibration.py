"""Is confidence what it says? Reliability of evidence items, and the fit that calibrates them.

An item counts as right when it references a gold document (in sets with line gold: a gold line).
Golden sets mark only some of what is relevant, so these figures are a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval.answers import Answer, Piece
from eval.golden import Question
from eval.metrics import line_set

BINS = 10
TOP_ITEMS = 10  # items after the tenth are rarely read; they would drown the rest


@dataclass(frozen=True, slots=True)
class Judged:
    """One evidence item: what it claimed of itself, and whether it was right."""

    confidence: float
    rank: int
    right: bool


def judge(questions: Sequence[Question], answers: Mapping[str, Answer]) -> list[Judged]:
    """The first ten items of every answer that has a confidence."""
    found = []
    for question in questions:
        answer = answers.get(question.qid)
        if answer is None or answer.error or not question.docs:
            continue
        for rank, piece in enumerate(answer.pieces[:TOP_ITEMS], 1):
            if piece.confidence is not None:
                found.append(Judged(piece.confidence, rank, is_right(question, piece)))
    return found


def is_right(question: Question, piece: Piece) -> bool:
    """Whether an item references gold."""
    if question.lines and piece.lines:
        return bool(line_set(question.lines) & line_set(piece.lines))
    return bool(set(question.docs) & set(piece.docs))


def reliability(questions: Sequence[Question], answers: Mapping[str, Answer]) -> dict[str, Any]:
    """Expected calibration error, Brier score and the reliability bins; empty without confidences."""
    judged = judge(questions, answers)
    if not judged:
        return {}
    bins = []
    error = 0.0
    for at in range(BINS):
        inside = [j for j in judged if min(BINS - 1, int(j.confidence * BINS)) == at]
        if inside:
            said = sum(j.confidence for j in inside) / len(inside)
            was = sum(j.right for j in inside) / len(inside)
            error += abs(said - was) * len(inside) / len(judged)
            bins.append({"confidence": round(said, 4), "right": round(was, 4), "items": len(inside)})
    brier = sum((j.confidence - j.right) ** 2 for j in judged) / len(judged)
    first = [j for j in judged if j.rank == 1]
    return {
        "items": len(judged),
        "ece": round(error, 4),
        "brier": round(brier, 4),
        "first_item_right": round(sum(j.right for j in first) / len(first), 4),
        "bins": bins,
    }


def fit_isotonic(judged: Iterable[Judged]) -> list[tuple[float, float]]:
    """Pool-adjacent-violators: knots `(confidence, share right)` of the best rising step function."""
    points = sorted((j.confidence, float(j.right)) for j in judged)
    blocks: list[list[float]] = []  # mean confidence, mean right, weight
    for said, was in points:
        blocks.append([said, was, 1.0])
        while len(blocks) > 1 and blocks[-2][1] >= blocks[-1][1]:
            said2, was2, n2 = blocks.pop()
            said1, was1, n1 = blocks.pop()
            n = n1 + n2
            blocks.append([(said1 * n1 + said2 * n2) / n, (was1 * n1 + was2 * n2) / n, n])
    return [(said, was) for said, was, _ in blocks]


def fit_logistic(features: Sequence[Sequence[float]], right: Sequence[bool]) -> list[float]:
    """Weights of a logistic regression by Newton steps; the last is the constant. Ridge 1e-3."""
    x = np.hstack([np.asarray(features, dtype=np.float64), np.ones((len(features), 1))])
    y = np.asarray(right, dtype=np.float64)
    weights = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        gradient = x.T @ (p - y) + 1e-3 * weights
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 1e-3 * np.eye(x.shape[1])
        step = np.linalg.solve(hessian, gradient)
        weights -= step
        if np.abs(step).max() < 1e-8:
            break
    return [float(w) for w in weights]
