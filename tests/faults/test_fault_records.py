"""Hostile exports over the whole pipeline: nothing fails, every loss is told, every ref verifies again."""

from __future__ import annotations

import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agentloop.api import compress_sync, make_request
from agentloop.config import Caps
from agentloop.pipeline import Environment, Outcome
from agentloop.sources.records import newest
from agentloop.verify import verify_saved

QUESTION = "Who paid 37 euros for the seal of the pump?"
GOOD = {"id": "good", "author": "Ada", "text": "Ada paid 37 euros for the seal of the pump."}


def ask(path: Path, caps: Caps | None = None, mode: str = "agentic") -> Outcome:
    """The outcome, after every ref of its pack was verified from the file alone."""
    request = make_request(QUESTION, [path], task_params={"mode": mode})
    outcome = compress_sync(request, Environment(caps=caps or Caps()))
    checked = verify_saved(outcome.released, [str(path)], Caps())
    assert checked
    assert {one.status for one in checked} == {"ok"}
    return outcome


def told(outcome: Outcome) -> str:
    return " ".join([*outcome.corpus.notes, *(w.message for w in outcome.pack.payload.warnings)])


def line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


CASES: dict[str, tuple[bytes, str]] = {
    "deep nesting": (
        b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "2 places are no JSON, the first at line 2;",
    ),
    "deep objects": (b'{"text": "x y", "d": ' + b'{"a":' * 90 + b'"b"' + b"}" * 91, "nested too deeply"),
    "duplicate keys": (b'{"text": "first of two", "text": "second of two"}', ""),
    "not a number": (b'{"text": "some words", "x": NaN, "y": -Infinity}', ""),
    "a huge integer": (b'{"text": "some words", "n": ' + b"9" * 5000 + b"}", ""),
    "invalid utf-8": (b'{"text": "bytes \xff\xfe\xed\xa0\x80 here"}', ""),
    "a lone surrogate": (rb'{"text": "lone \ud800 here"}', ""),
    "null content": (line({"id": None, "text": None, "message": None, "content": [None, {}]}), ""),
    "mixed types": (line([1, "two words", None, True, {"text": ["a b", {"text": "c d"}]}]), ""),
    "an empty line": (b"", ""),
    "broken": (b'{"text": oops}', "2 places are no JSON, the first at line 2;"),
    "two on a line": (b'{"text": "one is written here"} {"text": "two is written here"}', ""),
    "rest on a line": (
        b'{"text": "one is written here"} and more',
        "2 places are no JSON, the first at line 2;",
    ),
    "binary fields": (line({"text": "a photo", "image": "iVBOR" * 90}), "binary data is left out (image 1)"),
}


@pytest.mark.req("D2")
@pytest.mark.req("B9")
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_an_odd_line_costs_itself_only(tmp_path: Path, name: str, end: bytes) -> None:
    odd, loss = CASES[name]
    file = tmp_path / "export.jsonl"
    first = line({"id": "first", "text": "The pump of the hall leaks since Monday."})
    file.write_bytes(b"\xef\xbb\xbf" + end.join([first, odd, line(GOOD), b'{"id": "half", "text": "cut o']))
    outcome = ask(file)
    assert outcome.pack.payload.evidence[0].source_refs[0].record_ids == ("good",)
    assert "no JSON" in told(outcome)  # the last line was still being written
    assert loss in told(outcome)


@pytest.mark.req("D2")
def test_a_broken_array_keeps_what_stands_before_and_tells_the_line(tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_bytes(
        b"[\n" + line(GOOD) + b',\n{"text": "the next one"},\n{"text": oops},\n{"text": "lost"}]'
    )
    outcome = ask(file)
    assert "from line 4 on it is no JSON; the records there are left out" in told(outcome)
    assert "INPUT_TRUNCATED" in {w.code for w in outcome.pack.payload.warnings}


@pytest.mark.req("B9")
def test_one_huge_record_is_cut_and_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "LONGEST_TEXT", 20_000)
    file = tmp_path / "export.jsonl"
    huge = line({"id": "huge", "text": "word " * 400_000})
    file.write_bytes(b"\n".join([line({"text": "The pump leaks, says Bo."}), huge, line(GOOD)]))
    outcome = ask(file, Caps(max_record_chars=50_000))
    assert outcome.pack.payload.evidence[0].source_refs[0].record_ids == ("good",)
    assert "1 records are cut at 20000 characters" in told(outcome)


@pytest.mark.req("B9")
def test_the_order_of_keys_decides_nothing(tmp_path: Path) -> None:
    chance = random.Random(3)
    rows = [
        {"text": f"note {n} on the pump", "id": f"m{n}", "author": "Bo", "ts": 1.7e9 + n} for n in range(40)
    ]
    shuffled = [dict(chance.sample(sorted(row.items(), key=str), len(row))) for row in [*rows, GOOD]]
    texts = []
    for name, data in (("a", [*rows, GOOD]), ("b", shuffled)):
        (tmp_path / name).mkdir()
        file = tmp_path / name / "export.json"
        file.write_bytes(line(data))
        texts.append([(e.claim, e.source_refs[0].record_ids) for e in ask(file).pack.payload.evidence])
    assert texts[0] == texts[1]


@pytest.mark.req("B8")
@pytest.mark.parametrize("mode", ["agentic", "single_shot", "completion"])
def test_records_of_a_zip_are_evidence_each(tmp_path: Path, mode: str) -> None:
    """All refs of a zip point to the header of the member; what they derive is the record alone."""
    other = {"id": "other", "author": "Bo", "text": "The seal of the pump came from Lodz, said the supplier."}
    rows = [{"id": f"m{n}", "author": "Cy", "text": f"Remark {n} on the weather."} for n in range(30)]
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("export/messages.json", json.dumps([rows[0], GOOD, *rows[1:], other]))
        archive.writestr("export/photo.png", b"\x89PNG\r\n\x1a\n" + bytes(64))
    file = tmp_path / "export.zip"
    file.write_bytes(data.getvalue())
    outcome = ask(file, mode=mode)
    cited = [e.source_refs[0] for e in outcome.pack.payload.evidence]
    if mode != "completion":  # which asks nothing: the newest come first
        assert {("good",), ("other",)} <= {ref.record_ids for ref in cited}
    assert len({ref.record_ids for ref in cited}) == len(cited) > 1
    assert all(ref.derived is not None and ref.derived.member == "export/messages.json" for ref in cited)


def test_truncation_at_the_cap_is_told(tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    rows = [{"text": f"Old remark {n} on the weather.", "timestamp": 1.6e9 + n} for n in range(200)]
    file.write_bytes(b"\n".join(map(line, [*rows, {**GOOD, "timestamp": 1.7e9}])))
    outcome = ask(file, Caps(max_record_chars=500))
    assert "of 201 records are left out: the text is over the cap; the newest are kept" in told(outcome)
    assert outcome.pack.payload.evidence[0].source_refs[0].record_ids == ("good",)


def test_verification_extracts_a_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentloop import sources

    rows = [{"id": f"m{n}", "text": f"Ada paid {n} euros for pump seal {n}."} for n in range(40)]
    file = tmp_path / "export.json"
    file.write_bytes(line(rows))
    outcome = ask(file)
    calls: list[str] = []
    real = sources.extract

    def counted(extractor: str, version: str, data: bytes) -> Any:
        calls.append(extractor)
        return real(extractor, version, data)

    monkeypatch.setattr(sources, "extract", counted)
    checked = verify_saved(outcome.released, [str(file)], Caps())
    assert len(checked) > 1
    assert calls == ["records"]
