"""`results.json`: every figure with its interval, paired tests between rungs, subsets, effort."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval.answers import Answer
from eval.calibration import reliability
from eval.causes import causes
from eval.golden import Lane, Question
from eval.material import sessions
from eval.metrics import score
from eval.plan import RunConfig, Variant
from eval.stats import Interval, interval, paired

SCHEMA = "agentloop_eval_results_v1"
ALWAYS_K = (5, 10)  # the ladder and the subsets need them
EFFORT = frozenset({"calls", "turns", "tokens", "model_tokens", "seconds", "cost"})
Table = dict[str, dict[str, float]]  # question -> metric -> value


@dataclass(frozen=True, slots=True)
class Scored:
    """One set in one form: the answers of each rung, and each question's metrics."""

    variant: Variant
    answers: dict[str, dict[str, Answer]]
    tables: dict[str, Table]


def build(config: RunConfig, scored: Sequence[Scored]) -> dict[str, Any]:
    """All results of a run as JSON values. The same answers give the same bytes."""
    sets = {s.variant.name: variant_results(s, config) for s in scored}
    return {"schema": SCHEMA, "seed": config.seed, "k": list(ks_of(config)), "sets": sets}


def ks_of(config: RunConfig) -> tuple[int, ...]:
    """The asked k, and those that the report needs."""
    return tuple(sorted({*config.ks, *ALWAYS_K}))


def score_variant(variant: Variant, answers: Mapping[str, dict[str, Answer]], config: RunConfig) -> Scored:
    """Score all rungs of one set in one form."""
    threads = sessions(variant.golden)
    tables = {
        rung: score(variant.questions, found, ks_of(config), config.budgets, threads)
        for rung, found in answers.items()
    }
    return Scored(variant, dict(answers), tables)


def variant_results(scored: Scored, config: RunConfig) -> dict[str, Any]:
    """Results of one set in one form."""
    variant, answers, tables = scored.variant, scored.answers, scored.tables
    headline = [q for q in variant.questions if q.headline and q.docs]
    lone = variant.golden.lane is Lane.LOGS  # each question has its own log: groups and ranks say nothing
    seed = config.seed
    result: dict[str, Any] = {
        "lane": str(variant.golden.lane),
        "granularity": granularity(variant),
        "questions": len(variant.questions),
        "headline_questions": len(headline),
        "rungs": {},
    }
    for rung, table in tables.items():
        chosen = {q.qid: table[q.qid] for q in headline if q.qid in table}
        result["rungs"][rung] = {
            "metrics": summary(chosen, seed),
            "could_not_score": could_not_score(headline, answers[rung]),
            "engine_errors": sum("engine_error" in a.notes for a in answers[rung].values()),
            "by_kind": split(chosen, headline, lambda q: q.kind, seed),
            "by_lang": split(chosen, headline, lambda q: q.lang, seed),
            "by_group": {} if lone else split(chosen, headline, lambda q: q.group, seed),
            "calibration": reliability(headline, answers[rung]),
        }
        apart = {q.qid: table[q.qid] for q in variant.questions if not q.headline and q.qid in table}
        if apart:
            result["rungs"][rung]["not_in_headline"] = summary(apart, seed)
    result["bm25_fails"] = {} if lone else bm25_fails(tables, headline, seed)
    if "single_shot" in answers and "agentic" in answers and not lone:
        result["causes"] = causes(headline, answers["single_shot"], answers["agentic"])
    result["tests"] = tests(tables, headline, seed)
    return result


def granularity(variant: Variant) -> str:
    """What a document is in this set."""
    if variant.golden.lane is Lane.RECORDS:
        return "record"
    if variant.golden.lane is Lane.EXPORT:
        return "message"
    return "line" if variant.golden.lane is Lane.LOGS else "file"


def summary(table: Table, seed: int) -> dict[str, dict[str, float | int]]:
    """Each metric's mean and interval, over the questions that have it."""
    names = dict.fromkeys(name for values in table.values() for name in values)
    return {name: rounded(interval([v[name] for v in table.values() if name in v], seed)) for name in names}


def rounded(value: Interval) -> dict[str, float | int]:
    """An interval as JSON, four decimals."""
    return {
        "mean": round(value.mean, 4),
        "low": round(value.low, 4),
        "high": round(value.high, 4),
        "n": value.n,
    }


def could_not_score(questions: Sequence[Question], answers: Mapping[str, Answer]) -> dict[str, str]:
    """Questions without a score, with the reason. They are no zeros."""
    found = {}
    for question in questions:
        answer = answers.get(question.qid)
        if answer is None:
            found[question.qid] = "not answered"
        elif answer.error:
            found[question.qid] = answer.error[:300]
    return found


def split(
    table: Table, questions: Sequence[Question], key: Callable[[Question], str], seed: int
) -> dict[str, Any]:
    """The same figures for each value of `key`; empty where all questions share one."""
    parts: dict[str, Table] = {}
    for question in questions:
        if question.qid in table:
            parts.setdefault(key(question), {})[question.qid] = table[question.qid]
    return {name: summary(part, seed) for name, part in parts.items()} if len(parts) > 1 else {}


def bm25_fails(tables: Mapping[str, Table], questions: Sequence[Question], seed: int) -> dict[str, Any]:
    """Figures of every rung on the questions on which plain BM25 fails, in two senses.

    `no_gold_in_5`: no gold document among its first five. `not_all_gold_in_10`: some gold document is
    not among its first ten (of questions with several gold documents).
    """
    plain = tables.get("bm25")
    if plain is None:
        return {}
    several = {q.qid for q in questions if len(q.docs) > 1}
    asked = [q.qid for q in questions if q.qid in plain]
    subsets = {
        "no_gold_in_5": [qid for qid in asked if plain[qid]["hit@5"] == 0],
        "not_all_gold_in_10": [qid for qid in asked if qid in several and plain[qid]["all_gold@10"] == 0],
    }
    return {
        name: {
            "questions": len(qids),
            "rungs": {
                rung: summary({qid: table[qid] for qid in qids if qid in table}, seed)
                for rung, table in tables.items()
            },
        }
        for name, qids in subsets.items()
        if qids
    }


def tests(tables: Mapping[str, Table], questions: Sequence[Question], seed: int) -> list[dict[str, Any]]:
    """Paired tests of every two rungs on the questions that both have scores for."""
    found: list[dict[str, Any]] = []
    rungs = list(tables)
    for at, b in enumerate(rungs):
        for a in rungs[:at]:
            both = [q.qid for q in questions if q.qid in tables[a] and q.qid in tables[b]]
            if both:
                found += [
                    {"a": a, "b": b, "metric": name, **compare(tables[a], tables[b], both, name, seed)}
                    for name in compared(tables[a][both[0]], tables[b][both[0]])
                ]
    return found


def compared(a: Mapping[str, float], b: Mapping[str, float]) -> list[str]:
    """Metrics that both rungs have and that a test makes sense of."""
    skipped = ("pack_", "refs_", "claims_")
    return [name for name in a if name in b and name not in EFFORT and not name.startswith(skipped)]


def compare(a: Table, b: Table, qids: Sequence[str], metric: str, seed: int) -> dict[str, Any]:
    """One paired test as JSON values; over questions where both have the metric."""
    both = [qid for qid in qids if metric in a[qid] and metric in b[qid]]
    test = paired([a[qid][metric] for qid in both], [b[qid][metric] for qid in both], seed)
    return {
        "n": len(both),
        "difference": round(test.difference, 4),
        "low": round(test.low, 4),
        "high": round(test.high, 4),
        "wins": test.wins,
        "losses": test.losses,
        "ties": test.ties,
        "p": round(test.p, 5),
        "test": test.test,
    }
