"""Metrics against values worked out by hand, intervals and tests against known cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eval.answers import Answer, PackFacts, Piece, answer_from_json
from eval.calibration import fit_isotonic, fit_logistic, judge, reliability
from eval.golden import LineSpan, Question
from eval.metrics import line_metrics, rank_metrics, score
from eval.stats import interval, mcnemar, paired, randomisation


def question(qid="q", docs=("a",), **kwargs):
    return Question(qid, "text?", tuple(docs), **kwargs)


def test_rank_metrics_are_those_of_the_definitions():
    q = question(docs=("b", "d"))
    values = rank_metrics([q], {"q": ["a", "b", "c", "d"]}, (1, 2, 5))["q"]
    assert values["hit@1"] == 0
    assert values["hit@2"] == 1
    assert values["recall@2"] == 0.5
    assert values["all_gold@2"] == 0
    assert values["all_gold@5"] == 1
    assert values["mrr"] == 0.5
    best = 1 + 1 / math.log2(3)
    assert values["ndcg@10"] == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / best)


def test_an_empty_ranking_scores_zero_and_a_failed_answer_is_left_out():
    questions = [question("q1"), question("q2"), question("q3", docs=())]
    answers = {"q1": Answer("q1"), "q2": Answer("q2", error="no model"), "q3": Answer("q3")}
    table = score(questions, answers, (5,), (1000,), {})
    assert set(table) == {"q1"}
    assert table["q1"]["hit@5"] == 0
    assert table["q1"]["mrr"] == 0


def test_evidence_comes_before_the_candidates_that_did_not_fit():
    answer = Answer("q", (Piece(("b", "a"), 10), Piece(("a", "c"), 10)), tail=("z", "b", "d"))
    assert answer.ranking() == ["b", "a", "c", "z", "d"]
    assert answer.ranking(2) == ["b", "a"]


def test_only_the_decisive_ref_counts_for_an_items_rank():
    answer = Answer("q", (Piece(("x", "a"), 10, decisive=1), Piece(("y", "a"), 10, decisive=2)))
    values = score([question()], {"q": answer}, (1, 5), (100,), {})["q"]
    assert values["item_hit@1"] == 0
    assert values["item_hit@5"] == 1
    assert values["item_mrr"] == 0.5
    assert values["hit@5"] == 1


def test_budgets_use_whole_packs_where_there_are_some():
    pieces = (Piece(("x",), 60), Piece(("a",), 60))
    plain = score([question()], {"q": Answer("q", pieces)}, (5,), (100, 200), {})["q"]
    assert (plain["hit@100t"], plain["hit@200t"]) == (0, 1)
    packs = (PackFacts(100, 90, (Piece(("a",), 60),), refs=2, refs_ok=1, claims=2, supported=2),)
    packed = score([question()], {"q": Answer("q", pieces, packs=packs)}, (5,), (100,), {})["q"]
    assert packed["hit@100t"] == 1
    assert packed["pack_fits@100t"] == 1
    assert packed["refs_verified"] == 0.5
    assert packed["claims_supported"] == 1


def test_lines_are_counted_in_the_order_of_the_evidence():
    q = question(docs=("l",), lines=(LineSpan("l", 100, 109),))
    pieces = (
        Piece(("l",), 10, lines=(LineSpan("l", 1, 50),)),
        Piece(("l",), 10, lines=(LineSpan("l", 96, 115),)),
    )
    values = line_metrics(q, Answer("q", pieces), (10, 100))
    # the first sixty lines are 1-50 and 96-105: six of them are gold
    assert values["line_recall@60l"] == 0.6
    assert values["line_precision@60l"] == pytest.approx(6 / 60)
    assert values["line_recall@200l"] == 1
    assert values["line_precision@200l"] == pytest.approx(10 / 70)
    assert values["line_recall@10t"] == 0
    assert values["line_recall@100t"] == 1
    assert values["first_item_on_gold"] == 0


def test_sessions_are_ranked_by_their_first_document():
    answer = Answer("q", (Piece(("x1", "x2", "y1"), 10),))
    threads = {"x1": "x", "x2": "x", "y1": "y", "a": "y"}
    values = score([question()], {"q": answer}, (1, 2), (100,), threads)["q"]
    assert (values["session_hit@1"], values["session_hit@2"]) == (0, 1)
    assert values["hit@2"] == 0


def test_answers_survive_the_disk():
    answer = Answer(
        "q",
        (Piece(("a",), 3, 1, (LineSpan("a", 1, 2),), 0.5, 0.25),),
        ("b",),
        (PackFacts(100, 90, (Piece(("a",), 3),), 1, 1, 1, 1),),
        1.5,
        notes={"stop": "done"},
    )
    assert answer_from_json(answer.to_json()) == answer


def test_intervals_are_seeded_and_hold_the_mean():
    values = [0.0, 1.0] * 50
    found = interval(values, seed=3)
    assert found == interval(values, seed=3)
    assert found.low < found.mean == 0.5 < found.high
    # the standard error of 100 coin flips is 0.05
    assert found.high - found.low == pytest.approx(4 * 0.05, abs=0.04)
    assert interval([], seed=0).n == 0


def test_mcnemar_is_the_exact_sign_test():
    assert mcnemar(0, 0) == 1
    assert mcnemar(5, 0) == pytest.approx(2 / 32)
    assert mcnemar(5, 5) == 1


def test_the_randomisation_test_is_exact_for_few_changes():
    assert randomisation(np.array([0.5, 0.5, 0.5, 0.0]), seed=0) == pytest.approx(2 / 8)
    assert randomisation(np.zeros(4), seed=0) == 1
    large = randomisation(np.full(40, 0.1), seed=0)
    assert large == pytest.approx(1 / 10_001)


def test_paired_picks_the_test_by_the_values():
    assert paired([0, 1, 0], [1, 1, 1], seed=0).test == "mcnemar"
    mixed = paired([0.2, 1, 0], [0.4, 1, 0], seed=0)
    assert (mixed.test, mixed.wins, mixed.losses, mixed.ties) == ("randomisation", 1, 0, 2)
    with pytest.raises(ValueError, match="same questions"):
        paired([1], [1, 2], seed=0)


def test_reliability_compares_what_was_said_with_what_was():
    questions = [question(f"q{i}", docs=("a",)) for i in range(10)]
    answers = {
        f"q{i}": Answer(f"q{i}", (Piece(("a" if i < 7 else "b",), 1, confidence=0.75),)) for i in range(10)
    }
    found = reliability(questions, answers)
    assert found["ece"] == pytest.approx(0.05)
    assert found["first_item_right"] == 0.7
    assert found["bins"] == [{"confidence": 0.75, "right": 0.7, "items": 10}]
    assert reliability(questions, {"q0": Answer("q0", (Piece(("a",), 1),))}) == {}


def test_isotonic_knots_rise():
    questions = [question(f"q{i}") for i in range(4)]
    right = (False, True, False, True)
    answers = {
        f"q{i}": Answer(f"q{i}", (Piece(("a" if ok else "b",), 1, confidence=0.2 + 0.2 * i),))
        for i, ok in enumerate(right)
    }
    knots = fit_isotonic(judge(questions, answers))
    shares = [was for _, was in knots]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] == 1


def test_logistic_regression_finds_the_direction():
    weights = fit_logistic([[x / 10] for x in range(-20, 21)], [x > 3 for x in range(-20, 21)])
    assert weights[0] > 1
    assert -weights[1] / weights[0] == pytest.approx(0.35, abs=0.1)
