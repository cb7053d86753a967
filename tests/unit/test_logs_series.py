"""Rotated logs as one stream."""

from __future__ import annotations

import gzip
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from agentloop import compress_sync, make_request
from agentloop.config import Caps
from agentloop.logs.analysis import analyse
from agentloop.logs.series import series
from agentloop.pack import canonical
from agentloop.request import TaskType
from agentloop.verify import verify_saved
from tests.unit.logs_material import log_file


@pytest.mark.parametrize(
    ("names", "streams"),
    [
        (
            ["app.log", "app.log.1", "app.log.10.gz", "app.log.2.gz"],
            [["app.log.10.gz", "app.log.2.gz", "app.log.1", "app.log"]],
        ),
        (
            ["app.log", "app.log-20240501.gz", "app.log-20240430"],
            [["app.log-20240430", "app.log-20240501.gz", "app.log"]],
        ),
        (
            ["a/x.log.2024-05-02", "a/x.log.2024-05-01_13", "a/x.log"],
            [["a/x.log.2024-05-01_13", "a/x.log.2024-05-02", "a/x.log"]],
        ),
        (
            ["syslog", "syslog.1", "messages", "messages-20240501"],
            [["syslog.1", "syslog"], ["messages-20240501", "messages"]],
        ),
        (["job-1.log", "job-2.log", "build.log"], [["job-1.log"], ["job-2.log"], ["build.log"]]),
        (["a/app.log", "b/app.log.1"], [["a/app.log"], ["b/app.log.1"]]),
    ],
)
def test_files_of_one_stream_are_in_order(names: list[str], streams: list[list[str]]) -> None:
    files = [replace(log_file("x\n"), path=name) for name in names]
    assert [[file.path for file in stream] for stream in series(files)] == streams


def lines(day: int, text: str, count: int = 30) -> str:
    return "".join(f"2024-05-{day:02d} 10:{n:02d}:00 INFO {text} {n}\n" for n in range(count))


def test_the_stream_is_analysed_as_one_log() -> None:
    old = lines(1, "started worker") + "2024-05-01 11:00:00 ERROR disk sda1 is full, can't write journal\n"
    new = lines(2, "retry flush") + "2024-05-02 11:00:00 ERROR flush failed: journal of sda1 can't write\n"
    files = [replace(log_file(old, 0), path="app.log.1"), replace(log_file(new, 1), path="app.log")]
    analysis = analyse(files)
    assert analysis.root is not None
    assert analysis.reading.of(analysis.lines[analysis.root.block.head]).path in ("app.log.1", "app.log")
    stamps = [line.stamp.seconds for line in analysis.lines if line.stamp is not None]
    assert stamps == sorted(stamps)
    assert analysis.reading.total == 62


def write(folder: Path) -> None:
    error = "2024-05-01 12:00:00 ERROR pool exhausted: no connection to orders-db\n"
    (folder / "app.log.2.gz").write_bytes(gzip.compress((lines(1, "serving request") + error).encode()))
    (folder / "app.log.1").write_text(lines(2, "serving request"))
    (folder / "app.log").write_text(lines(3, "serving request"))


def test_a_pack_of_a_rotated_series_cites_the_file_of_the_failure(tmp_path: Path) -> None:
    write(tmp_path)
    request = make_request("What failed?", [tmp_path], task=TaskType.SUMMARIZE_LOGS)
    released = json.loads(canonical(compress_sync(request).released))
    (log,) = released["payload"]["details"]["logs"]
    assert (log["path"], log["root_path"], log["root_line"], log["rotated"], log["lines"]) == (
        "app.log", "app.log.2.gz", 31, 3, 91,
    )  # fmt: skip
    first = released["payload"]["evidence"][0]
    assert first["kind"] == "root_failure"
    assert first["source_refs"][0]["path"] == "app.log.2.gz"
    assert {c.status for c in verify_saved(released, [str(tmp_path)], Caps())} == {"ok"}


def test_a_rotated_series_in_an_archive_is_one_stream_too(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    write(folder)
    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as archive:
        archive.add(folder, arcname="var/log")
    request = make_request("What failed?", [tmp_path / "logs.tar.gz"], task=TaskType.SUMMARIZE_LOGS)
    released = json.loads(canonical(compress_sync(request).released))
    (log,) = released["payload"]["details"]["logs"]
    assert (log["root_path"], log["rotated"]) == ("logs.tar.gz/var/log/app.log.2.gz", 3)
    assert released["payload"]["evidence"][0]["source_refs"][0]["derived"]["member"] == "var/log/app.log.2.gz"
    assert {c.status for c in verify_saved(released, [str(tmp_path / "logs.tar.gz")], Caps())} == {"ok"}


def test_several_failures_of_one_packed_log_are_all_told(tmp_path: Path) -> None:
    text = lines(1, "serving") + "2024-05-01 12:00:00 ERROR pool exhausted: no connection to orders-db\n"
    text += lines(2, "serving") + "2024-05-02 12:00:00 ERROR checksum mismatch in ledger segment 9\n"
    (tmp_path / "one.log.gz").write_bytes(gzip.compress(text.encode()))
    request = make_request("What failed?", [tmp_path / "one.log.gz"], task=TaskType.SUMMARIZE_LOGS)
    claims = " ".join(e["claim"] for e in compress_sync(request).released["payload"]["evidence"])
    assert "orders-db" in claims
    assert "ledger" in claims
