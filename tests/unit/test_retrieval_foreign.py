"""Polish inflection, questions in one language about text in another, and sides of a chat."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentloop.api import compress_sync, make_request
from agentloop.index.language import detect
from agentloop.index.polish import readings
from agentloop.index.translate import PAIRS, lexicon
from agentloop.retrieval.foreign import sounds
from tests.unit.retrieval_case import index_of, ranked, session_of, write


@pytest.mark.parametrize(
    "forms",
    [
        "pieróg pierogów pierogami",  # a vowel inside
        "ręka ręce rąk",  # consonants and nasal vowels
        "łazienka łazience łazienek",  # a fleeting vowel
        "samochód samochodzie",
        "miasto mieście",
        "kościół kościele",
        "książka książek książce ksiazki",  # accents left out
        "najszybciej szybciej szybki",
        "kupić kupiłam kupiliśmy",
    ],
)
def test_forms_of_a_polish_word_share_a_reading(forms: str) -> None:
    first, *others = forms.split()
    for other in others:
        assert readings(first) & readings(other), (first, other)


@pytest.mark.parametrize(("one", "other"), [("kot", "kotlet"), ("dom", "domena"), ("pokój", "pokolenie")])
def test_other_polish_words_do_not(one: str, other: str) -> None:
    assert not readings(one) & readings(other)


def test_an_index_gives_the_forms_of_a_polish_word_in_either_spelling(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "Naprawiono usterkę w łazience.\n", "b.md": "Remont lazienek w bloku.\n"})
    index, _, _ = index_of(tmp_path)
    assert {form for form, _ in index.variants("łazienka", "polish")} == {"lazience", "lazienek"}


def test_the_lexicon_knows_inflected_words_and_phrases_both_ways() -> None:
    there, back = lexicon("polish", "english"), lexicon("english", "polish")
    assert there is not None
    assert back is not None
    assert ("tyre",) in there.of(("oponami",))[0].phrases
    assert ("pralka",) in back.of(("washing", "machine"))[0].phrases
    assert back.of(("zzyzx",)) == ()
    assert [entry.phrases[0] for entry in there.of(("jedziemy",))] == [("go",)]  # nearer than "jedzenie"
    assert lexicon("polish", "polish") is None
    assert lexicon("german", "english") is None


@pytest.mark.parametrize("name", sorted(PAIRS.values()))
def test_a_lexicon_is_well_formed(name: str) -> None:
    path = Path(__file__).parents[2] / "agentloop" / "index" / "lexicon" / name
    rows = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    assert len(rows) == len(set(rows))
    for row in rows:
        left, equals, right = row.partition(" = ")
        assert equals, row
        assert all(word.replace("_", "").isalpha() for word in (left + " " + right).split()), row


def test_a_question_finds_text_in_the_other_language(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "pl.md": "Suszenie grzybów: borowiki w piekarniku, w niskiej temperaturze, "
            "przy uchylonych drzwiach.\n",
            "tent.md": "We slept in a small tent beside the lake, on a mattress that lost its air.\n",
            "bus.md": "The bus to the office leaves at eight, and the tickets are sold by the driver.\n",
        },
    )
    with session_of(tmp_path, "How do I dry mushrooms in the oven?") as session:
        assert ranked(session)[1][0] == "pl.md"
    with session_of(tmp_path, "Na jakim materacu spaliśmy w namiocie nad jeziorem?") as session:
        assert ranked(session)[1][0] == "tent.md"
        found = session.search("materac namiot")  # nothing tells the language of a search but the question
        assert found.passages[0].path == "tent.md"


def test_the_claim_is_the_sentence_that_answers_in_the_other_language(tmp_path: Path) -> None:
    filler = "Wiosna była chłodna i deszczowa, a sezon długo nie chciał się zacząć. " * 3
    text = f"{filler}Grzyby susz w piekarniku, w niskiej temperaturze. {filler}\n"
    write(tmp_path, {"pl.md": text, "en.md": "The tents are dry and the forest is quiet.\n"})
    request = make_request("How do I dry mushrooms in the oven?", [tmp_path / "pl.md", tmp_path / "en.md"])
    evidence = compress_sync(request).released["payload"]["evidence"]
    claim = next(item["claim"] for item in evidence if item["source_refs"][0]["path"] == "pl.md")
    assert "piekarniku" in claim


def test_words_of_one_root_stand_for_each_other(tmp_path: Path) -> None:
    assert sounds("fotosynteza")[:5] == sounds("photosynthesis")[:5]
    write(
        tmp_path, {"a.md": "The constitution of the republic was written in one summer.\n", "b.md": "Bees.\n"}
    )
    with session_of(tmp_path, "Kiedy napisano konstytucję?") as session:
        assert ranked(session)[1][0] == "a.md"


def test_a_search_without_function_words_keeps_the_language_of_the_question() -> None:
    assert detect("opony samochodu", unclear="polish") == "polish"
    assert detect("which tyres", unclear="polish") == "english"


def _chat(turns: list[tuple[str, str]]) -> str:
    return "".join(
        json.dumps({"id": f"m{n}", "session": "s1", "speaker": who, "text": text}) + "\n"
        for n, (who, text) in enumerate(turns)
    )


def test_the_side_of_a_chat_that_knows_leads(tmp_path: Path) -> None:
    filler = [("narrator", "nothing of note")] * 40  # a long session: only neighbours count
    turns = [("user", "the greenhouse heater"), *filler, ("assistant", "the greenhouse heater")]
    write(tmp_path, {"chat.jsonl": _chat(turns)})
    with session_of(tmp_path, "greenhouse heater") as session:
        assert session.rank().candidates[0].chunk == 0
    with session_of(tmp_path, "what did you say on the greenhouse heater") as session:
        assert session.rank().candidates[0].chunk == len(turns) - 1


def test_the_end_of_a_short_session_comes_with_its_beginning(tmp_path: Path) -> None:
    turns = [
        ("user", "which greenhouse heater should I buy"),
        *[("assistant", f"that depends on {x}") for x in ("size", "price", "noise", "power")],
    ]
    turns.append(("user", "settled, the second one"))
    write(tmp_path, {"chat.jsonl": _chat(turns)})
    with session_of(tmp_path, "which greenhouse heater did I buy") as session:
        best = session.rank().candidates[0]
    assert {best.chunk, *best.joined} == set(range(6))
    assert best.joined[0] in {1, 5}
