"""Failure blocks of a log: runs of lines that tell of one failure, with what belongs to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agentloop.logs import traces
from agentloop.logs.growth import Growth, starts
from agentloop.logs.lines import Line
from agentloop.logs.severity import Level, Weight, weigh
from agentloop.logs.templates import quick_key
from agentloop.logs.verdicts import ADVICE, COMPILE, LOOK, TEST, is_echo, says_nothing


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
    growth = Growth(lines, weights, in_trace, counts)
    blocks: list[Block] = []
    at, floor = 0, 0
    while at < len(lines):
        if not (at in in_trace or starts(lines[at], weights[at])):
            at += 1
            continue
        last = growth.last_of(at)
        first = growth.header_of(at, floor)
        blocks.append(_block(lines, weights, in_trace, first, last))
        at = floor = last + 1
    return blocks[-MAX_BLOCKS:]


def _block(
    lines: Sequence[Line], weights: Sequence[Weight], in_trace: dict[int, int], first: int, last: int
) -> Block:
    span = range(first, last + 1)
    trace = any(at in in_trace for at in span)
    telling = [at for at in span if not ADVICE.search(lines[at].text[:LOOK])]
    cause = [at for at in telling if not is_echo(lines[at].text)] or telling or list(span)
    top = max(weights[at] for at in cause)
    warned = all(lines[at].level is Level.WARNING for at in cause if weights[at] >= Weight.TROUBLE)
    if trace:
        top = max(top, Weight.TROUBLE)
    if warned and top < Weight.CRASH:
        top = min(top, Weight.TROUBLE)
    head = next((at for at in cause if weights[at] >= top), first)
    texts = [lines[at].text[:LOOK] for at in cause[:80]]
    if all(says_nothing(lines[at].text) for at in span if weights[at] >= Weight.TROUBLE):
        kind = Kind.SUMMARY
    elif any(COMPILE.search(text) for text in texts):
        kind = Kind.COMPILE_ERROR
    elif any(TEST.search(text) for text in texts):
        kind = Kind.FAILED_TEST
    else:
        kind = Kind.STACK_TRACE if trace else Kind.ERROR
    return Block(first, last, head, kind, top, trace)
