"""The words of a claim about a log: messages without control characters, clipped, with counts and times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agentloop.logs import traces
from agentloop.logs.failures import Block, Kind
from agentloop.logs.lines import Line
from agentloop.logs.severity import Level, Weight

MESSAGE_CHARS = 220
DETAIL_CHARS = 200
WORD_CHARS = 160  # a longer word (a blob, a data URL) shows its first `WORD_HEAD` characters
WORD_HEAD = 16
_ASSERTION = re.compile(
    r"^\s*(?:E {2,}\S|AssertionError|assert(?:ion)?\b|Expected|Received|expected|actual|Caused by: "
    r"|panicked|\w[\w.]*(?:Error|Exception): )"
)
_COUNTERPART = re.compile(
    r"^\s*(?:Received|Actual|actual|Got|got|but was|right)\b ?:"
)  # beside what was expected
_TITLE = re.compile(r"^_{3,} (?P<name>.+?) _{3,}$")
_ERROR_LINE = re.compile(r"^E {2,}\S")
_RAISED = re.compile(r"^ {2,}[\w.]+(?:Error|Exception|Warning|Failed|Exit)?: ")
_CLASS = re.compile(r"\b(?:[A-Z]\w{0,80})?(?:Error|Exception|Failure|Panic|Timeout)\b")


def message(text: str, limit: int = MESSAGE_CHARS) -> str:
    """One line of a log, white space collapsed, clipped between words.

    No word is cut but a very long one, and that near its start: half a secret is not recognised as one.
    """
    words = text.split()
    flat = " ".join(word if len(word) <= WORD_CHARS else word[:WORD_HEAD] + "…" for word in words)
    if len(flat) <= limit:
        return flat
    cut = flat.rfind(" ", 0, limit)
    return flat[: cut if cut > 0 else WORD_HEAD] + "…"


def told(lines: Sequence[Line], block: Block) -> tuple[str, str]:
    """The message of a block's head, and the line that says most beside it: assertion, deepest cause."""
    head = lines[block.head]
    span = range(block.head + 1, min(block.last + 1, block.head + 400))
    detail = ""
    causes = [at for at in span if lines[at].text.lstrip().startswith("Caused by: ")]
    report = _pytest_report(lines, block)
    if report is not None:
        return report
    if "Traceback (most recent" in head.text:
        named = [at for at in range(block.head, block.last + 1) if traces.HEAD.match(lines[at].text.strip())]
        named = [at for at in named if "Traceback" not in lines[at].text]
        if named:
            return message(lines[named[-1]].text), message(
                _last_frame(lines, block.head, named[-1]), DETAIL_CHARS
            )
    if causes:
        detail = lines[causes[-1]].text
    else:
        asserted = [
            at for at in span if _ASSERTION.match(lines[at].text) and not traces.FRAME.match(lines[at].text)
        ]
        plain = [at for at in span if lines[at].text.strip() and not traces.FRAME.match(lines[at].text)]
        pick = asserted[:1] or plain[:1]
        detail = lines[pick[0]].text if pick else ""
        if pick and pick[0] < block.last and _COUNTERPART.match(lines[pick[0] + 1].text):
            detail = f"{detail.strip()} {lines[pick[0] + 1].text.strip()}"
    return message(head.text), message(detail, DETAIL_CHARS)


def _pytest_report(lines: Sequence[Line], block: Block) -> tuple[str, str] | None:
    """Test name and first error line, then the last error line where it is another."""
    title = _TITLE.match(lines[block.first].text[:MESSAGE_CHARS].strip())
    span = range(block.first, block.last + 1)
    errors = [lines[at].text[1:] for at in span if _ERROR_LINE.match(lines[at].text)]
    if title is None or not errors:
        return None
    raised = [text for text in errors if _RAISED.match(text)]
    last = raised[-1] if len(raised) > 1 else errors[1] if len(errors) > 1 else ""
    return message(f"{title['name']}: {errors[0].strip()}"), message(last, DETAIL_CHARS)


def _last_frame(lines: Sequence[Line], first: int, last: int) -> str:
    for at in range(last, first, -1):
        if traces.FRAME.match(lines[at].text):
            return lines[at].text
    return ""


def classes(lines: Sequence[Line], block: Block) -> list[str]:
    """Names of the error classes in a block, in order of appearance, at most three."""
    names = [m.group() for at in range(block.first, min(block.last + 1, block.first + 200))
             for m in _CLASS.finditer(lines[at].text[:400])]  # fmt: skip
    return list(dict.fromkeys(names))[:3]


def severity(level: Level, weight: Weight) -> str:
    """The severity that a claim names."""
    if level is Level.FATAL or weight is Weight.CRASH:
        return "fatal"
    return "error" if weight >= Weight.TROUBLE and level is not Level.WARNING else "warning"


def times(lines: Sequence[Line], members: Iterable[int]) -> list[str]:
    """The first and the last time of some lines, as one phrase; nothing where they have none."""
    stamps = [stamp for at in members if (stamp := lines[at].stamp) is not None]
    if not stamps:
        return []
    first, last = min(stamps, key=lambda s: s.seconds).text, max(stamps, key=lambda s: s.seconds).text
    return [first if first == last else f"{first} to {last}"]


def noun(kind: Kind) -> str:
    """A kind in words."""
    return str(kind).replace("_", " ")
