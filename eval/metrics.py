"""Metrics of one question: ranks from `ir_measures`, lines and packs from what the evidence references."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from eval.answers import Answer, Piece
from eval.golden import LineSpan, Question

LINE_COUNTS = (60, 200)  # referenced lines at which log evidence is compared with a tail
DISTINCT_DOCUMENTS = 25  # conversation sets: a gold turn among the first 25 distinct turns


def qrels(questions: Iterable[Question]) -> dict[str, dict[str, int]]:
    """Gold documents of each question, all of relevance 1."""
    return {q.qid: dict.fromkeys(q.docs, 1) for q in questions}


def run_scores(rankings: Mapping[str, Sequence[str]]) -> dict[str, dict[str, float]]:
    """Strictly falling scores: whole numbers, so that no tool's rounding makes ties."""
    return {
        qid: {doc: float(len(docs) - at) for at, doc in enumerate(docs)} for qid, docs in rankings.items()
    }


def rank_metrics(
    questions: Sequence[Question], rankings: Mapping[str, Sequence[str]], ks: Sequence[int]
) -> dict[str, dict[str, float]]:
    """Per question: hit@k, recall@k, all_gold@k for each k, mrr and ndcg@10, by `ir_measures`.

    Raises:
        ImportError: the extra `eval` is not installed.
    """
    import ir_measures
    from ir_measures import RR, R, Success, nDCG

    names = {nDCG @ 10: "ndcg@10", RR: "mrr"}
    for k in ks:
        names[Success @ k] = f"hit@{k}"
        names[R @ k] = f"recall@{k}"
    found: dict[str, dict[str, float]] = {q.qid: dict.fromkeys(names.values(), 0.0) for q in questions}
    scores = run_scores({q.qid: rankings.get(q.qid, ()) for q in questions if rankings.get(q.qid)})
    if scores:
        for metric in ir_measures.iter_calc(list(names), qrels(questions), scores):
            found[metric.query_id][names[metric.measure]] = float(metric.value)
    for values in found.values():
        for k in ks:
            # ir_measures has no such metric: all gold is a recall of one
            values[f"all_gold@{k}"] = float(values[f"recall@{k}"] >= 1.0 - 1e-9)
    return found


def item_metrics(question: Question, answer: Answer, ks: Sequence[int]) -> dict[str, float]:
    """Ranks of evidence items by `source_refs[0]` alone: item_hit@k and the reciprocal rank item_mrr."""
    gold = set(question.docs)
    right = [bool(gold & set(piece.docs[: piece.decisive])) for piece in answer.pieces]
    values = {f"item_hit@{k}": float(any(right[:k])) for k in ks}
    values["item_mrr"] = 1 / (right.index(True) + 1) if any(right) else 0.0
    return values


def first_distinct(answer: Answer, count: int = DISTINCT_DOCUMENTS) -> list[str]:
    """The first distinct documents that the evidence references (without candidates beyond it)."""
    return list(dict.fromkeys(doc for piece in answer.pieces for doc in piece.docs))[:count]


def within_budget(pieces: Sequence[Piece], budget: int) -> list[Piece]:
    """Leading pieces whose tokens sum up to at most `budget`."""
    kept, spent = [], 0
    for piece in pieces:
        spent += piece.tokens
        if spent > budget:
            break
        kept.append(piece)
    return kept


def line_set(spans: Iterable[LineSpan]) -> set[tuple[str, int]]:
    """Every line of the spans."""
    return {(span.doc, number) for span in spans for number in range(span.first, span.last + 1)}


def referenced_lines(pieces: Iterable[Piece], count: int) -> set[tuple[str, int]]:
    """The first `count` distinct lines in the order of the evidence."""
    found: dict[tuple[str, int], None] = {}
    for piece in pieces:
        for span in piece.lines:
            for number in range(span.first, span.last + 1):
                found[(span.doc, number)] = None
                if len(found) == count:
                    return set(found)
    return set(found)


def recall_precision(gold: set[tuple[str, int]], found: set[tuple[str, int]]) -> tuple[float, float]:
    """Share of the gold lines that were found, and share of the found lines that are gold (0 for none)."""
    both = len(gold & found)
    return both / len(gold), both / len(found) if found else 0.0


def line_metrics(question: Question, answer: Answer, budgets: Sequence[int]) -> dict[str, float]:
    """Line recall and precision at each token budget and at 60 and 200 referenced lines."""
    gold = line_set(question.lines)
    if not gold:
        return {}
    values: dict[str, float] = {}
    packs = {pack.budget: pack.pieces for pack in answer.packs}
    for budget in budgets:
        pieces = packs.get(budget, within_budget(answer.pieces, budget))
        found = line_set(span for piece in pieces for span in piece.lines)
        recall, precision = recall_precision(gold, found)
        values[f"line_recall@{budget}t"], values[f"line_precision@{budget}t"] = recall, precision
    for count in LINE_COUNTS:
        recall, precision = recall_precision(gold, referenced_lines(answer.pieces, count))
        values[f"line_recall@{count}l"], values[f"line_precision@{count}l"] = recall, precision
    first = line_set(answer.pieces[0].lines) if answer.pieces else set()
    values["first_item_on_gold"] = float(bool(gold & first))
    return values


def budget_metrics(question: Question, answer: Answer, budgets: Sequence[int]) -> dict[str, float]:
    """At each token budget: is any gold document referenced, what share, all of them?

    Engine rungs are scored on their whole packs, JSON included; plain rungs on the raw text of the
    leading passages that fit.
    """
    gold = set(question.docs)
    packs = {pack.budget: pack for pack in answer.packs}
    values: dict[str, float] = {}
    for budget in budgets:
        pack = packs.get(budget)
        pieces = pack.pieces if pack else within_budget(answer.pieces, budget)
        share = len(gold & {doc for piece in pieces for doc in piece.docs}) / len(gold)
        values[f"hit@{budget}t"] = float(share > 0)
        values[f"recall@{budget}t"] = share
        values[f"all_gold@{budget}t"] = float(share >= 1)
        if pack is not None:
            values[f"pack_tokens@{budget}t"] = float(pack.tokens)
            values[f"pack_fits@{budget}t"] = float(pack.tokens <= budget)
    return values


def pack_metrics(answer: Answer) -> dict[str, float]:
    """Over all packs of an answer: share of refs that verify, share of claims that are supported."""
    refs = sum(pack.refs for pack in answer.packs)
    claims = sum(pack.claims for pack in answer.packs)
    if not answer.packs or not refs:
        return {}
    return {
        "refs_verified": sum(pack.refs_ok for pack in answer.packs) / refs,
        "claims_supported": sum(pack.supported for pack in answer.packs) / claims,
    }


def effort(answer: Answer) -> dict[str, float]:
    """What the answer cost."""
    return {
        "calls": float(answer.calls),
        "turns": float(answer.turns),
        "tokens": float(answer.tokens),
        "model_tokens": float(answer.model_tokens),
        "seconds": answer.seconds,
        "cost": answer.cost,
    }


def session_metrics(
    question: Question, answer: Answer, ks: Sequence[int], sessions: Mapping[str, str]
) -> dict[str, float]:
    """Is a gold document's conversation among the first k distinct conversations? As the spec's ladder."""
    gold = {sessions[doc] for doc in question.docs if doc in sessions}
    if not gold:
        return {}
    order = list(dict.fromkeys(sessions[doc] for doc in answer.ranking() if doc in sessions))
    return {f"session_hit@{k}": float(bool(gold & set(order[:k]))) for k in ks}


def score(
    questions: Sequence[Question],
    answers: Mapping[str, Answer],
    ks: Sequence[int],
    budgets: Sequence[int],
    sessions: Mapping[str, str],
) -> dict[str, dict[str, float]]:
    """All metrics of each question that has an answer without an error and some gold.

    A question that is missing from the result could not be scored; that is not zero.
    """
    scored = [q for q in questions if q.docs and q.qid in answers and not answers[q.qid].error]
    ranks = rank_metrics(scored, {q.qid: answers[q.qid].ranking() for q in scored}, ks)
    table: dict[str, dict[str, float]] = {}
    for question in scored:
        answer = answers[question.qid]
        values = dict(ranks[question.qid])
        values |= item_metrics(question, answer, ks)
        values |= session_metrics(question, answer, ks, sessions)
        values["hit@25d"] = float(bool(set(question.docs) & set(first_distinct(answer))))
        values |= budget_metrics(question, answer, budgets)
        values |= line_metrics(question, answer, budgets)
        values |= pack_metrics(answer)
        values |= effort(answer)
        if not answer.packs:
            values["tokens"] = float(sum(p.tokens for p in within_budget(answer.pieces, max(budgets))))
        table[question.qid] = values
    return table
