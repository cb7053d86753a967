"""Our own golden sets keep up with what they ask about."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from eval.exports import messages
from eval.golden import Lane, load
from eval.material import MaterialOptions, prepare

OWN = Path(__file__).parents[2] / "eval" / "golden"
MACHINE = re.compile(r"/work/|/root/|/home/(?!ci/)|/tmp/")


def builder(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_build", OWN / name / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def kept(name: str) -> list[dict]:
    return [json.loads(line) for line in (OWN / name / "questions.jsonl").read_text().splitlines()]


def test_conversations_are_what_the_guide_promises():
    golden = load(OWN / "chats")
    told = messages(golden.export_file)
    assert len(told) >= 400
    assert len({m["session"] for m in told}) == 60
    assert len(golden.questions) == 60
    known = {m["id"] for m in told}
    assert all(set(q.docs) <= known for q in golden.questions)
    kinds = {q.kind for q in golden.questions}
    assert kinds == {"paraphrase", "multi-hop", "temporal", "inflection", "cross-language"}


def test_conversations_are_built_from_their_texts():
    build = builder("chats")
    found = [c for name in build.TEXTS for c in build.read(OWN / "chats" / "source" / name)]
    assert build.questions({c.slug: c for c in found}) == kept("chats")
    exported = json.loads((OWN / "chats" / "conversations.json").read_text())
    made = {c["id"]: c for c in map(build.export, found)}
    assert {c["id"]: c for c in exported} == made


def test_logs_are_there_and_name_no_machine():
    golden = load(OWN / "logs")
    assert golden.lane is Lane.LOGS
    assert len(golden.questions) == 20
    for question in golden.questions:
        text = (OWN / "logs" / question.extra["log"]).read_text()
        assert not MACHINE.search(text), question.qid
        assert all(span.last <= len(text.split("\n")) for span in question.lines)


def test_questions_on_this_repository_still_have_their_answers():
    """`python eval/golden/self/build.py` brings moved lines up to date."""
    now = builder("self").rows()  # raises for an anchor that is gone
    rows = kept("self")
    assert len(rows) == 40
    assert [row["question"] for row in rows] == [row["question"] for row in now]
    assert [[g.split(":")[0] for g in row["gold"]] for row in rows] == [
        [g.split(":")[0] for g in row["gold"]] for row in now
    ]


def test_an_anchor_that_is_gone_is_told():
    build = builder("self")
    with pytest.raises(build.AnchorGone, match="no definition nothing"):
        build.lines_of("eval/golden.py::nothing")
    with pytest.raises(build.AnchorGone, match="no heading"):
        build.lines_of("docs/eval.md#Nothing")
    with pytest.raises(build.AnchorGone, match="no such file"):
        build.lines_of("nothing.py::x")


def test_the_repositorys_corpus_leaves_the_golden_sets_out(tmp_path):
    golden = load(OWN / "self")
    made = prepare(golden, golden.questions[0], False, MaterialOptions({}, tmp_path))
    names = {document.doc for document in made.documents()}
    assert "agentloop/pipeline.py" in names
    assert not [name for name in names if name.startswith("eval/golden/")]
    assert all(not made.missing(question.docs) for question in golden.questions)
