"""Claims about log chunks in an answer to a question: the decisive line, its severity, what follows it."""

from __future__ import annotations

import re

from agentloop.compress.region import Region, place_of
from agentloop.compress.terms import Question
from agentloop.compress.wording import Claim, clip, one_line
from agentloop.logs.ansi import strip
from agentloop.sources.documents.spans import PACKED_TEXT
from agentloop.types import Corpus

# Words that a failing tool prints, in falling order of how decisive a line with them is.
_SEVERITY = (
    (re.compile(r"\b(?:fatal|panic|segfault|core dumped|out of memory|oom-kill)", re.IGNORECASE), 3.0,
     "fatal"),
    (re.compile(r"\b\w*(?:error|exception|failure)\b|\bfailed\b|✗|\bE\s{2,}", re.IGNORECASE), 2.0, "error"),
    (re.compile(r"\b(?:cannot|can't|unable|denied|refused|timed? ?out|not found|no such|missing|aborted|"
                r"killed)\b", re.IGNORECASE), 1.5, "error"),
    (re.compile(r"\bwarn(?:ing)?\b", re.IGNORECASE), 0.5, "warning"),
)  # fmt: skip
_ASKS_FAILURE = re.compile(
    r"\b(?:why|fail\w*|error\w*|crash\w*|broke\w*|wrong|cause[sd]?|exception|abort\w*|stop\w*|problem)\b|"
    r"\b(?:dlaczego|czemu|błąd|awari\w*|warum|fehler\w*|pourquoi|erreur\w*|por qué|fall[oó]|"
    r"почему|ошибк\w*)\b|"
    r"왜|なぜ|为什么|為什麼",
    re.IGNORECASE,
)
_CLASS = re.compile(r"\b(?:[A-Z]\w+)?(?:Error|Exception|Failure|Panic|Timeout)\b")
MAX_LINE_CHARS = 260
BEFORE, AFTER = 2, 6  # lines of context that the decisive place keeps


def severity(text: str) -> tuple[float, str]:
    """How decisive a line's own words are, and their name; 0 and "" for an ordinary line."""
    for pattern, weight, name in _SEVERITY:
        if pattern.search(text):
            return weight, name
    return 0.0, ""


def log_claim(region: Region, corpus: Corpus, question: Question, asked: str) -> Claim | None:
    """The line that answers best, by the question's terms and, where a failure is asked for, severity."""
    texts = [strip(line.text) for line in region.lines]
    scale = 1.0 if _ASKS_FAILURE.search(asked) else 0.3
    unit = max(question.weights.values(), default=1.0)
    scored = [
        (question.score(text) + scale * unit * severity(text)[0] / 2, -n, n)
        for n, text in enumerate(texts)
        if text.strip()
    ]
    if not scored:
        return None
    best = max(scored)[2]
    told = question.held(texts[best])
    near = [n for n in range(max(0, best - BEFORE), min(len(texts), best + AFTER + 1)) if n != best]
    gains = [
        (question.weight(question.held(texts[n]) - told) + scale * severity(texts[n])[0] / 4, -n, n)
        for n in near
        if texts[n].strip()
    ]
    lines = [best]
    if gains and max(gains)[0] > 0:
        lines = sorted([best, max(gains)[2]])
    derived = corpus.files[region.file].derived
    # the lines of packed text are all at the header of their file
    packed = derived is not None and derived.extractor in PACKED_TEXT
    room = MAX_LINE_CHARS // len(lines)
    labels = ["" if packed else f"L{region.lines[n].number}: " for n in lines]
    text = " | ".join(f"{a}{clip(one_line(texts[n]), room)}" for a, n in zip(labels, lines, strict=True))
    first, last = _bounds(region, texts, lines)
    level = severity(texts[best])[1]
    kind = "log_error" if level in ("fatal", "error") else "log_event"
    classes = sorted({m.group() for n in range(first, last + 1) for m in _CLASS.finditer(texts[n])})
    summary = f"{level or 'log'} line, {last - first + 1} lines"
    if classes:
        summary += f", {', '.join(classes[:3])}"
    return Claim(kind, text, (place_of(corpus, region, first, last),), summary)


def _bounds(region: Region, texts: list[str], lines: list[int]) -> tuple[int, int]:
    """The told lines with a little context; indented lines around them (a trace) stay whole."""
    first, last = min(lines), max(lines)
    while first > 0 and first > min(lines) - 40 and texts[first][:1] in (" ", "\t"):
        first -= 1
    while last + 1 < len(texts) and last < max(lines) + 30 and texts[last + 1][:1] in (" ", "\t"):
        last += 1
    return max(0, min(first, min(lines) - 1)), min(len(region.lines) - 1, max(last, max(lines) + 2))
