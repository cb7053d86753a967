"""Time in requests: `time_window` over records and logs, and what was first or last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentloop import compress_sync, make_request
from agentloop.config import Caps
from agentloop.errors import AgentloopError, ErrorCode
from agentloop.pack import canonical
from agentloop.verify import verify_saved

TOPICS = ("the boat engine is loud", "the varnish for the dinghy is dry", "the tax form is due")


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    rows = [
        {"id": f"m{day}-{hour}", "speaker": "me", "time": f"2024-03-{day:02d}T{hour:02d}:00:00Z",
         "text": f"{TOPICS[0 if day < 6 else (day + hour) % 3]} on day {day}"}
        for day in range(1, 29) for hour in (9, 12)
    ]  # fmt: skip
    rows[30]["text"] = "I bought varnish, a second tin of varnish for the dinghy"
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(rows, indent=0))
    return path


def ask(path: Path, question: str, **params: Any) -> dict[str, Any]:
    request = make_request(question, [path], task_params={"mode": "single_shot", **params})
    pack: dict[str, Any] = json.loads(canonical(compress_sync(request).released))
    assert {c.status for c in verify_saved(pack, [str(path)], Caps())} <= {"ok"}
    return pack


def times(pack: dict[str, Any]) -> list[str]:
    return [e["source_refs"][0]["timestamp_start"] for e in pack["payload"]["evidence"]]


def with_varnish(chat: Path) -> list[str]:
    return [row["time"] for row in json.loads(chat.read_text()) if "varnish" in row["text"]]


def test_when_was_something_first_and_last(chat: Path) -> None:
    assert times(ask(chat, "When did I first mention the varnish?"))[0] == with_varnish(chat)[0]
    assert times(ask(chat, "What was the last message about varnish?"))[0] in with_varnish(chat)[-2:]
    assert times(ask(chat, "Who bought a second tin of varnish?"))[0] == "2024-03-16T09:00:00Z"


def test_records_outside_of_the_window_are_no_evidence(chat: Path) -> None:
    found = times(
        ask(chat, "varnish for the dinghy", time_window={"start": "2024-03-10", "end": "2024-03-14"})
    )
    assert found
    assert all("2024-03-10" <= time < "2024-03-15" for time in found)
    with pytest.raises(AgentloopError) as error:
        ask(chat, "varnish", time_window={"start": "2025-01-01"})
    assert error.value.code is ErrorCode.INPUT_DISCOVERY_FAILED
    with pytest.raises(AgentloopError) as error:
        ask(chat, "varnish", time_window={"end": "yesterday"})
    assert error.value.code is ErrorCode.REQUEST_INVALID


def test_records_in_no_order_keep_what_lies_between_out_of_the_pack(tmp_path: Path) -> None:
    days = (3, 20, 5, 21, 4)
    rows = [
        {"id": str(d), "time": f"2024-03-{d:02d}T09:00:00Z", "text": f"the dinghy needs varnish, day {d}"}
        for d in days
    ]
    path = tmp_path / "notes.json"
    path.write_text(json.dumps(rows))
    found = times(ask(path, "dinghy varnish", time_window={"end": "2024-03-10"}))
    assert found
    assert all(time < "2024-03-11" for time in found)


def test_records_without_times_are_kept_and_told(tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    path.write_text(
        json.dumps([{"id": str(n), "text": f"the dinghy needs varnish number {n}"} for n in range(4)])
    )
    pack = ask(path, "dinghy varnish", time_window={"end": "2024-03-10"})
    assert pack["payload"]["evidence"]
    assert "PARAM_IGNORED" in [w["code"] for w in pack["payload"]["warnings"]]


def test_lines_of_a_log_outside_of_the_window_are_no_evidence(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text(
        "".join(
            f"2024-03-{day:02d} 10:00:{n:02d} INFO pump {day} pressure {n}\n"
            for day in range(1, 20)
            for n in range(40)
        )
    )
    pack = ask(path, "pump pressure", time_window={"start": "2024-03-04", "end": "2024-03-04"})
    refs = [ref for e in pack["payload"]["evidence"] for ref in e["source_refs"]]
    assert refs
    assert all(121 - 40 <= ref["line_start"] <= 160 for ref in refs)
