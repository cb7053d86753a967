"""Failure blocks of a log: runs of lines that tell of one failure, with what belongs to them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agentloop.logs import traces
from agentloop.logs.lines import Line
from agentloop.logs.severity import Level, Weight, weigh
from agentloop.logs.templates import quick_key

LOOK = 400


class Kind(StrEnum):
    """What a block is; the values are evidence kinds of `log_evidence_pack_v1`."""

    FAILED_TEST = "failed_test"
    COMPILE_ERROR = "compile_error"
    STACK_TRACE = "stack_trace"
    ERROR = "error"
    SUMMARY = "failure_summary"


@dataclass(frozen=True, slots=True)
class Block:
    """Lines `first..last` (indexes, inclusive); `head` is the line that says what failed."""

    first: int
    last: int
    head: int
    kind: Kind
    weight: Weight
    trace: bool


# How tools say that the whole run failed: the end of the story, never its cause.
TERMINAL = re.compile(
    r"BUILD FAIL|Build FAILED|Failed to execute goal|marked build as failure|^Finished: (?:FAILURE|ABORTED)"
    r"|Process completed with exit code [1-9]|^The command .{1,300} exited with [1-9]"
    r"|Your build (?:exited|has been stopped)"
    r"|Job failed|npm (?:ERR!|error) (?:code|A complete log)|make(?:\[\d+\])?: \*\*\* |ninja: build stopped"
    r"|^FAILED \((?:failures|errors)=|^=+ .{0,80}\d+ (?:failed|error).{0,120}=+$|^test result: FAILED|^FAIL\t"
    r"|^exit (?:status|code):? [1-9]|[Cc]ould not compile|FAILURE: Build failed|failed to solve|^# fail [1-9]"
    r"|^Tests?:? +\d+ failed|^Test (?:Files|Suites):? +\d+ failed|did NOT complete successfully"
    r"|error Command failed"
    r"|script returned exit code [1-9]|exited with (?:code|status) [1-9]|^error: test failed|ELIFECYCLE"
    r"|^Bailing out"
    r"|[Aa]borting due to|There were failing tests|There are test failures|^\d+ failing$|^FAILURES!$"
)
# Advice and boilerplate that follow a failure.
ADVICE = re.compile(
    r"^-> \[Help \d|^\[Help \d\]|To see the full stack trace|Re-run Maven|For more information about"
    r"|After correcting"
    r"|^\s*mvn <|^> ?Run with --|Run with --(?:stacktrace|info|debug|scan)|Get more help at"
    r"|A complete log of this run"
    r"|^\* (?:Try|Get more help)|See (?:the report|https?:)|note: run with|[Pp]lease (?:refer|see|read)"
    r"|^Sending e-?mails?"
    r"|^Some errors have detailed|^For more information about|GitHub Issue Notifier|Archiving artifacts"
    r"|/archive does not exist|Publish .{1,80} failed|^Recording test results"
)
# What a runner does after a failure: never part of it.
EPILOGUE = re.compile(
    r"^\s*(?:\[WS-CLEANUP\]|Archiving artifacts|Sending e-?mails|Recording test results|Post job cleanup"
    r"|Cleaning up"
    r"|Uploading artifacts|Running after.script|Saving cache|Finished: |Skipped archiving|Notifying"
    r"|\[Pipeline\]"
    r"|Started calculate|Email was triggered|An attempt to send|Terminate orphan process|travis_|section_)"
)
# Lines that say that the run failed and nothing about why.
BARE = re.compile(
    r"^\s*(?:={5,} (?:FAILURES|ERRORS) ={5,}|\d+ errors?|BUILD FAIL(?:URE|ED)\b.{0,40}|Finished: \w+"
    r"|Process completed with exit code \d+\.?|FAILURE: Build failed with.{0,30}"
    r"|Build step .{1,200} marked build as failure|exit (?:code|status):? \d+|\* What went wrong:"
    r"|Build FAILED\.?"
    r"|script returned exit code \d+|error Command failed with exit code \d+\.?"
    r"|Done\. Your build exited with \d+\.?|ERROR: Job failed.{0,40}|Job failed.{0,40}"
    r"|.{0,80}exited with \d+\.?|There (?:were failing tests|are test failures).{0,200})\s*$"
)
_COMMAND = re.compile(
    r"^(?:\+{1,3} [\w./-]+(?: [^+]|$)|\$ \S|> (?:git|\S+@\d)|\[command\]|##\[(?:group|command)\]"
    r"|\[Pipeline\])"
)
_SUMMARY_LIST = re.compile(
    r"^(?:FAILED|ERROR) \S+::|short test summary|^Results ?:|^(?:Failed tests|Tests in error|Failures"
    r"|Errors) ?:"
    r"|^Tests run: .{0,60}(?:Failures|Errors): [1-9]|^=+ .{0,80}(?:failed|error)"
    r"|\d+ tests? completed, \d+ failed|^failures:$"
    r"|^(?:test )?\S.{0,200} \.\.\. (?:FAILED|FAIL|ERROR|failed)$|^\S+::\S.{0,200} (?:FAILED|ERROR)\b"
    r"|^FAILED \("
    r"|[Cc]ould not compile|^COMPILATION ERROR ?:?\s*$|^Reactor Summary|^> Task \S+ FAILED"
)
_TEST = re.compile(
    r"^\s*(?:FAIL(?:ED)?\b|--- FAIL|not ok \d|● |✗|✘|✖|×)|<<< (?:FAILURE|ERROR)!|\bFAILED\s*$|^E {2,}"
    r"|AssertionError"
    r"|AssertionFailed|ComparisonFailure|^_{3,} .{1,200} _{3,}$|^(?:FAIL|ERROR): test"
    r"|^---- .{1,200} std(?:out|err) ----"
    r"|^Failed asserting|[Ee]xpected.{1,120}(?:but|to (?:be|equal))|Tests run: .{0,60}(?:Failures"
    r"|Errors): [1-9]"
)
_COMPILE = re.compile(
    r":\d+(?::\d+)?:? (?:fatal )?error\b|:\[\d+,\d+\]|error TS\d+|error\[E\d+\]|cannot find symbol"
    r"|COMPILATION ERROR"
    r"|Compilation (?:failure|failed)|undefined reference|SyntaxError|\(\d+,\d+\): error |syntax error"
    r"|\.\w{1,4}:\d+: error"
    r"|^# [\w./-]+(?: \[[\w./-]+\])?$|[Ee]rror: .{1,120} redeclared|ld returned \d|Undefined reference"
)
_HEADER = re.compile(r"^=== RUN |^_{3,} .{1,200} _{3,}$|^---- .{1,200} ----$|^(?:FAIL|ERROR): |^● ")
_CARET = re.compile(r"^\s*\|?\s*\^[~^]*\s*$")
_RULER = re.compile(r"^\s*[-=_*~#.]{4,}\s*$")
_JOIN_BLANKS = 2  # blank lines or rulers that a block spans
_UNPREFIXED = 40  # indented or unprefixed lines in a row that continue an entry
RARE = 2  # times that a line may stand in the log to continue an entry without a prefix or indentation
_HEADER_LOOK = 40  # lines above the first error in which a test's header stands
MAX_BLOCKS = 4000


def weights_of(lines: Sequence[Line]) -> list[Weight]:
    """The weight of each line; equal messages (but for digits other than 0) are judged once."""
    ones = {ord(digit): "1" for digit in "23456789"}
    known: dict[tuple[str, Level], Weight] = {}
    weights: list[Weight] = []
    for line in lines:
        key = (line.text[:LOOK].translate(ones), line.level)
        found = known.get(key)
        if found is None:
            found = weigh(line.text, line.level)
            if len(known) < 100_000:
                known[key] = found
        weights.append(found)
    return weights


def trace_spans(lines: Sequence[Line]) -> list[tuple[int, int]]:
    """Index spans of the stack traces, in order, not overlapping."""
    texts = [line.text[:LOOK] for line in lines]
    spans: list[tuple[int, int]] = []
    at = 0
    while at < len(texts):
        text = texts[at]
        if _may_start(text) and (traces.FRAME.match(text) or traces.JOINT.match(text)):
            first, last = traces.grow(texts, at)
            first = max(first, spans[-1][1] + 1 if spans else 0)
            if last > first:
                spans.append((first, last))
                at = last
        at += 1
    return spans


def test_reports(lines: Sequence[Line]) -> list[tuple[int, int]]:
    """Index spans of pytest's reports: from a test's name between rulers to the next ruler."""
    spans: list[tuple[int, int]] = []
    start = -1
    for at, line in enumerate(lines):
        if line.text[:3] not in ("___", "===") or not traces.REPORT.match(line.text[:LOOK]):
            continue
        if start >= 0:
            spans.append((start, at - 1))
        start = at if line.text[:3] == "___" else -1
    return spans


def _may_start(text: str) -> bool:
    """A cheap look before the patterns of frames."""
    return "at " in text or "Trace" in text or "File " in text or "goroutine" in text or "panic" in text or (
        "Caused" in text or ".go:" in text or "from " in text or "#0" in text
    )  # fmt: skip


def find_blocks(lines: Sequence[Line], weights: Sequence[Weight]) -> list[Block]:
    """The failure blocks in order. At most `MAX_BLOCKS`, the last ones where there are more."""
    spans = sorted([*test_reports(lines), *trace_spans(lines)])
    in_trace: dict[int, int] = {}
    for first, last in spans:
        for at in range(first, last + 1):
            in_trace.setdefault(at, last)
    prefixed = sum(line.prefixed for line in lines) > len(lines) / 2
    counts = Counter(quick_key(line.text) for line in lines) if prefixed else Counter[str]()
    blocks: list[Block] = []
    at, floor = 0, 0
    while at < len(lines):
        if not (at in in_trace or _starts(lines[at], weights[at])):
            at += 1
            continue
        last = _extend(lines, weights, in_trace, at, counts)
        first = _with_header(lines, at, floor)
        blocks.append(_block(lines, weights, in_trace, first, last))
        at = floor = last + 1
    return blocks[-MAX_BLOCKS:]


def _starts(line: Line, weight: Weight) -> bool:
    """Whether a line makes or goes on with a block; a level below error must say more than "failed"."""
    if line.level is Level.WARNING:
        return weight >= Weight.FAILURE
    return weight >= Weight.TROUBLE


def _extend(
    lines: Sequence[Line], weights: Sequence[Weight], in_trace: dict[int, int], at: int, counts: Counter[str]
) -> int:
    """The last line of the block that starts at `at`.

    `counts` of the lines' keys are given where most lines have a prefix: there a rare line without one
    continues the entry before it.
    """
    last = in_trace.get(at, at)
    loose = blanks = 0
    ahead = last + 1
    while ahead < len(lines):
        line = lines[ahead]
        text = line.text
        if EPILOGUE.match(text) or _COMMAND.match(text) or _starts_report(text, first=last == at):
            break
        if ahead in in_trace:
            last = in_trace[ahead]
            loose = blanks = 0
        elif blanks and last > at and _sums_up(text):
            break  # the run's summary is a block of its own
        elif _starts(line, weights[ahead]) and not (line.level is Level.INFO and BARE.match(text)):
            last, loose, blanks = ahead, 0, 0
        elif not text.strip() or _RULER.match(text):
            blanks += 1
            if blanks > _JOIN_BLANKS:
                break
        elif ahead + 1 < len(lines) and _CARET.match(lines[ahead + 1].text):
            last = ahead + 1
        elif line.level in (Level.INFO, Level.DEBUG):
            break
        elif text[0] in " \t|" or (counts and not line.prefixed and counts[quick_key(text)] <= RARE):
            loose += 1
            if loose > _UNPREFIXED or (blanks and not _goes_on(lines, at, last)):
                break
            last, blanks = ahead, 0
        else:
            break
        ahead = max(ahead, last) + 1 if ahead in in_trace else ahead + 1
    return last


def _starts_report(text: str, *, first: bool) -> bool:
    """Whether the next test's report begins here: a title between rulers, or a ruler after other lines."""
    found = traces.REPORT.match(text[:LOOK]) is not None and not _sums_up(text)
    return found and (not first or text.startswith("___"))


def _goes_on(lines: Sequence[Line], at: int, last: int) -> bool:
    """Whether a block reaches over a blank line: it is indented (jest, pytest), or announces more."""
    text = lines[last].text
    if text.rstrip().endswith(":"):
        return True
    return last > at and text[:1] in (" ", "\t") and not traces.FRAME.match(text)


def _with_header(lines: Sequence[Line], at: int, floor: int) -> int:
    """The header above an error (a test's name between rulers), over the code that stands between."""
    for back in range(1, _HEADER_LOOK + 1):
        above = at - back
        if above < floor:
            break
        text = lines[above].text
        if _HEADER.match(text):
            return above
        if text.strip() and text[0] not in " \t>E":
            break
    return at


def _block(
    lines: Sequence[Line], weights: Sequence[Weight], in_trace: dict[int, int], first: int, last: int
) -> Block:
    span = range(first, last + 1)
    trace = any(at in in_trace for at in span)
    telling = [at for at in span if not ADVICE.search(lines[at].text[:LOOK])]
    cause = [at for at in telling if not _is_echo(lines[at])] or telling or list(span)
    top = max(weights[at] for at in cause)
    warned = all(lines[at].level is Level.WARNING for at in cause if weights[at] >= Weight.TROUBLE)
    if trace:
        top = max(top, Weight.TROUBLE)
    if warned and top < Weight.CRASH:
        top = min(top, Weight.TROUBLE)
    head = next((at for at in cause if weights[at] >= top), first)
    texts = [lines[at].text[:LOOK] for at in cause[:80]]
    if all(_says_nothing(lines[at]) for at in span if weights[at] >= Weight.TROUBLE):
        kind = Kind.SUMMARY
    elif any(_COMPILE.search(text) for text in texts):
        kind = Kind.COMPILE_ERROR
    elif any(_TEST.search(text) for text in texts):
        kind = Kind.FAILED_TEST
    else:
        kind = Kind.STACK_TRACE if trace else Kind.ERROR
    return Block(first, last, head, kind, top, trace)


def _sums_up(text: str) -> bool:
    told = TERMINAL.search(text[:LOOK]) or _SUMMARY_LIST.search(text[:LOOK])
    return text[:1] not in " \t" and told is not None


def _says_nothing(line: Line) -> bool:
    text = line.text[:LOOK]
    return bool(BARE.match(text) or ADVICE.search(text) or _SUMMARY_LIST.search(text)) or not text.strip()


def _is_echo(line: Line) -> bool:
    text = line.text[:LOOK]
    if text.startswith("Failed to execute goal"):
        return False  # Maven's last word names the reason
    told = TERMINAL.search(text) or ADVICE.search(text) or _SUMMARY_LIST.search(text)
    return told is not None or not text.strip()
