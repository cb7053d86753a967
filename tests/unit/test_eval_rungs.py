"""Plain rungs, run files, the independent pack check, gates and comparisons."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from eval.answers import Answer, Piece
from eval.compare import CompareError, compare_runs, read_run, render, same_run_files
from eval.gate import GateError, gate
from eval.golden import Lane, LineSpan, Question
from eval.material import Document, Material
from eval.packcheck import Originals, check_pack, share_of_words
from eval.rungs.dense import Cached, Hybrid, unit
from eval.rungs.lexical import BM25, MinSearch, Newest, Tail, stems
from eval.rungs.oracle import sub_questions
from eval.rungs.passages import windows
from eval.trec import encode_id, write_items, write_run

DOCS = [
    Document("bees", "A hive without its queen can be united with another hive.", "2024-01-01"),
    Document("tyres", "Winter tyres wear quickly on dry roads in summer.", "2025-01-01"),
    Document("bread", "Underproofed dough gives a dense loaf of bread.", "2023-01-01"),
]


def ask(rung, text, lang="en"):
    return rung.ask(Question("q", text, ("x",), lang=lang)).ranking()


def test_windows_end_at_lines_and_hold_all_text():
    text = "\n".join(f"line {i} " + "x" * 90 for i in range(50))
    parts = windows([Document("d", text)])
    assert "\n".join(p.text for p in parts) == text
    assert parts[0].first == 1
    assert [p.first for p in parts[1:]] == [p.last + 1 for p in parts[:-1]]
    assert parts[-1].last == 50
    assert all(len(p.text) <= 1700 for p in parts)
    assert len(windows([Document("d", "y" * 9000)])) == 1
    assert len(windows([Document("d", "")])) == 1


def test_bm25_finds_by_stem_and_prefers_the_rarer_word():
    rung = BM25(DOCS, Lane.RECORDS)
    assert ask(rung, "Which hives were uniting?")[0] == "bees"
    assert ask(rung, "dense loaves in summer")[0] == "bread"
    assert ask(rung, "what is it") == []
    assert stems("Queens, the queen", "en") == ["queen", "queen"]
    assert stems("grzybami grzybów", "pl")[0] == stems("grzyby", "pl")[0]


def test_bm25_scores_the_textbook_formula():
    rung = BM25([Document("a", "apple apple pear"), Document("b", "pear plum fig")], Lane.RECORDS)
    idf = np.log(1 + (2 - 1 + 0.5) / 1.5)
    assert rung.scores("apple")[0] == pytest.approx(idf * 2 * 2.2 / (2 + 1.2))
    assert rung.scores("apple")[1] == 0


def test_newest_and_tail_need_no_question():
    assert ask(Newest(DOCS, Lane.RECORDS), "?") == ["tyres", "bees", "bread"]
    log = Document("l", "\n".join(f"line {i}" for i in range(1, 26)) + "\n")
    pieces = Tail([log], Lane.LOGS).ask(Question("q", "?", ("l",))).pieces
    assert [(p.lines[0].first, p.lines[0].last) for p in pieces] == [(16, 25), (6, 15), (1, 5)]


def test_minsearch_is_the_package():
    assert ask(MinSearch(DOCS, Lane.RECORDS), "queen of the hive")[0] == "bees"


class Letters:
    """Vectors of letter counts: a stand-in for an encoder that needs no weights."""

    name = "letters"

    def __init__(self):
        self.encoded = 0

    def encode(self, texts, *, query):
        self.encoded += len(texts)
        rows = [[t.lower().count(c) for c in "abcdefghijklmnopqrstuvwxyz"] for t in texts]
        return unit(np.asarray(rows, dtype=np.float32))


def test_hybrid_fuses_ranks_and_keeps_vectors(tmp_path):
    letters = Letters()
    rung = Hybrid(DOCS, Lane.RECORDS, "en", Cached(letters, tmp_path / "v"))
    assert ask(rung, "dense bread")[0] == "bread"
    first = letters.encoded
    # a passage without a shared word is found by its vector
    assert set(ask(rung, "dense bread")) == {"bees", "tyres", "bread"}
    assert letters.encoded == first == 4


def test_sub_questions_are_filled_with_the_answers_before():
    steps = [
        {"question": "Van Hook >> county", "answer": "Mountrail"},
        {"question": "#1 >> capital", "answer": "Stanley"},
    ]
    question = Question("q", "seat?", ("x",), extra={"decomposition": steps})
    assert sub_questions(question) == ["Van Hook county", "Mountrail capital"]
    assert sub_questions(Question("q", "plain?", ("x",))) == ["plain?"]


def test_run_files_encode_white_space_and_scores_fall(tmp_path):
    questions = [Question("q 1", "?", ("a",)), Question("q2", "?", ("a",))]
    answers = {
        "q 1": Answer("q 1", (Piece(("a file.py", "b%.py"), 5),), tail=("żółw\t.md",)),
        "q2": Answer("q2", error="failed"),
    }
    write_run(tmp_path / "r.trec", questions, answers, "r")
    lines = (tmp_path / "r.trec").read_text().splitlines()
    assert lines == [
        "q%201 Q0 a%20file.py 1 3.0 r",
        "q%201 Q0 b%.py 2 2.0 r",
        "q%201 Q0 żółw%09.md 3 1.0 r",
    ]
    assert read_run(tmp_path / "r.trec") == {"q 1": ["a file.py", "b%.py", "żółw\t.md"]}
    write_items(tmp_path / "r.items.jsonl", questions, answers)
    (row,) = (json.loads(x) for x in (tmp_path / "r.items.jsonl").read_text().splitlines())
    assert row == {"id": "q 1", "items": [{"rank": 1, "docs": ["a%20file.py", "b%.py"], "tokens": 5}]}
    assert encode_id("50 %") == "50%20%25"


def pack_of(path: Path, first: int, last: int, start: int, end: int, claim: str) -> dict:
    data = path.read_bytes()

    def digest(part: bytes) -> str:
        return "sha256:" + hashlib.sha256(part).hexdigest()[:16]

    ref = {
        "input_id": "in1",
        "path": path.name,
        "line_start": first,
        "line_end": last,
        "byte_start": start,
        "byte_end": end,
        "content_hash": digest(data),
        "chunk_hash": digest(data[start:end]),
    }
    return {"payload": {"evidence": [{"claim": claim, "source_refs": [ref]}]}}


def test_the_pack_check_reads_the_bytes_again(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo words here\nthree\n")
    originals = Originals(Material(Lane.FILES, tmp_path))
    good = pack_of(path, 2, 2, 4, 19, "two words here")
    assert check_pack(good, originals) == check_pack(good, Originals(Material(Lane.FILES, tmp_path)))
    checked = check_pack(good, originals)
    assert (checked.refs, checked.refs_ok, checked.supported) == (1, 1, 1)
    wrong_lines = pack_of(path, 1, 2, 4, 19, "two words here")
    assert check_pack(wrong_lines, originals).refs_ok == 0
    invented = pack_of(path, 2, 2, 4, 19, "completely invented statement")
    assert check_pack(invented, originals).supported == 0
    elsewhere = pack_of(path, 2, 2, 4, 19, "two")
    elsewhere["payload"]["evidence"][0]["source_refs"][0]["path"] = "gone.txt"
    assert check_pack(elsewhere, originals).refs_ok == 0
    path.write_bytes(b"one\nTWO words here\nthree\n")
    assert check_pack(good, Originals(Material(Lane.FILES, tmp_path))).refs_ok == 0


def test_support_is_the_share_of_a_claims_words():
    assert share_of_words("The queen bee", "the QUEEN lives") == pytest.approx(2 / 3)
    assert share_of_words("ok", "") == 1


def results_file(tmp_path, mean=0.5, missed=0):
    rung = {
        "metrics": {"hit@5": {"mean": mean, "low": 0, "high": 1, "n": 9}},
        "could_not_score": {f"q{i}": "x" for i in range(missed)},
        "calibration": {"ece": 0.1},
    }
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"sets": {"s": {"rungs": {"agentic": rung}}}}))
    return path


def test_a_gate_passes_and_fails_and_a_missing_figure_fails(tmp_path):
    bounds = tmp_path / "t.toml"
    bounds.write_text(
        '[s.agentic]\n"hit@5" = 0.5\ncould_not_score = { max = 0 }\nece = { max = 0.2 }\n"mrr" = 0.1\n'
    )
    passed = {v.name: v.passed for v in gate(results_file(tmp_path), bounds)}
    assert passed == {
        "s.agentic.hit@5": True,
        "s.agentic.could_not_score": True,
        "s.agentic.ece": True,
        "s.agentic.mrr": False,
    }
    worse = {v.name: v.passed for v in gate(results_file(tmp_path, mean=0.49, missed=1), bounds)}
    assert worse["s.agentic.hit@5"] is False
    assert worse["s.agentic.could_not_score"] is False


@pytest.mark.parametrize("text", ["", "x = 1\n", '[s.agentic]\n"hit@5" = "high"\n', "[s\n"])
def test_thresholds_without_sense_are_refused(tmp_path, text):
    bounds = tmp_path / "t.toml"
    bounds.write_text(text)
    with pytest.raises(GateError):
        gate(results_file(tmp_path), bounds)


def test_compare_names_the_questions_that_changed(tmp_path):
    for name, values in (("a", (0, 1, 0)), ("b", (1, 1, 0))):
        (tmp_path / name).mkdir()
        table = {f"q{i}": {"hit@5": float(v)} for i, v in enumerate(values)}
        (tmp_path / name / "scores.json").write_text(json.dumps({"s": {"agentic": table}}))
        (tmp_path / name / "agentic.trec").write_text(name)
    (row,) = compare_runs(tmp_path / "a", tmp_path / "b", ("hit@5", "nothing"), seed=0)
    assert row.better == ("q0",)
    assert row.worse == ()
    assert row.difference == pytest.approx(1 / 3)
    assert "better: q0" in render([row], 5)
    assert same_run_files(tmp_path / "a", tmp_path / "b") == ["agentic.trec"]
    with pytest.raises(CompareError, match="no finished run"):
        compare_runs(tmp_path / "a", tmp_path / "c", ("hit@5",), seed=0)


def test_line_spans_of_plain_rungs_are_of_the_file():
    rung = BM25([Document("f.py", "\n".join(f"value_{i} = {i}" for i in range(400)))], Lane.FILES)
    piece = rung.ask(Question("q", "value_390", ("f.py",))).pieces[0]
    assert isinstance(piece.lines[0], LineSpan)
    assert piece.lines[0].first <= 391 <= piece.lines[0].last
