"""Words, languages and stems: what both sides of the index share."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentloop.index import words
from agentloop.index.language import detect, is_function_word, stemmer


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("fileName", ["file", "Name"]),
        ("parseHTTPUrl2", ["parse", "HTTP", "Url2"]),
        ("XMLReader", ["XML", "Reader"]),
        ("ID", ["ID"]),
        ("lower", ["lower"]),
    ],
)
def test_parts_of_camel_case(text: str, parts: list[str]) -> None:
    assert words.parts(text) == parts


def test_camel_words_are_found_where_case_changes_and_nowhere_else() -> None:
    data = b"plain Capital ABC fileName = HTTPServer(my_getURL, Id2Name)"
    assert sorted(words.camel_words(data)) == [b"HTTPServer", b"Id2Name", b"fileName", b"getURL"]


@given(st.text(alphabet="abXY9_ .", max_size=60))
def test_camel_words_agree_with_a_plain_reading(text: str) -> None:
    runs = text.replace("_", " ").replace(".", " ").split()
    # a change of case: a capital after a small letter or digit, or a small letter after two capitals
    expected = {
        run
        for run in runs
        if any((a.islower() or a.isdigit()) and b.isupper() for a, b in pairwise(run))
        or any(
            a.isupper() and b.isupper() and (c.islower() or c.isdigit())
            for a, b, c in zip(run, run[1:], run[2:], strict=False)
        )
    }
    assert {word.decode() for word in words.camel_words(text.encode())} == expected


def test_unspaced_scripts_become_pairs() -> None:
    assert words.terms("출장비") == ["출장", "장비"]
    assert words.terms("数据库v2") == ["数据", "据库", "v2"]
    assert words.terms("字") == ["字"]
    assert words.terms("RULE") == ["rule"]


def test_accents_fold_to_the_letters_people_type() -> None:
    assert words.fold("Zażółć gęślą jaźń, Straße, Čeština") == "Zazolc gesla jazn, Strasse, Cestina"


def test_foreign_terms_add_only_what_is_new() -> None:
    foreign = words.ForeignTerms()
    assert foreign.of("żółw stoi".encode()) == "zolw"
    assert foreign.of("дом стоит".encode()) == ""
    assert foreign.of("quoted “plain” words…".encode()) == ""
    assert "ｆｕｌｌ" not in foreign.of("ｆｕｌｌ".encode())
    assert foreign.of("ｆｕｌｌ".encode()) == "full"


def test_a_run_that_is_no_word_is_no_term() -> None:
    assert words.terms("a" * (words.MAX_TERM + 1)) == []
    assert words.CamelParts().of(b"aB" * words.MAX_TERM) == ""


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("How does the cache expire old entries?", "english"),
        ("Jak działa pamięć podręczna?", "polish"),
        ("jak dziala to w przypadku ktory jest w tle", "polish"),
        ("Wie lange ist das Passwort gültig?", "german"),
        ("Où est définie la durée de la session ?", "french"),
        ("¿Dónde está la configuración?", "spanish"),
        ("wait_for_drain", "english"),
        ("출장비 정산 기한은 며칠입니까?", "english"),
    ],
)
def test_language_of_a_question(question: str, language: str) -> None:
    assert detect(question) == language


def test_polish_forms_share_a_stem() -> None:
    stem = stemmer("polish")
    assert len(set(stem(["urlopu", "urlop", "urlopem"]))) == 1
    assert len(set(stem(["pracownikom", "pracownika"]))) == 1


def test_english_forms_share_a_stem_and_unknown_languages_keep_words() -> None:
    assert stemmer("english")(["routing", "routes"]) == ["rout", "rout"]
    assert stemmer("klingon")(["routes"]) == ["routes"]


def test_function_words_of_the_question_and_of_english() -> None:
    assert is_function_word("the", "polish")
    assert is_function_word("ktora", "polish")
    assert not is_function_word("cache", "polish")
