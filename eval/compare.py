"""`agentloop eval compare A B`: two runs, or two run files, question by question."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from agentloop.reasons import unreadable
from eval.stats import paired


class CompareError(Exception):
    """Two things that can't be compared; the message says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """One rung of one set in both runs: the test, and the questions that changed."""

    set_name: str
    rung: str
    metric: str
    a: float
    b: float
    difference: float
    low: float
    high: float
    p: float
    better: tuple[str, ...]
    worse: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "set": self.set_name,
            "rung": self.rung,
            "metric": self.metric,
            "a": round(self.a, 4),
            "b": round(self.b, 4),
            "difference": round(self.difference, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
            "p": round(self.p, 5),
            "better": list(self.better),
            "worse": list(self.worse),
        }


def load_scores(place: Path) -> dict[tuple[str, str], dict[str, dict[str, float]]]:
    """`(set, rung) -> question -> metric -> value` of a run folder, from its `scores.json`.

    Raises:
        CompareError: the folder holds no finished run.
    """
    path = place / "scores.json"
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise CompareError(f"{path}: no finished run: {unreadable(exc)}.") from None
    return {(s, r): table for s, rungs in stored.items() for r, table in rungs.items()}


def compare_runs(a: Path, b: Path, metrics: tuple[str, ...], seed: int) -> list[Row]:
    """Every set and rung that both runs have; of one rung each, those two whatever their names.

    Raises:
        CompareError: nothing in common.
    """
    left, right = load_scores(a), load_scores(b)
    pairs = [(key, key) for key in left if key in right]
    if not pairs and len(left) == len(right) == 1:
        pairs = [(next(iter(left)), next(iter(right)))]
    rows = [
        row
        for key_a, key_b in pairs
        for metric in metrics
        if (row := _row(key_b, left[key_a], right[key_b], metric, seed)) is not None
    ]
    if not rows:
        raise CompareError("the two runs have no set, rung and metric in common.")
    return rows


def _row(
    key: tuple[str, str],
    a: Mapping[str, Mapping[str, float]],
    b: Mapping[str, Mapping[str, float]],
    metric: str,
    seed: int,
) -> Row | None:
    both = [q for q in a if q in b and metric in a[q] and metric in b[q]]
    if not both:
        return None
    before, after = [a[q][metric] for q in both], [b[q][metric] for q in both]
    test = paired(before, after, seed)
    change = {q: y - x for q, x, y in zip(both, before, after, strict=True)}
    return Row(
        set_name=key[0],
        rung=key[1],
        metric=metric,
        a=sum(before) / len(both),
        b=sum(after) / len(both),
        difference=test.difference,
        low=test.low,
        high=test.high,
        p=test.p,
        better=tuple(q for q in sorted(both, key=lambda q: -change[q]) if change[q] > 1e-9),
        worse=tuple(q for q in sorted(both, key=lambda q: change[q]) if change[q] < -1e-9),
    )


def same_run_files(a: Path, b: Path) -> list[str]:
    """Names of run files that differ between two run folders; a replay must give none."""
    names = sorted({p.relative_to(r).as_posix() for r in (a, b) for p in r.rglob("*.trec")})
    return [
        name
        for name in names
        if not (a / name).exists()
        or not (b / name).exists()
        or (a / name).read_bytes() != (b / name).read_bytes()
    ]


def read_run(path: Path) -> dict[str, list[str]]:
    """Documents of each question in a TREC run file, in order of rank."""
    ranked: dict[str, list[tuple[int, str]]] = {}
    for line in path.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        qid, _, doc, rank, *_ = line.split(" ")
        ranked.setdefault(unquote(qid), []).append((int(rank), unquote(doc)))
    return {qid: [doc for _, doc in sorted(docs)] for qid, docs in ranked.items()}


def render(rows: list[Row], show: int) -> str:
    """The comparison as text, with up to `show` changed questions each way."""
    lines = []
    for row in rows:
        sign = "significant" if row.p < 0.05 else "not significant"
        lines.append(
            f"{row.set_name} {row.rung} {row.metric}: {row.a:.3f} -> {row.b:.3f} "
            f"({row.difference:+.3f} [{row.low:+.3f}, {row.high:+.3f}], p {row.p:.4f}, {sign}; "
            f"{len(row.better)} better, {len(row.worse)} worse)"
        )
        lines += [f"    better: {qid}" for qid in row.better[:show]]
        lines += [f"    worse:  {qid}" for qid in row.worse[:show]]
    return "\n".join(lines)
