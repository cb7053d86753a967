"""The index over real files: what is found by what, in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentloop.chunks import Chunks
from agentloop.index import FieldWeights, LexicalIndex, Term
from tests.unit.retrieval_case import corpus_of, index_of, write


def paths(index: LexicalIndex, corpus_chunks: tuple[object, list], *forms: str) -> list[str]:  # type: ignore[type-arg]
    corpus, chunks = corpus_chunks
    hits = index.search([Term(tuple((form, 1.0) for form in forms))], 10, FieldWeights(1, 1, 1))
    return [corpus.files[chunks[hit.chunk].file].path for hit in hits]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("term", "path"),
    [
        ("filename", "a.py"),  # the whole identifier
        ("name", "a.py"),  # a part of it
        ("server", "b.py"),
        ("http", "b.py"),
        ("a002", "rules.md"),  # a part of RULE-A002
        ("rule", "rules.md"),
        ("zolw", "pl.md"),  # typed without accents
        ("żółw", "pl.md"),
        ("정산", "ko.md"),
        ("handbook", "handbook.txt"),  # only its path says so
    ],
)
def test_found_by(tmp_path: Path, term: str, path: str) -> None:
    write(
        tmp_path,
        {
            "a.py": "def go(fileName):\n    return 1\n",
            "b.py": "class HTTPServer:\n    pass\n",
            "rules.md": "# Rules\n\nRULE-A002 fires.\n",
            "pl.md": "Żółw stoi.\n",
            "ko.md": "출장비 정산은 14일 이내.\n",
            "handbook.txt": "Nothing of note.\n",
        },
    )
    index, corpus, chunks = index_of(tmp_path)
    assert paths(index, (corpus, chunks), term)[:1] == [path]


def test_forms_of_one_word_share_their_rarity(tmp_path: Path) -> None:
    write(tmp_path, {f"f{n}.md": "route\n" for n in range(20)} | {"rare.md": "routes\n"})
    index, _, _ = index_of(tmp_path)
    hits = index.search([Term((("route", 1.0), ("routes", 1.0)))], 30)
    assert len({round(hit.score, 4) for hit in hits}) == 1  # the rare plural is not worth more


def test_equal_scores_come_by_chunk_id_wherever_the_cut_is(tmp_path: Path) -> None:
    write(tmp_path, {f"{n:03}.md": "same words here\n" for n in range(200)})
    index, _, chunks = index_of(tmp_path)
    assert len(chunks) == 200
    term = [Term((("words", 1.0),))]
    for limit in (1, 7, 64, 150):
        assert [hit.chunk for hit in index.search(term, limit)] == list(range(limit))


def test_variants_are_found_in_the_index_by_stem(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "pracownik pracownika pracownikom\n", "b.md": "detected detection detector\n"})
    index, _, _ = index_of(tmp_path)
    assert {form for form, _ in index.variants("pracownika", "polish")} >= {"pracownik", "pracownikom"}
    assert {form for form, _ in index.variants("detected", "english")} >= {"detection"}
    assert index.variants("ab", "english") == []
    assert index.variants("v2", "english") == []


def test_phrases_count_once_with_their_joined_form(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "event hooks\n", "b.md": "eventhooks\n", "c.md": "hooks for an event\n"})
    index, corpus, chunks = index_of(tmp_path)
    term = Term((("eventhooks", 1.0),), phrases=(("event", "hooks"),))
    found = [corpus.files[chunks[hit.chunk].file].path for hit in index.search([term], 10)]
    assert set(found) == {"a.md", "b.md"}


def test_an_index_of_nothing_finds_nothing(tmp_path: Path) -> None:
    corpus, chunks = corpus_of(write(tmp_path, {"a.md": "word\n"}))
    index = LexicalIndex(corpus, Chunks())
    assert len(index) == 0
    assert index.search([Term((("word", 1.0),))], 5) == []
    assert LexicalIndex(corpus, chunks).search([], 5) == []


def test_lone_surrogates_of_json_are_indexed(tmp_path: Path) -> None:
    line = '{"id": "m1", "text": "broken \\ud800 emoji, whole thermostat"}\n'
    index, _, _ = index_of(write(tmp_path, {"chat.jsonl": line * 2}))
    assert index.search([Term((("thermostat", 1.0),))], 5)
