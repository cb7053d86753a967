"""`report.md`: the ladder as the specification prints it, and what stands behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

SOURCES = {
    "newest_first": "newest first, trimmed",
    "tail": "the log's last lines",
    "minsearch": "minsearch (TF-IDF cosine)",
    "bm25": "single-shot BM25",
    "hybrid": "single-shot hybrid (BM25 + vectors, RRF)",
    "single_shot": "agentloop, single shot",
    "agentic": "agentloop, agentic loop",
    "oracle": "agentloop, loop that knows the sub-questions",
}
LOG_COLUMNS = (
    ("line_recall@60l", "coverage, 60 lines"),
    ("line_precision@60l", "precision, 60 lines"),
    ("line_recall@200l", "coverage, 200 lines"),
    ("line_precision@200l", "precision, 200 lines"),
    ("first_item_on_gold", "first item on a labelled line"),
)
TESTED = ("hit@5", "all_gold@10", "ndcg@10", "hit@25d", "line_recall@60l", "line_recall@200l")


def render(results: dict[str, Any], plots: Mapping[str, Sequence[str]]) -> str:
    """The whole report. `plots` are picture paths by set, relative to the report."""
    parts = ["# Retrieval ladder\n"]
    for name, result in results["sets"].items():
        parts += _set(name, result, results["k"], plots.get(name, ()))
    parts.append(
        "Intervals are 95 % bootstrap intervals over questions. Tests are paired: exact McNemar for "
        "yes/no metrics, else a randomisation test. Tokens of plain rungs are those of the raw passages; "
        "of the engine's rungs, of the whole pack, JSON included.\n"
    )
    return "\n".join(parts)


def _set(name: str, result: dict[str, Any], ks: Sequence[int], plots: Sequence[str]) -> list[str]:
    lines = [f"## {name}\n"]
    told = f"{result['headline_questions']} questions, a document is a {result['granularity']}"
    if result["questions"] > result["headline_questions"]:
        told += f"; {result['questions'] - result['headline_questions']} unanswerable ones are apart"
    lines.append(told + ".\n")
    lines += _log_ladder(result) if result["lane"] == "logs" else _ladder(result)
    if result["lane"] != "logs":
        lines += _ranks(result, ks)
    lines += _budgets(result)
    lines += _lines_at_budgets(result)
    lines += _packs(result)
    lines += _fails(result)
    lines += _kinds(result)
    lines += _causes(result)
    lines += _tests(result)
    lines += _unscored(result)
    lines += [f"![{plot}]({plot})\n" for plot in plots]
    return lines


def cell(value: Mapping[str, float] | None) -> str:
    """A share in percent with its interval; a dash where there is no value."""
    if not value or not value["n"]:
        return "–"
    return f"{100 * value['mean']:.1f} % [{100 * value['low']:.0f}–{100 * value['high']:.0f}]"


def _mean(metrics: Mapping[str, Any], name: str, digits: int) -> str:
    return f"{metrics[name]['mean']:.{digits}f}" if name in metrics else "–"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table, followed by an empty line."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def _effort(metrics: Mapping[str, Any]) -> list[str]:
    cost = metrics.get("cost", {}).get("mean", 0.0)
    return [
        _mean(metrics, "calls", 1),
        _mean(metrics, "turns", 1),
        _mean(metrics, "tokens", 0),
        _mean(metrics, "seconds", 2),
        f"${cost:.4f}" if cost else "–",
    ]


EFFORT_HEAD = ("calls", "turns", "tokens", "seconds", "cost")


def _ladder(result: dict[str, Any]) -> list[str]:
    columns = [("hit@5", f"Right {result['granularity']} retrieved (top 5)")]
    if any("session_hit@5" in values["metrics"] for values in result["rungs"].values()):
        columns.append(("session_hit@5", "Right conversation retrieved (top 5)"))
    rows = [
        [
            SOURCES.get(rung, rung),
            *(cell(values["metrics"].get(m)) for m, _ in columns),
            *_effort(values["metrics"]),
        ]
        for rung, values in result["rungs"].items()
    ]
    return table(["Source selection", *(title for _, title in columns), *EFFORT_HEAD], rows)


def _log_ladder(result: dict[str, Any]) -> list[str]:
    rows = [
        [
            SOURCES.get(rung, rung),
            *(cell(values["metrics"].get(m)) for m, _ in LOG_COLUMNS),
            *_effort(values["metrics"]),
        ]
        for rung, values in result["rungs"].items()
    ]
    return table(["Source selection", *(title for _, title in LOG_COLUMNS), *EFFORT_HEAD], rows)


def _ranks(result: dict[str, Any], ks: Sequence[int]) -> list[str]:
    names = [f"hit@{k}" for k in ks] + [f"recall@{k}" for k in ks] + [f"all_gold@{k}" for k in ks if k >= 5]
    names += ["mrr", "ndcg@10", "hit@25d", "item_hit@1", "item_hit@5"]
    if any("session_hit@5" in values["metrics"] for values in result["rungs"].values()):
        names += [f"session_hit@{k}" for k in ks]
    rows = []
    for name in names:
        cells = [cell(values["metrics"].get(name)) for values in result["rungs"].values()]
        rows.append([name, *cells])
    return ["### Ranks\n", *table(["metric", *result["rungs"]], rows)]


def _family(result: dict[str, Any], prefixes: Sequence[str], suffix: str) -> list[str]:
    names: dict[str, None] = {}
    for values in result["rungs"].values():
        names.update(dict.fromkeys(n for n in values["metrics"] if n.startswith(tuple(prefixes))))
    return [n for n in names if n.endswith(suffix) and "@" in n]


def _budgets(result: dict[str, Any]) -> list[str]:
    names = _family(result, ("hit@", "recall@", "all_gold@"), "t")
    if not names or result["lane"] == "logs":
        return []
    rows = [[n, *(cell(v["metrics"].get(n)) for v in result["rungs"].values())] for n in names]
    return ["### At equal token budgets\n", *table(["metric", *result["rungs"]], rows)]


def _lines_at_budgets(result: dict[str, Any]) -> list[str]:
    names = _family(result, ("line_recall@", "line_precision@"), "t")
    if not names:
        return []
    rows = [[n, *(cell(v["metrics"].get(n)) for v in result["rungs"].values())] for n in names]
    return ["### Lines at equal token budgets\n", *table(["metric", *result["rungs"]], rows)]


def _packs(result: dict[str, Any]) -> list[str]:
    rows = []
    for rung, values in result["rungs"].items():
        metrics = values["metrics"]
        if "refs_verified" in metrics:
            fits = [metrics[n]["mean"] for n in metrics if n.startswith("pack_fits@")]
            tokens = [_mean(metrics, n, 0) for n in metrics if n.startswith("pack_tokens@")]
            ece = values["calibration"].get("ece")
            rows.append(
                [
                    rung,
                    cell(metrics["refs_verified"]),
                    cell(metrics["claims_supported"]),
                    f"{100 * min(fits):.1f} %" if fits else "–",
                    " / ".join(tokens),
                    "–" if ece is None else f"{ece:.3f}",
                ]
            )
    head = ["rung", "refs verified", "claims supported", "within budget", "pack tokens", "calibration error"]
    return ["### Whole packs\n", *table(head, rows)] if rows else []


FAIL_TITLES = {
    "no_gold_in_5": "Where BM25 alone finds no gold in its first five",
    "not_all_gold_in_10": "Where BM25 alone misses some gold in its first ten",
}


def _fails(result: dict[str, Any]) -> list[str]:
    lines = []
    for name, subset in result["bm25_fails"].items():
        metrics = ("hit@5", "recall@10", "all_gold@10", "ndcg@10")
        rows = [[rung, *(cell(values.get(m)) for m in metrics)] for rung, values in subset["rungs"].items()]
        lines += [
            f"### {FAIL_TITLES[name]}: {subset['questions']} questions\n",
            *table(["rung", *metrics], rows),
        ]
    return lines


def _kinds(result: dict[str, Any]) -> list[str]:
    lines = []
    logs = result["lane"] == "logs"
    threads = any("session_hit@5" in v["metrics"] for v in result["rungs"].values())
    metrics = ["line_recall@60l"] if logs else ["hit@5", "item_hit@5"] + ["session_hit@5"] * threads
    fields = (("by_kind", "kind"), ("by_lang", "language"), ("by_group", "group"))
    for metric, (field, title) in product(metrics, fields):
        parts = dict.fromkeys(part for v in result["rungs"].values() for part in v[field])
        if parts and len(parts) <= 20:
            rows = [
                [part, *(cell(v[field].get(part, {}).get(metric)) for v in result["rungs"].values())]
                for part in parts
            ]
            lines += [f"### {metric} by {title}\n", *table([title, *result["rungs"]], rows)]
    return lines


def _causes(result: dict[str, Any]) -> list[str]:
    rows = [
        [c["change"], c["cause"], str(c["documents"]), str(c["questions"]), _code(c["examples"])]
        for c in result.get("causes", ())
    ]
    head = ["change", "cause", "gold documents", "questions", "for example"]
    return ["### What the loop gains and loses in the first ten\n", *table(head, rows)] if rows else []


def _code(examples: Sequence[str]) -> str:
    return "; ".join(example.replace("|", "/") for example in examples[:1])


def _tests(result: dict[str, Any]) -> list[str]:
    wanted = [m for m in TESTED if m.startswith("line_") == (result["lane"] == "logs")]
    rows = [
        [
            f"{t['a']} → {t['b']}",
            t["metric"],
            f"{100 * t['difference']:+.1f} [{100 * t['low']:+.1f}, {100 * t['high']:+.1f}]",
            f"{t['wins']} / {t['losses']} / {t['ties']}",
            f"{t['p']:.4f}",
        ]
        for t in result["tests"]
        if t["metric"] in wanted and t["wins"] + t["losses"]
    ]
    head = ["rungs", "metric", "difference, points", "wins / losses / ties", "p"]
    return ["### Paired tests\n", *table(head, rows)] if rows else []


def _unscored(result: dict[str, Any]) -> list[str]:
    rows = []
    for rung, values in result["rungs"].items():
        reasons: dict[str, int] = {}
        for reason in values["could_not_score"].values():
            reasons[reason] = reasons.get(reason, 0) + 1
        rows += [[rung, str(count), reason.replace("|", "/")] for reason, count in reasons.items()]
    return ["### Could not score\n", *table(["rung", "questions", "reason"], rows)] if rows else []
