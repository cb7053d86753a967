"""What of the question a text holds: light matching for choosing sentences and lines, not for retrieval."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
# endings that inflect without changing what a word is about; longest first
_ENDINGS = ("ations", "ation", "ingly", "ments", "ment", "ings", "ions", "ing", "ion", "ies", "ied", "ers",
            "ed", "er", "es", "ly", "s", "e", "y")  # fmt: skip
_STOP_WORDS = (
    "a an and any are as at be been but by can could did do does for from had has have he her his how i "
    "if in into is it its me my no not of on or our she should so some than that the their them then "
    "there these they this those to up use used was we were what when where which who whom whose why "
    "will with would you your gdzie jak jaki jaka jakie kiedy kto który która które co czy dlaczego ile "
    "jest są w z na do i o od po za się nie to"
)
_STOP = frozenset(_STOP_WORDS.split())
_NUMERIC = re.compile(
    r"\bhow (?:many|much|long|often|old|big|large|far|fast)\b|\bwhen\b|\bwhat (?:time|year|date|version|port|"
    r"number|size|limit|percentage|age|day|month)\b|\bwhich (?:year|line|version|port|number|day|month)\b|"
    r"\b(?:timeout|limit|maximum|minimum|default|period)\b|\bile\b|\bkiedy\b|\bwie (?:viele?|lange|oft)\b|"
    r"\bwann\b|\bcombien\b|\bquand\b|\bcu[aá]nt[oa]s?\b|\bcu[aá]ndo\b|며칠|몇|언제|얼마|何|いつ|いくら|几|幾|多少|多久",
    re.IGNORECASE,
)
DIGITS = re.compile(r"\d")


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """A word's stem: case-folded, common English endings off; other words lose their last letters at most."""
    word = unicodedata.normalize("NFKC", word).casefold()
    if len(word) <= 3 or any(c.isdigit() for c in word):
        return word
    if word.isascii():
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                return word[: -len(ending)]
        return word
    return word[: max(4, len(word) - 2)]


def stems(text: str) -> list[str]:
    """Stems of a text in order: whole words, parts of camelCase, and pairs of CJK characters."""
    found: list[str] = []
    for word in _WORD.findall(text):
        found += _word_stems(word)
    return found


@lru_cache(maxsize=2048)  # candidates are weighed, claimed and judged
def stem_set(text: str) -> frozenset[str]:
    """The different stems of a text."""
    return frozenset(stems(text))


@lru_cache(maxsize=1 << 16)
def _word_stems(word: str) -> tuple[str, ...]:
    """The stems of one word."""
    cjk = _CJK.search(word)
    if cjk:
        run = cjk.group()
        return tuple(run[i : i + 2] for i in range(max(1, len(run) - 1)))
    parts = _CAMEL.split(word) if not word.islower() else [word]
    if len(parts) > 1:
        return (stem(word), *(stem(part) for part in parts))
    return (stem(word),)


@dataclass(frozen=True, slots=True)
class Question:
    """The question as weights: stem -> how much a text gains by holding it. `numeric` asks for a figure."""

    weights: dict[str, float]
    numeric: bool

    def held(self, text: str) -> frozenset[str]:
        """The question's stems that a text holds."""
        return frozenset(self.weights.keys() & stem_set(text))

    def weight(self, held: Iterable[str]) -> float:
        """Summed weight of stems."""
        return sum(self.weights[s] for s in sorted(held))

    @property
    def total(self) -> float:
        """Weight of all of the question."""
        return sum(self.weights.values())

    def score(self, text: str, covered: frozenset[str] = frozenset()) -> float:
        """How much a sentence or line answers: weight of the stems that it adds to those covered.

        A figure counts as much as a common term where the question asks for one, and a tenth of that
        elsewhere: facts have figures more often than filler has.
        """
        gain = self.weight(self.held(text) - covered)
        if DIGITS.search(text):
            gain += 1.0 if self.numeric else 0.1
        return gain


def profile(question: str, texts: Sequence[str]) -> Question:
    """The question's content stems, weighted by how few of the candidate texts hold them.

    The weight is the BM25 inverse document frequency (Robertson and Spärck Jones) over the candidates.
    """
    wanted = [s for s in dict.fromkeys(stems(question)) if s not in _STOP]
    wanted = wanted or list(dict.fromkeys(stems(question)))
    held = [stem_set(text) for text in texts]
    n = len(held)
    weights = {}
    for s in wanted[:200]:
        df = sum(s in h for h in held)
        weights[s] = math.log(1 + (n - df + 0.5) / (df + 0.5))
    return Question(weights, bool(_NUMERIC.search(question)))
