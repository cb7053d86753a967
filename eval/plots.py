"""PNG plots: the ladder, recall against tokens, and the reliability of confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.answers import Answer
from eval.golden import Question

TOKEN_GRID = (100, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 4000, 6000, 8000, 12_000, 16_000)


def curve(questions: Sequence[Question], answers: Mapping[str, Answer]) -> list[tuple[int, float]]:
    """Mean recall of gold documents by the tokens of leading evidence items, up to what was kept."""
    asked = [q for q in questions if q.docs and q.qid in answers and not answers[q.qid].error]
    longest = max((sum(p.tokens for p in answers[q.qid].pieces) for q in asked), default=0)
    points = []
    for limit in TOKEN_GRID:
        total = sum(_recall(q, answers[q.qid], limit) for q in asked)
        points.append((limit, total / max(1, len(asked))))
        if limit > longest:
            break
    return points


def _recall(question: Question, answer: Answer, limit: int) -> float:
    spent = 0
    seen: set[str] = set()
    for piece in answer.pieces:
        spent += piece.tokens
        if spent > limit:
            break
        seen.update(piece.docs)
    return len(seen & set(question.docs)) / len(question.docs)


def draw(
    folder: Path,
    name: str,
    results: dict[str, Any],
    questions: Sequence[Question],
    answers: Mapping[str, Mapping[str, Answer]],
) -> list[str]:
    """Write the plots of one set; returns their file names.

    Raises:
        ImportError: the extra `eval` is not installed.
    """
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    made = [_ladder(folder, name, results), _tokens(folder, name, questions, answers)]
    if any(rung["calibration"] for rung in results["rungs"].values()):
        made.append(_reliability(folder, name, results))
    return made


def _save(figure: Any, folder: Path, name: str) -> str:
    import matplotlib.pyplot as plt

    figure.tight_layout()
    # no metadata: the same results give the same picture
    figure.savefig(folder / name, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return name


def _ladder(folder: Path, name: str, results: dict[str, Any]) -> str:
    import matplotlib.pyplot as plt

    metrics = ["hit@1", "hit@5", "hit@10", "all_gold@10", "ndcg@10"]
    if results["lane"] == "logs":
        metrics = ["line_recall@60l", "line_precision@60l", "line_recall@200l", "line_precision@200l"]
    rungs = {n: r["metrics"] for n, r in results["rungs"].items() if r["metrics"]}
    figure, axes = plt.subplots(figsize=(9, 4.5))
    width = 0.8 / max(1, len(rungs))
    for at, (rung, values) in enumerate(rungs.items()):
        shown = [values.get(m, {"mean": 0, "low": 0, "high": 0}) for m in metrics]
        means = [v["mean"] for v in shown]
        spread = [
            [max(0.0, v["mean"] - v["low"]) for v in shown],
            [max(0.0, v["high"] - v["mean"]) for v in shown],
        ]
        places = [x + at * width for x in range(len(metrics))]
        axes.bar(places, means, width, yerr=spread, capsize=2, label=rung)
    axes.set_xticks([x + 0.4 - width / 2 for x in range(len(metrics))], metrics)
    axes.set_ylim(0, 1.05)
    axes.set_title(f"{name}: the ladder, 95 % intervals")
    axes.legend(fontsize=8)
    return _save(figure, folder, "ladder.png")


def _tokens(
    folder: Path, name: str, questions: Sequence[Question], answers: Mapping[str, Mapping[str, Answer]]
) -> str:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5))
    shown = [q for q in questions if q.headline]
    for rung, by_question in answers.items():
        points = curve(shown, by_question) if by_question else []
        if points:
            axes.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=3, label=rung)
    axes.set_xscale("log")
    axes.set_xlabel("tokens of evidence that the caller reads")
    axes.set_ylabel("recall of gold documents")
    axes.set_ylim(0, 1.05)
    axes.set_title(f"{name}: recall against tokens")
    axes.legend(fontsize=8)
    return _save(figure, folder, "recall_tokens.png")


def _reliability(folder: Path, name: str, results: dict[str, Any]) -> str:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 5))
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1)
    for rung, values in results["rungs"].items():
        bins = values["calibration"].get("bins", [])
        if bins:
            label = f"{rung}, error {values['calibration']['ece']:.2f}"
            axes.plot([b["confidence"] for b in bins], [b["right"] for b in bins], marker="o", label=label)
    axes.set_xlabel("confidence")
    axes.set_ylabel("share of items that reference gold")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_title(f"{name}: reliability")
    axes.legend(fontsize=8)
    return _save(figure, folder, "reliability.png")
