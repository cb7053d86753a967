"""Golden sets as they are read, and the corpora behind them."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from eval.archives import ArchiveError, find_archive, unpack
from eval.draft import init
from eval.golden import GoldenError, Lane, LineSpan, load
from eval.material import MaterialOptions, append_ordinary, prepare, sessions
from eval.plan import RunConfig, choose, half_of, units, variants


def write_set(folder: Path, questions: list[dict], corpus: list[dict] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(q) + "\n" for q in questions)
    (folder / "questions.jsonl").write_text("".join(lines))
    if corpus is not None:
        (folder / "corpus.jsonl").write_text("".join(json.dumps(item) + "\n" for item in corpus))
    return folder


def test_a_corpus_id_that_looks_like_lines_stays_an_id(tmp_path):
    corpus = [{"id": "conv/D1:3-4", "text": "hello"}]
    golden = load(
        write_set(tmp_path / "s", [{"id": "q", "question": "who?", "gold": ["conv/D1:3-4"]}], corpus)
    )
    assert golden.lane is Lane.RECORDS
    assert golden.questions[0].docs == ("conv/D1:3-4",)
    assert golden.questions[0].lines == ()


def test_line_gold_of_files(tmp_path):
    rows = [{"id": "q", "question": "where?", "gold": ["a.py:3-9", "a.py:20-21", "b.py"], "package": "p"}]
    question = load(write_set(tmp_path / "s", rows)).questions[0]
    assert question.docs == ("a.py", "b.py")
    assert question.lines == (LineSpan("a.py", 3, 9), LineSpan("a.py", 20, 21))
    assert question.group == "p"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"id": "q", "question": "x", "gold": ["a.py:9-3"]}], "not 1-based"),
        ([{"id": "q", "question": "x", "gold": ["a.py:0-3"]}], "not 1-based"),
        ([{"id": "q", "question": " ", "gold": []}], "needs an `id`"),
        ([{"id": "q", "question": "x", "gold": "a"}], "is a list"),
        ([{"id": "q", "question": "x", "gold": []}, {"id": "q", "question": "y", "gold": []}], "used twice"),
        ([], "no questions"),
    ],
)
def test_malformed_questions_are_refused_with_their_place(tmp_path, rows, told):
    with pytest.raises(GoldenError, match=told):
        load(write_set(tmp_path / "s", rows))


def test_broken_json_names_the_file(tmp_path):
    folder = write_set(tmp_path / "s", [{"id": "q", "question": "x", "gold": []}])
    (folder / "questions.jsonl").write_text('{"id": ')
    with pytest.raises(GoldenError, match=r"questions\.jsonl"):
        load(folder)
    with pytest.raises(GoldenError, match="there is no such file"):
        load(tmp_path / "nowhere")


def test_each_group_is_its_own_corpus_and_pooled_is_all(tmp_path):
    corpus = [
        {"id": "a1", "text": "one", "group": "a/../x", "session": "s1"},
        {"id": "b1", "text": "two", "group": "b"},
    ]
    rows = [
        {"id": "qa", "question": "1?", "gold": ["a1"], "group": "a/../x"},
        {"id": "qb", "question": "2?", "gold": ["b1"], "group": "b"},
    ]
    golden = load(write_set(tmp_path / "s", rows, corpus))
    options = MaterialOptions({}, tmp_path / "scratch")
    first = prepare(golden, golden.questions[0], False, options)
    assert [d.doc for d in first.documents()] == ["a1"]
    assert first.path.is_relative_to(tmp_path / "scratch")
    assert first.missing(("a1", "b1")) == ("b1",)
    pooled = prepare(golden, golden.questions[0], True, options)
    assert [d.doc for d in pooled.documents()] == ["a1", "b1"]
    assert sessions(golden) == {"a1": "s1"}


def test_logs_come_with_ordinary_lines_and_a_baseline(tmp_path):
    log = "start\nsetup\nerror: boom\ndone\n"
    rows = [
        {
            "id": "q",
            "question": "why?",
            "gold": ["p/fail.log:3-3"],
            "log": "p/fail.log",
            "pass_log": "p/pass.log",
        }
    ]
    folder = write_set(tmp_path / "s", rows, [{"id": "p/fail.log", "text": log}])
    with gzip.open(folder / "pass_logs.jsonl.gz", "wt") as packed:
        packed.write(json.dumps({"id": "p/pass.log", "text": "start\nsetup\ndone\n"}) + "\n")
    golden = load(folder)
    assert golden.lane is Lane.LOGS
    question = golden.questions[0]
    made = prepare(golden, question, False, MaterialOptions({}, tmp_path / "w", 5, True))
    assert made.path.read_text() == log + "start\nsetup\ndone\nstart\nsetup\n"
    assert made.baseline is not None
    assert made.baseline.read_text() == "start\nsetup\ndone\n"
    with pytest.raises(GoldenError, match="nothing ordinary"):
        append_ordinary(
            "error: boom", load(folder).questions[0].__class__("x", "x", (), (LineSpan("l", 1, 1),)), 3
        )


def test_files_are_found_as_folder_archive_or_option(tmp_path):
    rows = [{"id": "q", "question": "x?", "gold": ["pkg/a.py"], "package": "pkg", "version": "1.0"}]
    golden = load(write_set(tmp_path / "s", rows))
    question = golden.questions[0]
    with pytest.raises(GoldenError, match=r"--corpus s=DIR"):
        prepare(golden, question, False, MaterialOptions({}, tmp_path / "w"))
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "pkg-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("pkg/a.py", "print(1)\n")
        wheel.writestr("../escape.py", "no\n")
    made = prepare(golden, question, False, MaterialOptions({"s": str(wheels)}, tmp_path / "w"))
    assert [d.doc for d in made.documents()] == ["pkg/a.py"]
    assert not list(tmp_path.rglob("escape.py"))
    assert made.missing(("pkg/a.py", "pkg/b.py")) == ("pkg/b.py",)


def test_an_archive_that_is_none_is_refused(tmp_path):
    bad = tmp_path / "x.zip"
    bad.write_bytes(b"no zip")
    with pytest.raises(ArchiveError, match=r"x\.zip"):
        unpack(bad, tmp_path / "out")
    assert find_archive(tmp_path, ["x"]) == bad
    assert find_archive(tmp_path, ["y"]) is None


def test_the_halves_of_a_set_are_disjoint_and_limits_are_seeded_samples(tmp_path):
    rows = [{"id": f"q{i}", "question": "x?", "gold": ["d"]} for i in range(60)]
    folder = write_set(tmp_path / "s", rows, [{"id": "d", "text": "t"}])
    questions = load(folder).questions

    def chosen(**kwargs):
        config = RunConfig(golden=(folder,), rungs=("bm25",), out=tmp_path, **kwargs)
        return [q.qid for q in choose(questions, config)]

    a, b = chosen(half="a"), chosen(half="b")
    assert not set(a) & set(b)
    assert len(a) + len(b) == 60
    assert {half_of(q) for q in a} == {"a"}
    assert min(len(a), len(b)) > 15
    assert len(chosen(limit=7)) == 7
    assert chosen(limit=7) != chosen(limit=7, seed=1)
    assert chosen(limit=7) == chosen(limit=7)


def test_units_leave_out_what_is_done(tmp_path):
    rows = [{"id": f"q{i}", "question": "x?", "gold": ["d"], "group": f"g{i % 2}"} for i in range(6)]
    corpus = [{"id": "d", "text": "t", "group": "g0"}]
    folder = write_set(tmp_path / "s", rows, corpus)
    config = RunConfig(golden=(folder,), rungs=("bm25",), out=tmp_path / "o", pooled=True)
    apart, pooled = variants(config)
    assert [u.qids for u in units(apart, "bm25", {"q0"})] == [("q1", "q3", "q5"), ("q2", "q4")]
    assert [u.qids for u in units(pooled, "bm25", set())] == [("q0", "q1", "q2", "q3", "q4", "q5")]
    assert pooled.folder == tmp_path / "o" / "pooled"


def test_init_drafts_a_row_a_sample_with_gold_that_loads(tmp_path):
    folder = tmp_path / "mine"
    (folder / "corpus").mkdir(parents=True)
    for name in "abc":
        text = "".join(f"{name} line {i} says something long enough to ask about\n" for i in range(40))
        (folder / "corpus" / f"{name}.md").write_text(text)
    told = init(folder, count=4, seed=1, force=False)
    rows = [json.loads(line) for line in (folder / "questions.draft.jsonl").read_text().splitlines()]
    assert len(rows) == 4
    assert {row["gold"][0].split(":")[0] for row in rows} == {"a.md", "b.md", "c.md"}
    assert "questions.jsonl" in told
    with pytest.raises(GoldenError, match="--force"):
        init(folder, count=4, seed=1, force=False)
    done = [{**row, "question": "What?"} for row in rows]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in done))
    assert load(folder).questions[0].lines


def test_init_without_a_corpus_says_what_to_put_there(tmp_path):
    with pytest.raises(GoldenError, match="put your data there"):
        init(tmp_path, count=1, seed=0, force=False)
