"""The released form: no empty fields, zero offsets kept, short hashes, schemas that are current."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from agentloop.pack import canonical
from agentloop.verify import schemas
from tests.unit.pack_case import PackCase

DOCS = Path(__file__).resolve().parents[2] / "docs" / "schemas"


def empties(value: object, path: str = "") -> list[str]:
    """Paths of null and empty members."""
    found: list[str] = []
    if isinstance(value, dict):
        for key, member in value.items():
            found += [f"{path}.{key}"] if member in (None, "", [], {}) else empties(member, f"{path}.{key}")
    elif isinstance(value, list):
        for n, member in enumerate(value):
            found += empties(member, f"{path}[{n}]")
    return found


def test_fields_at_their_default_are_left_out(tmp_path: Path) -> None:
    pack = PackCase(tmp_path, {"a.md": "Otters sleep holding hands.\n"}, "otters sleep").pack()
    assert empties(pack) == [".payload.warnings"]


def test_an_offset_of_zero_is_there(tmp_path: Path) -> None:
    pack = PackCase(tmp_path, {"a.md": "Otters sleep holding hands.\n"}, "otters sleep").pack()
    assert pack["payload"]["evidence"][0]["source_refs"][0]["byte_start"] == 0


def test_released_hashes_are_short_and_the_artifacts_are_whole(tmp_path: Path) -> None:
    built = PackCase(tmp_path, {"a.md": "Otters sleep holding hands.\n"}, "otters sleep").build()
    short = built.released["payload"]["evidence"][0]["source_refs"][0]
    whole = json.loads(built.artifacts["evidence_pack.json"])["payload"]["evidence"][0]["source_refs"][0]
    for name in ("content_hash", "chunk_hash"):
        assert len(short[name]) == len("sha256:") + 16
        assert len(whole[name]) == len("sha256:") + 64
        assert whole[name].startswith(short[name])


def test_artifacts_are_named_by_hash(tmp_path: Path) -> None:
    import hashlib

    built = PackCase(tmp_path, {"a.md": "Otters sleep holding hands.\n"}, "otters sleep").build()
    stated = built.released["provenance"]["artifacts"]
    assert set(stated) == set(built.artifacts)
    for name, data in built.artifacts.items():
        assert ("sha256:" + hashlib.sha256(data).hexdigest()).startswith(stated[name])


def test_an_item_is_lean(tmp_path: Path) -> None:
    """The contract's figure is about 146 tokens an item; claims here are of ordinary length."""
    pack = PackCase(
        tmp_path, {"zoo/otters.md": "# Otters\n\nOtters sleep holding hands in the kelp.\n"}, "otters sleep"
    ).pack()
    assert pack["payload"]["evidence"][0]["tokens"] <= 146


def test_duplicates_are_counted_with_first_and_last(tmp_path: Path) -> None:
    text = "# Otters\n\nOtters sleep holding hands in the kelp.\n"
    files = {f"copy{n}/otters.md": text for n in range(5)}
    built = PackCase(tmp_path, files, "otters sleep").build()
    item = built.released["payload"]["evidence"][0]
    assert len(built.released["payload"]["evidence"]) == 1
    (collapsed,) = item["collapsed"]
    assert collapsed["count"] == 4
    assert len(collapsed["source_refs"]) == 2
    listed = json.loads(built.artifacts["collapsed.json"])["ev_001"]
    assert listed["count"] == 4
    paths = {item["source_refs"][0]["path"], *(ref["path"] for ref in listed["source_refs"])}
    assert paths == set(files)


@pytest.mark.parametrize("name", sorted(schemas()))
def test_documented_schemas_are_current(name: str) -> None:
    """`agentloop schema NAME > docs/schemas/NAME.json` brings them up to date."""
    assert json.loads((DOCS / f"{name}.json").read_text()) == json.loads(json.dumps(schemas()[name]))


@pytest.mark.parametrize("name", sorted(schemas()))
def test_schemas_are_valid_and_refuse_unknown_fields(name: str) -> None:
    schema = schemas()[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False


def test_a_released_pack_conforms_after_a_round_trip(tmp_path: Path) -> None:
    pack = PackCase(tmp_path, {"a.md": "Otters sleep holding hands.\n"}, "otters sleep").pack()
    again = json.loads(canonical(pack))
    jsonschema.Draft202012Validator(schemas()["rag_evidence_pack_v1"]).validate(again)
