"""Claims about data files (the key path and the line with the value) and diffs (file and changed line)."""

from __future__ import annotations

import re

from agentloop.compress.code import block_around, decisive_line
from agentloop.compress.region import Region, place_of
from agentloop.compress.terms import Question
from agentloop.compress.wording import Claim, one_line
from agentloop.types import Corpus

_SECTION = re.compile(r"^\s*\[{1,2}([^\]\[]+)\]{1,2}\s*$")
_KEY = re.compile(r"^\s*-?\s*[\"']?([\w.$/@-]+)[\"']?\s*[:=]\s*[\[{>|]?\s*$")
MAX_DEPTH = 6


def data_claim(region: Region, corpus: Corpus, question: Question) -> Claim | None:
    """Key path and decisive line of a YAML, JSON, TOML or INI region; a table row keeps its header."""
    best = decisive_line(region, question, frozenset(), skip=frozenset())
    if best is None:
        best = next((n for n, line in enumerate(region.lines) if line.text.strip()), None)
    if best is None:
        return None
    line = region.lines[best]
    path = key_path(region, best)
    text = f"L{line.number}: {one_line(line.text)}"
    if path:
        text = f"{path} > {text}"
    first, last = block_around(region, best, 10)
    derived = f"data entry, depth {path.count('.') + 1 if path else 0}, {last - first + 1} lines"
    return Claim("data", text, (place_of(corpus, region, first, last),), derived)


def key_path(region: Region, line: int) -> str:
    """Keys over a line by indentation, or its `[section]`, joined with dots."""
    indent = _indent(region.lines[line].text)
    path: list[str] = []
    for n in range(line - 1, -1, -1):
        text = region.lines[n].text
        section = _SECTION.match(text)
        if section:
            path.append(section.group(1).strip())
            break
        key = _KEY.match(text)
        if key and _indent(text) < indent:
            indent = _indent(text)
            path.append(key.group(1))
            if len(path) == MAX_DEPTH:
                break
    return ".".join(reversed(path))


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def diff_claim(region: Region, corpus: Corpus, question: Question) -> Claim | None:
    """The changed file and the hunk's lines that answer."""
    best = max(
        range(len(region.lines)),
        key=lambda n: (question.score(region.lines[n].text) + (region.lines[n].text[:1] in "+-") * 0.5, -n),
    )
    if not region.lines[best].text.strip():
        return None
    first = next((n for n in range(best, -1, -1) if region.lines[n].text.startswith("@@")), max(0, best - 8))
    target = next(
        (region.lines[n].text[4:] for n in range(best, -1, -1) if region.lines[n].text.startswith("+++ ")), ""
    )
    last = next(
        (
            n - 1
            for n in range(best + 1, len(region.lines))
            if region.lines[n].text.startswith(("@@", "diff "))
        ),
        min(len(region.lines) - 1, best + 12),
    )
    lead = f"{target.removeprefix('b/')}: " if target else ""
    text = f"{lead}L{region.lines[best].number}: {one_line(region.lines[best].text)}"
    added = sum(line.text.startswith("+") for line in region.lines[first : last + 1])
    removed = sum(line.text.startswith("-") for line in region.lines[first : last + 1])
    place = place_of(corpus, region, first, last)
    return Claim("change", text, (place,), f"diff hunk, {added} lines added, {removed} removed")
