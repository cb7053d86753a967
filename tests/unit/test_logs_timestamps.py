"""Stamps, levels and control sequences at the start of a line."""

from __future__ import annotations

import pytest

from agentloop.logs.ansi import strip, strip_mapped
from agentloop.logs.prefix import split_prefix
from agentloop.logs.severity import Level, Weight, weigh
from agentloop.logs.timestamps import StampKind, find_stamp, parse_iso

FORMS = [
    ("2026-08-26T10:02:21.1234567Z ##[error]x", StampKind.DATE, "2026-08-26T10:02:21.123Z"),
    ("2026-08-26 10:02:21,123 [main] ERROR a.b - x", StampKind.DATE, "2026-08-26T10:02:21.123"),
    ("[2026-08-26T10:02:21Z] [INFO] x", StampKind.DATE, "2026-08-26T10:02:21Z"),
    ("2009/01/23 01:23:23 main.go:2: x", StampKind.DATE, "2009-01-23T01:23:23"),
    ("Aug 26 10:02:21 host prog[12]: x", StampKind.YEARLESS, "Aug 26 10:02:21"),
    ("Aug 26, 2026 1:02:21 PM x", StampKind.DATE, "2026-08-26T13:02:21"),
    ("E0826 10:02:21.123456   12 a.go:1] x", StampKind.YEARLESS, "E0826 10:02:21.123456"),
    ("[26/Aug/2026:10:02:21 +0200] x", StampKind.DATE, "2026-08-26T08:02:21Z"),
    ("type=SYSCALL msg=audit(1700000000.000:9000): x", StampKind.DATE, "2023-11-14T22:13:20Z"),
    ("1700000000.5 x", StampKind.DATE, "2023-11-14T22:13:20Z"),
    ("section_start:1700000000:build", StampKind.DATE, "2023-11-14T22:13:20Z"),
    ("[10:02:21] x", StampKind.CLOCK, "10:02:21"),
    ("#7 33.97 ERROR: x", StampKind.RELATIVE, "#7 33.97"),
    ('{"level":"error","time":"2026-08-26T10:02:21Z","msg":"x"}', StampKind.DATE, "2026-08-26T10:02:21Z"),
    ('time="2026-08-26T10:02:21Z" level=warn msg=x', StampKind.DATE, "2026-08-26T10:02:21Z"),
    ("build\tRun tests\t2026-08-26T10:02:21Z x", StampKind.DATE, "2026-08-26T10:02:21Z"),
]


@pytest.mark.parametrize(("line", "kind", "text"), FORMS)
def test_a_stamp_is_found(line: str, kind: StampKind, text: str) -> None:
    stamp = find_stamp(line)
    assert stamp is not None
    assert (stamp.kind, stamp.text) == (kind, text)


@pytest.mark.parametrize("line", ["99:99:99 x", "2026-13-45T10:02:21Z x", "1234567 files", "PASS  a (12 ms)"])
def test_what_is_no_time_is_no_stamp(line: str) -> None:
    assert find_stamp(line) is None


def test_zones_are_honoured() -> None:
    west, east = find_stamp("2026-08-26T10:00:00-07:00 x"), find_stamp("2026-08-26T19:00:00+02:00 x")
    assert west is not None
    assert east is not None
    assert west.seconds == east.seconds
    assert parse_iso("2026-08-26").timestamp() == parse_iso("2026-08-26T00:00:00Z").timestamp()
    with pytest.raises(ValueError, match="ISO 8601"):
        parse_iso("yesterday")


@pytest.mark.parametrize(
    ("line", "level", "text"),
    [
        ("[ERROR] \tat a.B.c(B.java:1)", Level.ERROR, "\tat a.B.c(B.java:1)"),
        ("2026-08-26 10:02:21 [WARNING] Traceback", Level.WARNING, "Traceback"),
        ("2026-08-26 10:02:21 INFO  [web] served", Level.INFO, "[web] served"),
        ("2026-08-26 10:02:21 [INFO ] served", Level.INFO, "served"),
        ("ERROR: Error cloning", Level.ERROR, "ERROR: Error cloning"),
        ("F0826 10:00:31.000000       1 main.go:88] x", Level.FATAL, "main.go:88] x"),
        ('{"level":"error","msg":"x"}', Level.ERROR, '{"level":"error","msg":"x"}'),
        ("time=2026 level=warn msg=x", Level.WARNING, "time=2026 level=warn msg=x"),
        ("    at foo (a.js:1:2)", Level.NONE, "    at foo (a.js:1:2)"),
        ("information follows", Level.NONE, "information follows"),
    ],
)
def test_prefix_and_level(line: str, level: Level, text: str) -> None:
    prefix = split_prefix(line)
    assert (prefix.level, prefix.text) == (level, text)


def test_ansi_is_removed_and_offsets_are_kept() -> None:
    raw = "\x1b[1m\x1b[33m[WARNING]\x1b[0m Mod\x1b[4mule\x1b[0mNotFound \x1b]0;title\x07ok"
    mapped = strip_mapped(raw)
    assert strip(raw) == mapped.text == "[WARNING] ModuleNotFound ok"
    assert "".join(raw[offset] for offset in mapped.offsets) == mapped.text


def test_a_progress_line_shows_its_last_state() -> None:
    assert strip("\rprogress 10%\rprogress 100%\r") == "progress 100%"
    assert strip_mapped("a 1\rb 2").text == "b 2"


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("Tests run: 5, Failures: 0, Errors: 0", Weight.ORDINARY),
        ("Number of errors in tests: 0 errors", Weight.ORDINARY),
        ("Compiling error-chain v0.12", Weight.ORDINARY),
        ("plugins: timeout-2.4.0, failfast-1", Weight.ORDINARY),
        ("src/a.c:3:1: error: x", Weight.FAILURE),
        ("the server refused the connection", Weight.TROUBLE),
        ("terminate called: core dumped", Weight.CRASH),
        ("PASS suite/error.test (3 ms)", Weight.ORDINARY),
    ],
)
def test_words_of_failure(text: str, weight: Weight) -> None:
    assert weigh(text, Level.NONE) is weight


def test_a_level_below_error_weighs_less() -> None:
    assert weigh("Failed to load x", Level.INFO) is Weight.TROUBLE
    assert weigh("all is well", Level.ERROR) is Weight.FAILURE
