"""Evidence of logs: the root failure first, its echoes after it, and the parameters of `summarize_logs`."""

from __future__ import annotations

from typing import Any

import pytest

from agentloop.budget import Ledger
from agentloop.clock import SystemClock
from agentloop.errors import WarningCode
from agentloop.logs.analysis import analyse
from agentloop.logs.drafts import log_drafts
from agentloop.logs.wording import message
from agentloop.request import parse_request
from agentloop.types import Corpus, Derived, Draft, Item, SourceFile
from tests.unit.logs_material import GRADLE, MAVEN, ROOTS, log_file


def drafts_of(
    *logs: str | bytes, passing: str = "", ledger: Ledger | None = None, **params: Any
) -> list[Draft]:
    files = [log_file(log, n) for n, log in enumerate(logs)]
    twins = [log_file(passing, len(files))] if passing else []
    request = parse_request(
        {
            "task_type": "summarize_logs",
            "input_refs": [{"type": "log", "uri": "x.log"}],
            "task_params": {"query": "why?", **params},
        }
    )
    corpus = Corpus((), (*files, *twins), ())
    return log_drafts(corpus, files, request, ledger or Ledger(SystemClock()), baseline_files=twins)


def lines_of(draft: Draft) -> set[int]:
    return {n for place in draft.places for n in range(place.line_start, place.line_end + 1)}


def check_places(drafts: list[Draft], file: SourceFile) -> None:
    data = file.content.read(0, file.content.size)
    for draft in drafts:
        assert 1 <= len(draft.places) <= 4
        for place in (*draft.places, *draft.collapsed):
            assert place.line_end - place.line_start < 80
            assert place.line_start == data.count(b"\n", 0, place.byte_start) + 1
            assert place.line_end == data.count(b"\n", 0, place.byte_end - 1) + 1


@pytest.mark.parametrize("tool", list(ROOTS))
def test_the_root_failure_of_each_tool_comes_first(tool: str) -> None:
    log, root, words = ROOTS[tool]
    drafts = drafts_of(log)
    assert drafts[0].kind == "root_failure"
    assert lines_of(drafts[0]) & set(root)
    assert words in drafts[0].claim
    check_places(drafts, log_file(log))


@pytest.mark.parametrize("tool", list(ROOTS))
def test_ordinary_lines_after_the_failure_change_nothing(tool: str) -> None:
    log, root, words = ROOTS[tool]
    after = "".join(f"[INFO] step {n % 7} of the next job went well in {n} ms\n" for n in range(400))
    drafts = drafts_of(log + after)
    assert lines_of(drafts[0]) & set(root)
    assert words in drafts[0].claim


def failing_tests() -> str:
    rows = ["$ runner --all"]
    for n in range(1, 1000):
        if n == 212:
            rows += [
                "FAIL  storage/open.test :: opens",
                "    AssertionError: journal version 7",
                "        at o (o.ts:5:1)",
            ]
        elif n > 700 and n % 21 == 0:
            rows += [
                f"FAIL  suite/case{n}.test :: keeps",
                "    Error: store is closed",
                f"        at r (r.ts:{n}:7)",
            ]
        else:
            rows.append(f"PASS  suite/case{n}.test ({n % 40} ms)")
    return "\n".join([*rows, "", "     Tests  15 failed | 985 passed (1000)", "exit code 1", ""])


def test_the_first_failing_test_is_the_root_and_repeats_collapse() -> None:
    drafts = drafts_of(failing_tests())
    assert "journal version 7" in drafts[0].claim
    assert "first of 15 such failures" in drafts[0].claim
    repeats = next(draft for draft in drafts if "store is closed" in draft.claim)
    assert repeats.collapsed_count == len(repeats.collapsed) == 13
    check_places(drafts, log_file(failing_tests()))


def test_repeats_stay_apart_when_asked() -> None:
    params = {"deduplicate_repeated_lines": False, "cluster_stack_traces": False}
    drafts = drafts_of(failing_tests(), **params)
    assert all(draft.collapsed_count == 0 for draft in drafts)
    assert sum("store is closed" in draft.claim for draft in drafts) > 3


def test_the_epilogue_of_the_runner_is_not_cited() -> None:
    cited = set().union(*(lines_of(draft) for draft in drafts_of(MAVEN)))
    rows = MAVEN.split("\n")
    told = {rows[n - 1] for n in cited}
    assert not any(row.startswith(("[WS-CLEANUP]", "Finished:", "[INFO] BUILD FAILURE")) for row in told)
    assert any("Failed to execute goal" in row for row in told)


def test_what_the_passing_run_says_too_weighs_less() -> None:
    benign = "[ERROR] could not load optional module fastmath\n"
    start = "[INFO] starting\n" + benign + "[INFO] running\n"
    failing = start + "[ERROR] ledger is out of balance\n[INFO] done\n"
    passing = start + "[INFO] all balanced\n[INFO] done\n"
    alone, compared = drafts_of(failing), drafts_of(failing, passing=passing)
    assert any("fastmath" in draft.claim for draft in alone)
    assert "out of balance" in compared[0].claim
    assert not any("fastmath" in draft.claim for draft in compared)


def test_a_time_window_bounds_the_log() -> None:
    log = "".join(
        f"2026-03-01T10:{minute:02d}:00Z ERROR task {word} failed\n\tat app.Task.run(Task.java:{minute})\n"
        for minute, word in enumerate(["alpha", "beta", "gamma", "delta"])
    )
    window = {"start": "2026-03-01T10:01:00Z", "end": "2026-03-01T10:02:30Z"}
    drafts = drafts_of(log, time_window=window, deduplicate_repeated_lines=False, cluster_stack_traces=False)
    cited = set().union(*(lines_of(draft) for draft in drafts))
    assert cited == {3, 4, 5, 6}
    assert drafts[0].places[0].timestamp_start.startswith("2026-03-01T10:0")


def test_warnings_that_share_names_with_the_failure_are_told_with_their_rate() -> None:
    log = (
        "".join(f"2026-03-01T10:00:{n:02d}Z WARN pool ledger_pool nearly exhausted\n" for n in range(12))
        + "2026-03-01T10:00:30Z WARN unrelated quota missing\n"
        + "".join(f"2026-03-01T10:00:{n:02d}Z INFO served {n}\n" for n in range(31, 50))
        + "2026-03-01T10:01:00Z ERROR ledger_pool exhausted: giving up\n"
    )
    drafts = drafts_of(log)
    assert "giving up" in drafts[0].claim
    warning = next(draft for draft in drafts if draft.kind == "warning")
    assert "ledger_pool nearly exhausted" in warning.claim
    assert "12 times" in warning.claim
    assert "at most 12 a minute" in warning.claim
    assert warning.collapsed_count == 11
    assert not any("unrelated quota" in draft.claim for draft in drafts)


def test_chained_causes_are_told() -> None:
    log = (
        'Exception in thread "main" java.lang.RuntimeException: request 12 failed\n'
        "\tat app.A.main(A.java:3)\nCaused by: java.lang.IllegalStateException: pool closed\n"
        "\tat app.A.f(A.java:1)\n\t... 1 more\n"
    )
    [draft] = drafts_of(log)
    assert "request 12 failed" in draft.claim
    assert "pool closed" in draft.claim
    assert lines_of(draft) == {1, 2, 3, 4, 5}


def test_a_long_trace_is_cut_into_places_of_eighty_lines() -> None:
    frames = "".join(f"\tat app.Deep.f{n}(Deep.java:{n})\n" for n in range(500))
    [draft] = drafts_of("java.lang.StackOverflowError: too deep\n" + frames)
    assert [(p.line_start, p.line_end) for p in draft.places] == [(1, 80), (81, 160), (161, 240), (241, 320)]


def test_derived_claims_hold_no_words_of_the_log() -> None:
    for draft in drafts_of(MAVEN + GRADLE):
        assert draft.derived_claim
        for word in ("cannot", "symbol", "Store.java", "compileJava", "parses"):
            assert word not in draft.derived_claim


def test_a_command_in_a_claim_shows_no_arguments() -> None:
    log = (
        "+ curl -H 'Authorization: Bearer s3cr3t' https://x\n+ ./deploy --key=abcdef\nERROR: deploy failed\n"
    )
    told = " ".join(draft.claim for draft in drafts_of(log))
    assert "deploy failed" in told
    assert "s3cr3t" not in told
    assert "abcdef" not in told


def test_a_message_is_clipped_between_words() -> None:
    secret = "ghp_" + "x" * 60
    assert secret[:20] not in message("word " * 40 + secret, 220)
    assert message("a  b\tc") == "a b c"
    assert len(message("z" * 5000)) < 30


def test_control_characters_never_reach_a_claim() -> None:
    log = "\x1b[31mERROR\x1b[0m: disk \x1b[1mfull\x1b[0m\x07\n"
    [draft] = drafts_of(log)
    assert draft.claim.startswith("ERROR: disk full")
    assert draft.claim.isprintable()


def test_the_worst_of_several_logs_leads() -> None:
    quiet = "[INFO] a\n[WARNING] cache missing\n[INFO] b\n"
    drafts = drafts_of(quiet, MAVEN)
    assert drafts[0].kind == "root_failure"
    assert drafts[0].places[0].file == 1


def test_a_log_without_trouble_says_so() -> None:
    ledger = Ledger(SystemClock())
    assert drafts_of("[INFO] a\n[INFO] b\n", ledger=ledger) == []
    assert [code for code, _, _ in ledger.warnings] == [WarningCode.LOW_COVERAGE]
    assert drafts_of("", ledger=Ledger(SystemClock())) == []


def test_places_of_derived_text_name_items_and_characters() -> None:
    text = "ok\nERROR: disk full\nbye\n"
    derived = Derived("gzip", "1", (Item("start", 0, 9, 1, 1), Item(text, 0, 9, 1, 1)))
    file = log_file(b"\x1f\x8b" + b"x" * 7, derived=derived)
    analysis = analyse(file)
    assert analysis.root is not None
    request = parse_request(
        {
            "task_type": "summarize_logs",
            "input_refs": [{"type": "log", "uri": "x"}],
            "task_params": {"query": "q"},
        }
    )
    [draft] = log_drafts(Corpus((), (file,), ()), [file], request, Ledger(SystemClock()))
    place = draft.places[0]
    assert (
        derived.joined(place.first_item, place.last_item)[place.char_start : place.char_end]
        == "ERROR: disk full"
    )
    assert (place.byte_start, place.byte_end) == (0, 9)


def test_a_huge_log_is_read_in_part_and_counted() -> None:
    row = "2026-03-01T10:00:00Z INFO worker served request {} in {} ms, " + "x" * 60 + "\n"
    start = "".join(row.format(n, n % 9) for n in range(80_000))
    log = start + "2026-03-01T10:00:01Z ERROR pool exhausted: 64 of 64\n\tat app.P.take(P.java:1)\n" + start
    ledger = Ledger(SystemClock())
    drafts = drafts_of(log, ledger=ledger)
    assert lines_of(drafts[0]) == {80_001, 80_002}
    check_places(drafts, log_file(log))
    [counters] = ledger.counters.values()
    assert counters["log_lines"] == 160_002
    assert 0 < counters["log_lines_unread"] < 160_002


def test_equal_logs_give_equal_drafts() -> None:
    assert drafts_of(failing_tests()) == drafts_of(failing_tests())
