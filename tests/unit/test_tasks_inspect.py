"""Structure of a repository: entry points, edges, risks, docs that disagree; filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentloop import AgentloopError, compress_sync, make_request
from agentloop.request import TaskType


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "pyproject.toml": '[project]\nname = "ship"\n[project.scripts]\nship = "ship.cli:main"\n',
        "ship/__init__.py": "",
        "ship/cli.py": "from ship.rates import rate\n\n\ndef main():\n    print(rate(3))\n",
        "ship/rates.py": (
            "import os\n\nfrom ship.zones import zone_of\n\n\n"
            "def rate(weight):\n"
            '    """Shipping rate of a parcel by weight and zone."""\n'
            '    os.system("true")\n    return weight * zone_of("DE")\n'
        ),
        "ship/zones.py": (
            'def zone_of(country):\n    """Zone of a country."""\n    return {"DE": 1}.get(country, 9)\n'
        ),
        "docs/rates.md": "# Rates\n\nThe shipping rate comes from `rate()`; `zone_table()` lists zones.\n",
        "web/rate.ts": "export function shippingRate(w: number): number {\n  return w;\n}\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def inspect(project: Path, **params: Any) -> dict[str, Any]:
    request = make_request(
        "How is the shipping rate computed?",
        [project],
        task=TaskType.INSPECT_REPO,
        task_params={"mode": "single_shot", **params},
    )
    payload: dict[str, Any] = compress_sync(request).released["payload"]
    return payload


def kinds(payload: dict[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item in payload["evidence"]:
        found.setdefault(item["kind"], []).append(item["source_refs"][0]["path"])
    return found


def test_structure_joins_what_the_question_found(project: Path) -> None:
    payload = inspect(project, include_dependency_edges=True)
    found = kinds(payload)
    assert found["entry_point"] == ["pyproject.toml"]
    assert found["risk"] == ["ship/rates.py"]
    assert found["doc_mismatch"] == ["docs/rates.md"]
    details = payload["details"]
    assert {"from": "ship/rates.py", "to": "ship/zones.py"} in details["dependency_edges"]
    assert {"from": "ship/cli.py", "to": "ship/rates.py"} in details["dependency_edges"]
    rate = next(s for s in details["symbols"] if s["symbol"] == "rate")
    assert rate["callees"] == ["zone_of"]
    assert details["entry_points"][0]["place"] == "pyproject.toml:4"


def test_edges_only_where_they_are_asked_for(project: Path) -> None:
    assert inspect(project)["details"]["dependency_edges"] == []


def test_paths_and_languages_narrow_and_are_counted(project: Path) -> None:
    payload = inspect(project, paths=["ship"], languages=["python"])
    paths = {ref["path"] for item in payload["evidence"] for ref in item["source_refs"]}
    assert paths
    assert all(p.startswith("ship/") for p in paths)
    assert payload["coverage"]["skipped"]["filtered"]["count"] == 3


def test_a_filter_that_leaves_nothing_says_so(project: Path) -> None:
    with pytest.raises(AgentloopError, match=r"paths=\['nowhere'\]"):
        inspect(project, paths=["nowhere"])


def test_an_overload_is_told_by_its_body_and_its_first_doc(tmp_path: Path) -> None:
    (tmp_path / "parcel.ts").write_text(
        "/** Rate of a parcel by its weight. */\n"
        "export function parcelRate(w: number): number;\n"
        "/** @deprecated pass a number */\n"
        "export function parcelRate(w: string): number;\n"
        "export function parcelRate(w: number | string): number {\n  return Number(w) * 3;\n}\n"
    )
    first = compress_sync(make_request("parcelRate", [tmp_path])).released["payload"]["evidence"][0]
    assert (first["source_refs"][0]["line_start"], first["source_refs"][0]["line_end"]) == (5, 7)
    assert "Rate of a parcel" in first["claim"]
