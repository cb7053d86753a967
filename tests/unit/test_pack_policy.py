"""Classification, confidentiality and policy decide what text may leave."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentloop.compress.wording import longest_run
from agentloop.config import Policy
from agentloop.pack import canonical
from agentloop.request import Classification
from tests.unit.pack_case import PackCase, claims

CANARY = "marmalade-heron-7741"
SOURCE = {
    "ward/rules.md": f"# Ward rules\n\nThe night nurse checks each pump at two and at five. {CANARY}\n",
    "ward/pump.py": (
        "def night_check(pump):\n"
        '    """Check a pump at night and write down what the nurse saw there."""\n'
        f"    raise ValueError('pump stopped in the night, call {CANARY} now')\n"
    ),
    "ward/pump.log": "".join(
        f"2024-01-02 03:04:{n:02d} ERROR pump {n} stopped at night\n" for n in range(30)
    ),
    "ward/pumps.yaml": f"pumps:\n  night:\n    nurse: {CANARY}\n",
}
QUESTION = "When does the nurse check the pump at night?"


@pytest.mark.parametrize("classification", ["proprietary", "restricted", "secret_adjacent", "phi"])
def test_protected_claims_never_hold_a_run_of_the_source(tmp_path: Path, classification: str) -> None:
    pack = PackCase(tmp_path, SOURCE, QUESTION, classification=classification).pack()
    assert pack["payload"]["input_scope"]["classification"] == classification
    assert len(pack["payload"]["evidence"]) >= 3
    for item in pack["payload"]["evidence"]:
        assert item["redaction"] == "derived_only"
        for text in SOURCE.values():
            assert longest_run(item["claim"], text) <= 5
    assert CANARY not in canonical(pack)


def test_a_protected_claim_still_says_something(tmp_path: Path) -> None:
    told = claims(PackCase(tmp_path, SOURCE, QUESTION, classification="restricted").pack())
    assert any("night_check" in claim for claim in told)
    assert any(re.search(r"\berror\b", claim) for claim in told)


def test_a_rule_protects_single_files(tmp_path: Path) -> None:
    policy = Policy(classification_rules=(("*.py", Classification.PROPRIETARY),))
    pack = PackCase(tmp_path, SOURCE, QUESTION, policy=policy).pack()
    by_path = {i["source_refs"][0]["path"]: i for i in pack["payload"]["evidence"]}
    assert by_path["ward/pump.py"]["redaction"] == "derived_only"
    assert CANARY not in by_path["ward/pump.py"]["claim"]
    assert pack["payload"]["input_scope"]["classification"] == "proprietary"


def test_paths_stay_where_policy_forbids_them(tmp_path: Path) -> None:
    policy = Policy(allow_paths=False)
    pack = PackCase(tmp_path, SOURCE, QUESTION, policy=policy, classification="restricted").pack()
    text = canonical(pack)
    assert "ward" not in text
    assert "pump.py" not in text
    for item in pack["payload"]["evidence"]:
        assert item["redaction"] == "reference_only"
        assert item["source_refs"][0]["content_hash"].startswith("sha256:")


def excerpts(root: Path, confidentiality: str, **more: Any) -> dict[str, Any]:
    """A pack that was asked for with excerpts."""
    return PackCase(
        root,
        SOURCE,
        QUESTION,
        task_params={"include_inline_excerpts": True},
        constraints={"confidentiality": confidentiality},
        **more,
    ).pack()


def test_excerpts_are_verbatim_where_all_agree(tmp_path: Path) -> None:
    pack = excerpts(tmp_path, "evidence_only")
    shown = [i for i in pack["payload"]["evidence"] if "excerpt" in i]
    assert shown
    for item in shown:
        assert item["redaction"] == "none"
        source = (tmp_path / item["source_refs"][0]["path"]).read_text()
        assert item["excerpt"] in source
        assert item["excerpt"].count("\n") < 12


def test_excerpts_are_withheld_under_local_only(tmp_path: Path) -> None:
    pack = excerpts(tmp_path, "local_only")
    assert not any("excerpt" in item for item in pack["payload"]["evidence"])
    assert "INLINE_EXCERPTS_WITHHELD" in {w["code"] for w in pack["payload"]["warnings"]}


def test_excerpts_are_withheld_by_policy_and_classification(tmp_path: Path) -> None:
    for more in ({"policy": Policy(allow_excerpts=False)}, {"classification": "restricted"}):
        pack = excerpts(tmp_path, "evidence_only", **more)
        assert not any("excerpt" in item for item in pack["payload"]["evidence"])
        assert "INLINE_EXCERPTS_WITHHELD" in {w["code"] for w in pack["payload"]["warnings"]}


@pytest.mark.req("E8")
def test_secrets_of_a_source_leave_in_no_part_of_a_pack(tmp_path: Path) -> None:
    secret = "Zx7" + "qPl9" + "Wm3k"
    log = f"connect postgres://svc:{secret}@db.example/x\nERROR migration 0042 failed: svc:{secret}@db down\n"
    case = PackCase(
        tmp_path,
        {"build.log": log},
        f"Why did migration 0042 fail with {secret}?",
        task_params={"include_inline_excerpts": True},
        constraints={"confidentiality": "evidence_only"},
    )
    built = case.build()
    case.verify(built)
    assert "0042" in canonical(built.released)
    assert secret not in canonical(built.released)
    for name, data in built.artifacts.items():
        assert secret.encode() not in data, name
    assert "SECRETS_REDACTED" in {w["code"] for w in built.released["payload"]["warnings"]}


@pytest.mark.req("D3")
def test_hidden_characters_of_a_source_are_flagged_and_spans_unchanged(tmp_path: Path) -> None:
    text = "# Gate\n\nThe gate\u202e code is\u200b 4 digits long.\n"
    pack = PackCase(tmp_path, {"gate.md": text}, "How long is the gate code?").pack()
    item = pack["payload"]["evidence"][0]
    assert {"bidi", "invisible"} <= set(item["flags"])
    assert "\u202e" not in json.dumps(item, ensure_ascii=False)
    ref = item["source_refs"][0]
    assert text.encode()[ref["byte_start"] : ref["byte_end"]].decode() == text.splitlines()[2]


def test_a_path_with_a_token_is_left_out_and_the_ref_still_holds(tmp_path: Path) -> None:
    token = "gh" + "p_" + "Zt5" * 12
    pack = PackCase(
        tmp_path, {f"dump-{token}.md": "# Otters\n\nOtters sleep holding hands.\n"}, "otters sleep"
    ).pack()
    assert token not in canonical(pack)
    assert "path" not in pack["payload"]["evidence"][0]["source_refs"][0]


@pytest.mark.req("B11")
def test_a_name_that_is_not_utf8_is_lossless(tmp_path: Path) -> None:
    name = b"caf\xe9.md".decode("utf-8", "surrogateescape")
    pack = PackCase(tmp_path, {name: "# Puffins\n\nPuffins nest in burrows.\n"}, "puffins nest").pack()
    text = canonical(pack)
    assert "caf\\udce9.md" in text
    assert json.loads(text)["payload"]["evidence"][0]["source_refs"][0]["path"] == name


def test_evidence_kinds_choose_items(tmp_path: Path) -> None:
    params = {"evidence_kinds": ["function"]}
    pack = PackCase(tmp_path, SOURCE, QUESTION, task_params=params).pack()
    assert {i["kind"] for i in pack["payload"]["evidence"]} == {"function"}
    none = PackCase(tmp_path, {}, QUESTION, task_params={"evidence_kinds": ["comet"]}).pack()
    assert len(none["payload"]["evidence"]) > 1
    assert "PARAM_IGNORED" in {w["code"] for w in none["payload"]["warnings"]}


@pytest.mark.parametrize(("kind", "ending"), [("build_error", ".log"), ("related_code", ".py")])
def test_the_specifications_names_for_kinds_stand_for_several(tmp_path: Path, kind: str, ending: str) -> None:
    params = {"evidence_kinds": [kind, "recent_change"]}
    pack = PackCase(tmp_path, SOURCE, QUESTION, task_params=params).pack()
    evidence = pack["payload"]["evidence"]
    assert evidence
    assert all(i["source_refs"][0]["path"].endswith(ending) for i in evidence)
    assert "PARAM_IGNORED" not in {w["code"] for w in pack["payload"]["warnings"]}


def test_evidence_of_an_earlier_pack_is_left_out(tmp_path: Path) -> None:
    first = PackCase(tmp_path, SOURCE, QUESTION).pack()["payload"]["evidence"]
    seen = [item["source_refs"][0]["chunk_hash"] for item in first[:2]]
    again = PackCase(tmp_path, {}, QUESTION, task_params={"exclude_evidence": [*seen, "ev_001"]}).pack()
    told = [item["source_refs"][0]["chunk_hash"] for item in again["payload"]["evidence"]]
    assert told == [item["source_refs"][0]["chunk_hash"] for item in first[2:]]
    assert "PARAM_IGNORED" in {w["code"] for w in again["payload"]["warnings"]}
