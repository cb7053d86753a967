"""What a question asks for, read from its form."""

from __future__ import annotations

import time

import pytest

from agentloop.retrieval.question import TITLE_CHARS, read
from agentloop.types import Trait


@pytest.mark.parametrize(
    ("text", "identifiers"),
    [
        ("How does select_for_update handle of= arguments?", ("select_for_update",)),
        ("where is fileName set", ("fileName",)),
        ("why does Session.request retry", ("Session.request",)),
        ("call std::mem::swap twice", ("std::mem::swap",)),
        ("what fires RULE-A002", ("RULE-A002",)),
        ("a002", ("a002",)),
        ("what does main() do", ("main",)),
        ("Depends", ("Depends",)),
        ("how are orphan routes detected", ()),
    ],
)
def test_identifiers(text: str, identifiers: tuple[str, ...]) -> None:
    assert read(text).identifiers == identifiers


def test_quoted_strings_paths_and_lines() -> None:
    asked = read('Why does `pool.close()` print "no heartbeat" at src/net/pool.py:42 and not in setup.cfg?')
    assert asked.quoted == ("pool.close()", "no heartbeat")
    assert ("src/net/pool.py", 42) in asked.paths
    assert ("setup.cfg", 0) in asked.paths


def test_function_words_are_left_out_and_words_of_asking_weigh_less() -> None:
    asked = read("How does the cache implementation work?")
    assert asked.terms == ("cache", "implementation", "work")
    weights = {word.text: word.weight for word in asked.words}
    assert weights["cache"] == 1.0 > weights["implementation"] > 0


def test_a_question_of_function_words_keeps_them() -> None:
    assert read("what is it").terms == ("what", "is", "it")


@pytest.mark.parametrize("text", ["", "   ", "?!", "\ud800"])
def test_a_question_without_words(text: str) -> None:
    assert read(text).terms == ()


def test_the_title_of_a_long_report_outweighs_its_body() -> None:
    title = "Autoreload crashes when a watched folder vanishes."
    body = " ".join(f"detail{n} of the environment" for n in range(200))
    asked = read(f"{title}\n\n{body}")
    weights = {word.text: word.weight for word in asked.words}
    assert asked.title == title
    assert weights["autoreload"] == 1.0
    # counting the words beyond the kept ones too, the body weighs no more than the title
    assert max(weight for word, weight in weights.items() if word.startswith("detail")) < 0.1
    assert len(asked.words) <= 64


def test_what_a_question_wants_lifts_penalties() -> None:
    assert Trait.TEST in read("which tests cover the parser").wants
    assert Trait.DOCS in read("what does the changelog say").wants
    assert read("how does the parser work").wants == frozenset()


def test_regular_expressions_are_marked() -> None:
    assert read(r"/retry_\d+/").regex == r"retry_\d+"
    assert read("src/net/pool.py").regex == ""


@pytest.mark.req("D1")
@pytest.mark.parametrize("unit", ["a", "aB", "a-", "a.", "/", "_", '"', "A1", "a::"])
def test_hostile_questions_are_read_in_linear_time(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    started = time.process_time()
    read(text)
    assert time.process_time() - started < 20  # the quadratic patterns of before took minutes


def test_pairs_are_neighbours_of_the_title() -> None:
    asked = read("event hooks of the system")
    assert ("event", "hooks") in asked.pairs
    assert ("hooks", "system") not in asked.pairs
    assert len(read("x" * TITLE_CHARS * 3).title) <= TITLE_CHARS
