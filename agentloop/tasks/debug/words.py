"""The words of tests as a spectrum: words that failing tests hold and passing tests do not name the fault.

A test that calls `format(sql, reindent=True)` speaks of the `ReindentFilter` that no call in it reaches by
name. For each word of a function's name and of its class Ochiai's coefficient over the tests that hold the
word is taken; rare words of the code count for more.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

LEAST = 3  # characters of a word
_NAME = re.compile(r"[A-Za-z_]\w+")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_COMMON = frozenset(
    {"test", "self", "assert", "init", "get", "set", "the", "for", "and", "not", "none", "true", "false"}
)


def words_of(name: str) -> frozenset[str]:
    """The lower-case words of a name in camelCase or snake_case, and of two or three neighbours joined."""
    parts = [word.lower() for word in _WORDS.findall(name)]
    joined = {"".join(parts[n : n + size]) for size in (1, 2, 3) for n in range(len(parts) - size + 1)}
    return frozenset(w for w in joined if len(w) >= LEAST and w not in _COMMON)


def text_words(text: str) -> frozenset[str]:
    """The words of all names in a piece of code."""
    return frozenset(word for name in set(_NAME.findall(text)) for word in words_of(name))


class WordSpectrum:
    """Ochiai's coefficient of words over tests."""

    def __init__(self, failing: Sequence[frozenset[str]], passing: Sequence[frozenset[str]]) -> None:
        self._tests = max(1, len(failing))
        self._failing = Counter(word for words in failing for word in words)
        self._passing = Counter(word for words in passing for word in words)

    def ochiai(self, word: str) -> float:
        """0 for a word of passing tests only, 1 for one that all failing tests hold and no other."""
        held = self._failing[word]
        return held / math.sqrt(self._tests * (held + self._passing[word])) if held else 0.0

    def score(self, words: Iterable[str], weights: dict[str, float]) -> float:
        """The weighted mean of a name's words, 0..1."""
        found = [(weights.get(word, 1.0), self.ochiai(word)) for word in sorted(words)]
        total = sum(weight for weight, _ in found)
        return sum(weight * value for weight, value in found) / total if total else 0.0


def rarity(names: Sequence[frozenset[str]]) -> dict[str, float]:
    """How rare each word is among the names of functions, as an inverse document frequency."""
    counted = Counter(word for words in names for word in words)
    return {word: math.log(1 + len(names) / count) for word, count in counted.items()}
