"""What `search_data` and `read_data` show of a chunk: bounded text that agrees with the lines it names."""

from __future__ import annotations

import re
from collections.abc import Sequence

SNIPPET_CHARS = 320
READ_CHARS = 6_000
_HEAD = 4
_LONG_HEAD = 6
_WORD = re.compile(r"[^\W_]+")


def centred(text: str, wanted: Sequence[str]) -> tuple[int, int]:
    """The bounds of the window of `SNIPPET_CHARS` that holds the most different wanted words.

    It begins and ends at line ends where those are near, else at word ends.
    """
    if len(text) <= SNIPPET_CHARS:
        return 0, len(text)
    places = _places(text, wanted)
    if not places:
        return _trim(text, 0)
    best, best_at, low = -1, 0, 0
    for high, (_, end, _) in enumerate(places):
        while end - places[low][0] > SNIPPET_CHARS and low < high:
            low += 1
        kinds = len({places[n][2] for n in range(low, high + 1)})
        if kinds > best:
            best, best_at = kinds, (places[low][0] + end) // 2
    return _trim(text, best_at - SNIPPET_CHARS // 2)


def _places(text: str, wanted: Sequence[str]) -> list[tuple[int, int, int]]:
    """Start, end and which wanted word, for the words of the text that share a head with one."""
    heads: dict[str, int] = {}
    for kind, word in enumerate(wanted):
        heads.setdefault(_head(word.lower()), kind)
    found = []
    for match in _WORD.finditer(text.lower()):
        kind = heads.get(_head(match.group()), -1)
        if kind >= 0:
            found.append((match.start(), match.end(), kind))
    return found


def _head(word: str) -> str:
    """What inflected forms share: all but the last three letters, four at least."""
    return word if len(word) <= _HEAD else word[: max(_HEAD, len(word) - 3)][:_LONG_HEAD]


def _trim(text: str, start: int) -> tuple[int, int]:
    start = max(0, min(start, len(text) - SNIPPET_CHARS))
    end = min(len(text), start + SNIPPET_CHARS)
    if start:
        line = text.find("\n", start, start + SNIPPET_CHARS // 3)
        space = text.find(" ", start, start + 24)
        start = line + 1 if line >= 0 else space + 1 if space >= 0 else start
    if end < len(text):
        line = text.rfind("\n", end - SNIPPET_CHARS // 3, end)
        space = text.rfind(" ", end - 24, end)
        end = line if line > start else space if space > start else end
    return start, end
