"""The support check: the published figures, and each rule by itself."""

from __future__ import annotations

import pytest

from agentloop.loop.support import Source, check
from eval.claims.__main__ import judge, written
from eval.claims.docstrings import examples

PASSAGE = (
    "The importer reads 500 rows a page and writes them to `orders_new`. It does not delete rows. "
    "See src/importer.py; the limit is 1,024 bytes."
)


def supported(claim: str, text: str = PASSAGE, label: str = "") -> bool:
    return check(claim, [Source("c1", text, label)]).supported


@pytest.mark.req("E6")
def test_the_written_set_meets_its_bounds() -> None:
    made = judge(written())
    kept, true = made["true"]
    rejected, false = made["false"]
    assert true >= 100
    assert false >= 100
    assert kept / true >= 0.95
    assert rejected / false >= 0.95


@pytest.mark.req("E6")
def test_claims_from_real_docstrings_meet_the_same_bounds() -> None:
    made = judge(examples(["collections", "csv", "logging", "shutil", "statistics", "threading", "zipfile"]))
    kept, true = made["true"]
    rejected, false = made["false"]
    assert min(true, false) >= 100
    assert kept / true >= 0.95
    assert rejected / false >= 0.93  # of this sample; the whole set is in docs/verification.md


@pytest.mark.parametrize(
    "claim",
    [
        "The importer reads 500 rows a page.",
        "The importer writes rows to `orders_new`.",
        "The importer does not delete rows.",
        "The limit is 1024 bytes in src/importer.py.",
        "The importer reads 500 rows a page, and it does not delete rows.",
    ],
)
def test_what_the_passage_says_is_kept(claim: str) -> None:
    assert supported(claim)


@pytest.mark.parametrize(
    "claim",
    [
        "The importer reads 50 rows a page.",
        "The importer deletes rows.",
        "The importer does not read 500 rows a page.",
        "The importer writes rows to `orders_old`.",
        "The limit is 1024 bytes in src/exporter.py.",
        "The importer writes 500 rows a page and reads them to `orders_new`.",
        "The importer always reads 500 rows a page.",
        "The exporter reads 500 rows a page.",
        "rows",
        "",
        "It does.",
        "?" * 600,
    ],
)
def test_what_it_does_not_say_is_rejected(claim: str) -> None:
    assert not supported(claim)


@pytest.mark.req("E6")
@pytest.mark.parametrize(
    ("text", "true", "false"),
    [
        ("The arguments are the same as for call.", "The arguments are the same as for call.",
         "The same are the arguments as for call."),
        ("The extension is not guaranteed to exist.", "The extension is not guaranteed to exist.",
         "Not guaranteed is the extension to exist."),
        ("[pid 8] switched reads from db-primary to db-replica\n[pid 8] done",
         "Reads switched from db-primary to db-replica.", "Reads switched from db-replica to db-primary."),
        ("Pociąg z Krakowa do Gdańska odjeżdża rano.", "Pociąg z Krakowa do Gdańska odjeżdża rano.",
         "Pociąg z Gdańska do Krakowa odjeżdża rano."),
        ("FAILED test_a - assert 3 == 2\n1 failed, 4 passed in 2 s", "1 failed, 4 passed.",
         "2 failed, 4 passed."),
        ("The list holds the message; each exception that is raised holds a list of lines.",
         "The list holds the message; each exception that is raised holds a list of lines.",
         "The message holds the list; each exception that is raised holds a list of lines."),
    ],
)  # fmt: skip
def test_an_exchange_is_seen_in_clauses_logs_and_polish(text: str, true: str, false: str) -> None:
    assert supported(true, text)
    assert not supported(false, text)


@pytest.mark.req("E6")
def test_swapped_claims_of_real_docstrings_are_rejected() -> None:
    made = [e for e in examples(["codecs", "enum", "subprocess", "os"]) if e.kind == "swapped"]
    right, total = judge(made)["false"]
    assert total >= 20
    assert right / total >= 0.95


def test_a_label_may_name_but_states_nothing() -> None:
    text = "Returns the sum of all rows."
    assert supported("`add_up` in src/sums.py returns the sum of all rows.", text, "src/sums.py add_up")
    assert not supported("src/sums.py add_up sums tables.", text, "src/sums.py add_up")


def test_clauses_may_rest_on_different_passages() -> None:
    sources = [Source("c1", "The pool keeps 8 connections."), Source("c2", "A lease lasts 90 seconds.")]
    verdict = check("The pool keeps 8 connections; a lease lasts 90 seconds.", sources)
    assert verdict.supported
    assert {place[0] for place in verdict.places} == {0, 1}


def test_the_deciding_characters_are_told() -> None:
    verdict = check("The importer does not delete rows.", [Source("c1", PASSAGE)])
    (_, start, end) = verdict.places[0]
    assert PASSAGE[start:end].strip() == "It does not delete rows." or "does not delete" in PASSAGE[start:end]


def test_reasons_hold_no_word_of_the_claim() -> None:
    for claim in (
        "The importer reads 77 rows.",
        "zebra_stripes reads 500 rows a page.",
        "Ask Zebra about 500 rows.",
    ):
        reason = check(claim, [Source("c1", PASSAGE)]).reason
        assert reason
        assert "77" not in reason
        assert "ebra" not in reason


@pytest.mark.req("D1")
def test_a_hostile_passage_takes_bounded_time() -> None:
    for text in ("a-" * 8000, "a/" * 8000, "x" * 100_000, "1," * 8000, "a.\n\n" * 4000):
        check("The importer reads 500 rows a page.", [Source("c1", text)])
