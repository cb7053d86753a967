"""`agentloop submit`, `wait`, `result` and their like on a real broker: what is printed, and how they end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.cli import main
from tests.integration.broker_server import Server, server


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("jobs")) as found:
        yield found


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command for a home; exit status and the decoded JSON of stdout, or of stderr."""

    def command(home: Path, *args: str) -> tuple[int, Any]:
        monkeypatch.setenv("BROKER_HOME", str(home))
        status = main([str(arg) for arg in args])
        printed = capsys.readouterr()
        return status, json.loads(printed.out or printed.err)

    return command


def test_from_submit_to_result(broker: Server, run: Any) -> None:
    status, handle = run(broker.home, "submit", "where is the parser?", broker.roots)
    assert status == 0
    status, record = run(broker.home, "wait", handle["job_id"], "--seconds", "60")
    assert (status, record["state"]) == (0, "succeeded")
    status, pack = run(broker.home, "result", handle["job_id"])
    assert (status, pack["schema_name"]) == (0, "rag_evidence_pack_v1")


def test_an_input_that_may_not_be_read_is_an_input_error(broker: Server, run: Any, tmp_path: Path) -> None:
    status, told = run(broker.home, "submit", "what?", tmp_path)
    assert (status, told["error"]["code"]) == (3, "INPUT_DISCOVERY_FAILED")
    assert told["error"]["details"]["reason"] == "path_not_allowed"
    status, told = run(broker.home, "submit", "what?", broker.roots, "--param", "nonsense=1")
    assert (status, told["error"]["code"]) == (2, "REQUEST_INVALID")


@pytest.mark.parametrize(
    "job_id", ["job_00000000000000000000000000", "..", "../../v1/jobs", "a b", "ü", "%2e%2e"]
)
@pytest.mark.parametrize("command", ["status", "result", "logs", "cancel"])
def test_an_unknown_job_is_refused(broker: Server, run: Any, command: str, job_id: str) -> None:
    status, told = run(broker.home, command, job_id)
    assert status == 4
    assert told["error"]["code"] == "NOT_FOUND"


def test_the_error_of_a_job_is_the_error_of_its_result(broker: Server, run: Any) -> None:
    asked = ["submit", "q?", broker.roots, "--constraint", "final_evidence_pack_budget=1"]
    _, handle = run(broker.home, *asked)
    run(broker.home, "wait", handle["job_id"], "--seconds", "60")
    status, told = run(broker.home, "result", handle["job_id"])
    assert (status, told["error"]["code"]) == (4, "EVIDENCE_PACK_OVER_BUDGET")


def test_no_broker_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BROKER_HOME", str(tmp_path))
    assert main(["status", "x"]) == 4
    assert "start one with `agentloop serve`" in capsys.readouterr().err
    (tmp_path / "broker.json").write_text('{"url": "http://127.0.0.1:9"}')  # discard: nobody listens
    assert main(["status", "x"]) == 4
    told = capsys.readouterr().err
    assert "does not answer; start one with `agentloop serve`" in told
    assert "Errno" not in told
