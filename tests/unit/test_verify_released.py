"""Verification before release fails closed, with the code of what is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentloop.compress import BuiltPack
from agentloop.compress.refs import digest
from agentloop.config import Policy
from agentloop.errors import AgentloopError, ErrorCode
from agentloop.pack import EvidenceItem, Redaction, final_pack_tokens, to_json, with_short_hashes
from tests.unit.pack_case import PackCase

TEXT = "# Otters\n\nOtters sleep holding hands in the kelp.\n\nThey wake at dawn.\n"


@pytest.fixture
def case(tmp_path: Path) -> PackCase:
    """One small document."""
    return PackCase(tmp_path, {"zoo/otters.md": TEXT}, "How do otters sleep?")


def altered(built: BuiltPack, change: Callable[[EvidenceItem], EvidenceItem]) -> BuiltPack:
    """The pack with its first item changed, in both forms, and counted again."""
    first, *rest = built.pack.payload.evidence
    payload = built.pack.payload.model_copy(update={"evidence": (change(first), *rest)})
    counted = final_pack_tokens(
        with_short_hashes(to_json(built.pack.model_copy(update={"payload": payload})))
    )
    budget = payload.budget.model_copy(update={"final_pack_tokens": counted})
    pack = built.pack.model_copy(update={"payload": payload.model_copy(update={"budget": budget})})
    released = {**with_short_hashes(to_json(pack)), "provenance": built.released["provenance"]}
    return dataclasses.replace(built, pack=pack, released=released)


def with_ref(**changes: Any) -> Callable[[EvidenceItem], EvidenceItem]:
    """A change of the first item's first ref."""

    def change(item: EvidenceItem) -> EvidenceItem:
        ref = item.source_refs[0].model_copy(update=changes)
        return item.model_copy(update={"source_refs": (ref,)})

    return change


def code_of(case: PackCase, built: BuiltPack) -> ErrorCode:
    """The code with which verification refuses a pack."""
    with pytest.raises(AgentloopError) as caught:
        case.verify(built)
    return caught.value.code


def test_an_unaltered_pack_passes(case: PackCase) -> None:
    built = case.build()
    case.verify(built)
    case.verify(altered(built, lambda item: item))


@pytest.mark.req("E6")
@pytest.mark.parametrize(
    "changes",
    [
        {"path": "zoo/otter.md"},
        {"path": "../zoo/otters.md"},
        {"input_id": "in2"},
        {"line_start": 4, "line_end": 4},
        {"line_end": 9},
        {"line_start": 1, "line_end": 200},
        {"byte_start": 12},
        {"byte_end": 100_000},
        {"content_hash": digest(b"other")},
        {"chunk_hash": digest(b"other")},
        {"commit": "0" * 40},
    ],
)
def test_a_ref_that_does_not_hold_is_refused(case: PackCase, changes: dict[str, Any]) -> None:
    assert code_of(case, altered(case.build(), with_ref(**changes))) is ErrorCode.EVIDENCE_REF_INVALID


def test_a_field_that_the_schema_does_not_know_is_refused(case: PackCase) -> None:
    built = case.build()
    built.released["payload"]["note"] = "x"
    assert code_of(case, built) is ErrorCode.RAG_SCHEMA_INVALID


@pytest.mark.parametrize(
    "missing", ["payload", "provenance", "evidence_refs", "quality_signals", "schema_name"]
)
def test_a_missing_part_is_refused(case: PackCase, missing: str) -> None:
    built = case.build()
    del built.released[missing]
    assert code_of(case, built) is ErrorCode.RAG_SCHEMA_INVALID


def test_ids_that_disagree_are_refused(case: PackCase) -> None:
    built = case.build()
    built.released["evidence_refs"] = ["ev_009"]
    assert code_of(case, built) is ErrorCode.RAG_SCHEMA_INVALID


def test_a_wrong_token_count_is_refused(case: PackCase) -> None:
    built = case.build()
    built.released["payload"]["budget"]["final_pack_tokens"] += 1
    assert code_of(case, built) is ErrorCode.RAG_SCHEMA_INVALID


def test_a_pack_over_budget_is_refused(case: PackCase) -> None:
    built = altered(case.build(), lambda item: item.model_copy(update={"claim": "otter " * 5000}))
    assert code_of(case, built) is ErrorCode.EVIDENCE_PACK_OVER_BUDGET


def test_an_item_over_its_budget_is_refused(case: PackCase) -> None:
    built = altered(case.build(), lambda item: item.model_copy(update={"claim": "otter " * 400}))
    assert code_of(case, built) is ErrorCode.EVIDENCE_PACK_OVER_BUDGET


@pytest.mark.req("E8")
def test_a_secret_in_a_claim_is_refused(case: PackCase) -> None:
    secret = "postgres://a:" + "Zx7qPl9Wm3k" + "@h/x"
    built = altered(case.build(), lambda item: item.model_copy(update={"claim": secret}))
    assert code_of(case, built) is ErrorCode.POLICY_REDACTION_REQUIRED


def test_an_excerpt_that_policy_forbids_is_refused(case: PackCase) -> None:
    built = altered(case.build(), lambda item: item.model_copy(update={"excerpt": "Otters"}))
    assert code_of(case, built) is ErrorCode.POLICY_REDACTION_REQUIRED


def test_a_path_that_policy_forbids_is_refused(case: PackCase) -> None:
    built = case.build()
    case.policy = Policy(allow_paths=False)
    assert code_of(case, built) is ErrorCode.POLICY_REDACTION_REQUIRED


def test_a_raw_claim_about_a_protected_input_is_refused(tmp_path: Path) -> None:
    case = PackCase(tmp_path, {"a.md": TEXT}, "How do otters sleep?", classification="phi")
    built = altered(
        case.build(), lambda item: item.model_copy(update={"redaction": Redaction.NO_RAW_EXCERPT})
    )
    assert code_of(case, built) is ErrorCode.POLICY_REDACTION_REQUIRED
    sentence = "Otters sleep holding hands in the kelp."
    quoted = altered(case.build(), lambda item: item.model_copy(update={"claim": sentence}))
    assert code_of(case, quoted) is ErrorCode.POLICY_REDACTION_REQUIRED
