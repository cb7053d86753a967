"""A second request goes on where an earlier pack ended, given the pack as an artifact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentloop import compress_sync
from agentloop.request import parse_request

TEXT = "".join(f"def otter_{n}(river):\n    return river.otter({n})\n\n\n" for n in range(6))


def ask(inputs: list[dict[str, str]], excluded: list[str]) -> dict[str, Any]:
    params = {"mode": "single_shot", "exclude_evidence": excluded}
    body = {"query": "How do otters use the river?", "input_refs": inputs, "task_params": params}
    released: dict[str, Any] = compress_sync(parse_request(body)).released
    return released


def hashes(pack: dict[str, Any]) -> list[str]:
    return [item["source_refs"][0]["chunk_hash"] for item in pack["payload"]["evidence"]]


@pytest.fixture
def inputs(tmp_path: Path) -> list[dict[str, str]]:
    for name in ("a", "b", "c"):
        (tmp_path / "src").mkdir(exist_ok=True)
        (tmp_path / "src" / f"{name}.py").write_text(TEXT.replace("otter_", f"otter_{name}"))
    return [{"type": "directory", "uri": str(tmp_path / "src")}]


def with_pack(inputs: list[dict[str, str]], pack: dict[str, Any], tmp_path: Path) -> list[dict[str, str]]:
    (tmp_path / "pack.json").write_text(json.dumps(pack))
    return [*inputs, {"type": "artifact", "uri": str(tmp_path / "pack.json")}]


def test_a_pack_that_is_named_is_left_out_whole(inputs: list[dict[str, str]], tmp_path: Path) -> None:
    first = ask(inputs, [])
    again = ask(with_pack(inputs, first, tmp_path), [first["provenance"]["pack_id"]])
    assert hashes(first)
    assert not set(hashes(first)) & set(hashes(again))
    paths = {item["source_refs"][0]["path"] for item in again["payload"]["evidence"]}
    assert "pack.json" not in paths
    assert "PARAM_IGNORED" not in {w["code"] for w in again["payload"]["warnings"]}


def test_one_item_of_the_only_pack(inputs: list[dict[str, str]], tmp_path: Path) -> None:
    first = ask(inputs, [])
    again = ask(with_pack(inputs, first, tmp_path), ["ev_001"])
    assert hashes(first)[0] not in hashes(again)
    assert set(hashes(first)[1:]) & set(hashes(again))


def test_a_pack_that_is_no_input_is_said_to_be_ignored(inputs: list[dict[str, str]]) -> None:
    pack = ask(inputs, ["evpack_0123456789abcdef"])
    assert "PARAM_IGNORED" in {w["code"] for w in pack["payload"]["warnings"]}


def test_an_artifact_that_is_no_pack_is_read_as_any_file(
    inputs: list[dict[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "pack.json").write_text('{"provenance": {"pack_id": ["x"]}, "payload": {"evidence": [1]}}')
    more = [*inputs, {"type": "artifact", "uri": str(tmp_path / "pack.json")}]
    assert hashes(ask(more, ["ev_001"]))
