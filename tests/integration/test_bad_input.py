"""Bad input to the command: a clear error that names the input and the reason, and nothing else lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def agentloop(*argv: str | Path, home: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "broker.cli", *map(str, argv)],
        env={**os.environ, "BROKER_HOME": str(home), "AGENTLOOP_CACHE": "off"},
        input=stdin,
        capture_output=True,
        timeout=100,
        check=False,
    )


def error(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    assert b"Traceback" not in done.stderr
    found: dict[str, Any] = json.loads(done.stderr)["error"]
    return found


def compress(home: Path, query: str, *argv: str | Path) -> subprocess.CompletedProcess[bytes]:
    return agentloop(
        "compress", "--mode", "single_shot", "--format", "json", *argv[1:], query, argv[0], home=home
    )


@pytest.mark.req("N1", "B13")
def test_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    done = compress(tmp_path / "home", "anything", tmp_path / "in")
    assert done.returncode == 3
    assert error(done)["code"] == "INPUT_DISCOVERY_FAILED"


@pytest.mark.req("N2", "B13")
def test_all_files_binary_or_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / ".git").mkdir(parents=True)
    (folder / ".gitignore").write_text("*.txt\n.gitignore\n")
    (folder / "a.bin").write_bytes(bytes(range(256)) * 20)
    (folder / "b.txt").write_text("ignored")
    done = compress(tmp_path / "home", "anything", folder)
    assert done.returncode == 3
    told = error(done)
    assert "binary" in json.dumps(told)
    assert "ignored" in json.dumps(told)


@pytest.mark.req("N3")
def test_a_missing_path_is_named(tmp_path: Path) -> None:
    done = compress(tmp_path / "home", "anything", tmp_path / "gone.log")
    assert done.returncode == 3
    assert "gone.log" in error(done)["message"]


@pytest.mark.req("N4", "B10")
@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_an_unreadable_file_is_listed_and_the_rest_is_searched(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.md").write_text("# Fees\n\nThe fee is 7 %.\n")
    (folder / "b.md").write_text("secret\n")
    (folder / "b.md").chmod(0)
    done = compress(tmp_path / "home", "How high is the fee?", folder)
    assert done.returncode == 0
    assert json.loads(done.stdout)["payload"]["coverage"]["skipped"]["unreadable"]["examples"] == ["b.md"]


@pytest.mark.req("N5", "B2")
def test_a_symlink_loop(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.md").write_text("# Fees\n\nThe fee is 7 %.\n")
    (folder / "loop").symlink_to(folder)
    done = compress(tmp_path / "home", "How high is the fee?", folder)
    assert done.returncode == 0
    assert json.loads(done.stdout)["payload"]["coverage"]["skipped"]["symlink"]["count"] == 1


@pytest.mark.req("N6")
@pytest.mark.parametrize("query", ["", "   \n"])
def test_a_query_of_no_characters(tmp_path: Path, query: str) -> None:
    (tmp_path / "a.md").write_text("text\n")
    done = compress(tmp_path / "home", query, tmp_path / "a.md")
    assert done.returncode == 2
    assert "needs a question" in error(done)["message"]


@pytest.mark.req("N7")
def test_a_query_of_100_000_characters(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Fees\n\nThe fee is 7 %.\n")
    long = ("How high is the fee? " * 6000)[:100_000]
    done = compress(tmp_path / "home", long, tmp_path / "a.md")
    assert done.returncode == 0
    pack = json.loads(done.stdout)
    assert pack["payload"]["evidence"][0]["source_refs"][0]["path"] == "a.md"
    assert pack["payload"]["budget"]["final_pack_tokens"] <= 4000
    assert "QUESTION_TRUNCATED" in [w["code"] for w in pack["payload"]["warnings"]]
    assert compress(tmp_path / "home", long + "x", tmp_path / "a.md").returncode == 2


@pytest.mark.req("N8")
def test_a_query_without_a_hit_gives_an_empty_pack_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Fees\n\nThe fee is 7 %.\n")
    done = compress(tmp_path / "home", "zyxwvut qqqqq", tmp_path / "a.md")
    assert done.returncode == 0
    pack = json.loads(done.stdout)["payload"]
    assert pack["evidence"] == []
    assert [w["code"] for w in pack["warnings"]] == ["LOW_COVERAGE"]


@pytest.mark.req("N9")
def test_a_budget_too_small_for_one_claim_says_what_would_do(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Fees\n\nThe fee is 7 %.\n")
    done = compress(tmp_path / "home", "How high is the fee?", tmp_path / "a.md", "--budget", "20")
    assert done.returncode == 4
    told = error(done)
    assert told["code"] == "EVIDENCE_PACK_OVER_BUDGET"
    least = str(told["details"]["least"])
    again = compress(tmp_path / "home", "How high is the fee?", tmp_path / "a.md", "--budget", least)
    assert again.returncode == 0


@pytest.mark.req("N10")
@pytest.mark.parametrize(
    "extra",
    [
        ["--param", "no_such=1"],
        ["--constraint", "no_such=1"],
        ["--param", 'mode="fast"'],
        ["--param", 'retrieval_strategies=["magic"]'],
        ["--param", "novalue"],
    ],
    ids=["param", "constraint", "mode", "strategy", "no value"],
)
def test_an_unknown_parameter_is_named(tmp_path: Path, extra: list[str]) -> None:
    (tmp_path / "a.md").write_text("text\n")
    done = compress(tmp_path / "home", "anything", tmp_path / "a.md", *extra)
    assert done.returncode == 2
    told = error(done)
    assert told["code"] == "REQUEST_INVALID"
    name = extra[1].partition("=")[0]
    assert name in told["message"]


@pytest.mark.req("D2")
@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"query": NaN}', '{"query": "\\ud800"}'])
def test_a_request_file_that_is_no_request(tmp_path: Path, text: str) -> None:
    (tmp_path / "request.json").write_text(text)
    done = agentloop("compress", "--request", tmp_path / "request.json", home=tmp_path / "home")
    assert done.returncode == 2
    assert error(done)["code"] == "REQUEST_INVALID"


def test_standard_input_is_searched(tmp_path: Path) -> None:
    done = agentloop(
        "compress",
        "--format",
        "json",
        "How high is the fee?",
        "-",
        home=tmp_path,
        stdin=b"# Fees\n\nThe fee is 7 %.\n",
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["payload"]["evidence"][0]["source_refs"][0]["path"] == "-"


def test_a_saved_pack_verifies_and_turns_stale(tmp_path: Path) -> None:
    file, home = tmp_path / "a.md", tmp_path / "home"
    file.write_text("# Fees\n\nThe fee is 7 %.\n")
    (tmp_path / "pack.json").write_bytes(compress(home, "How high is the fee?", file).stdout)
    fresh = agentloop("verify", tmp_path / "pack.json", file, home=home)
    assert (fresh.returncode, {r["status"] for r in json.loads(fresh.stdout)}) == (0, {"ok"})
    file.write_text("# Fees\n\nThe fee is 9 %.\n")
    stale = agentloop("verify", tmp_path / "pack.json", file, home=home)
    assert (stale.returncode, {r["status"] for r in json.loads(stale.stdout)}) == (4, {"stale"})
