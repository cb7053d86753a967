"""The words of claims: one line, bounded, and for protected inputs free of the source's own sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentloop.types import Place, Symbol

_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"\w+")
WITHHELD = "text withheld: it reads as instructions to a model"
MAX_RUN = 5  # DESIGN: protected claims never hold more words of the source in a row


@dataclass(frozen=True, slots=True)
class Claim:
    """What one candidate shows: kind, claim, places (decisive first), and the claim for protected inputs."""

    kind: str
    text: str
    places: tuple[Place, ...]
    derived: str
    symbol: Symbol | None = None
    by_source: bool = True


def one_line(text: str) -> str:
    """`text` with runs of white space as single blanks."""
    return _SPACE.sub(" ", text).strip()


def clip(text: str, chars: int) -> str:
    """At most `chars` characters, cut at a word with an ellipsis."""
    if len(text) <= chars:
        return text
    cut = text[: max(1, chars - 1)]
    space = cut.rfind(" ")
    if space > chars // 2:
        cut = cut[:space]
    return cut.rstrip(" ,;:(") + "…"


def longest_run(claim: str, source: str) -> int:
    """Most words in a row that a claim shares with the source, case and punctuation aside."""
    mine = [w.casefold() for w in _WORD.findall(claim)]
    theirs = [w.casefold() for w in _WORD.findall(source)]
    best = 0
    previous = [0] * (len(theirs) + 1)
    for word in mine:
        current = [0] * (len(theirs) + 1)
        for n, other in enumerate(theirs, 1):
            if word == other:
                current[n] = previous[n - 1] + 1
                best = max(best, current[n])
        previous = current
    return best
