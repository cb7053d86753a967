"""Words of one language for words of another, from small lexicons that come with the package.

A question in one language about text in another shares hardly a word with it. The lexicons name the same
things in two languages, by base forms; stems on both sides bring the inflected ones. They are small on
purpose: everyday, office and computing words, a few thousand a pair. Words outside of them are found by
names, numbers and shared roots, or by embeddings where an operator has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from agentloop.index.language import stemmer
from agentloop.index.polish import readings
from agentloop.index.words import fold

PAIRS = {frozenset(("polish", "english")): "polish_english.txt"}
"""Language pairs with a lexicon; the file's name gives the languages of its left and right side."""
_KEY = 3  # letters by which entries are filed; a stem is never shorter


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing: its words in the language asked for, each a phrase of one or more words in lower case."""

    phrases: tuple[tuple[str, ...], ...]


class Lexicon:
    """One direction of a language pair."""

    def __init__(self, rows: list[tuple[tuple[str, ...], Entry]], language: str) -> None:
        """Rows are the phrases of the source language (words joined by `_`), and what they mean."""
        self._forms = readings if language == "polish" else _stemmed(language)
        self._filed: dict[str, list[tuple[tuple[str, ...], Entry]]] = {}
        for phrases, entry in rows:
            for phrase in phrases:
                parts = tuple(phrase.split("_"))
                self._filed.setdefault(_key(parts[0]), []).append((parts, entry))
        self._stems: dict[str, str] = {}

    def of(self, phrase: tuple[str, ...]) -> tuple[Entry, ...]:
        """What a phrase means, for each of its senses, in the order of the lexicon; inflection is ignored.

        Where several words could be meant, those that share most letters with the phrase are.
        """
        best = 0
        found: dict[int, Entry] = {}
        for key in sorted({_key(phrase[0]), _key(phrase[0].replace("ą", "ę"))}):
            for parts, entry in self._filed.get(key, ()):
                near = self._nearness(parts, phrase) if len(parts) == len(phrase) else 0
                if near > best:
                    best, found = near, {}
                if near and near == best:
                    found.setdefault(id(entry), entry)
        return tuple(found.values())

    def _nearness(self, parts: tuple[str, ...], phrase: tuple[str, ...]) -> int:
        """Letters that two phrases share as forms of the same words; 0 where they are not."""
        total = 0
        for part, word in zip(parts, phrase, strict=True):
            shared = self._forms(part) & self._forms(word)
            if part != word and not shared:
                return 0
            alike = next((n for n, (a, b) in enumerate(zip(part, word, strict=False)) if a != b), len(part))
            total += max(map(len, shared), default=len(word)) + alike
        return total


def _stemmed(language: str) -> Callable[[str], frozenset[str]]:
    stem = stemmer(language)
    return lru_cache(maxsize=1 << 12)(lambda word: frozenset(stem([word])))


def _key(word: str) -> str:
    return fold(word)[:_KEY]


@lru_cache(maxsize=8)
def lexicon(source: str, target: str) -> Lexicon | None:
    """The lexicon from one language into another; None where there is none."""
    name = PAIRS.get(frozenset((source, target)))
    if name is None or source == target:
        return None
    text = (files("agentloop.index") / "lexicon" / name).read_text("utf-8")
    forward = name.startswith(source)
    rows = []
    for line in text.splitlines():
        left, found, right = line.lower().partition(" = ")
        if not found or line.startswith("#"):
            continue
        here, there = (left, right) if forward else (right, left)
        entry = Entry(tuple(tuple(phrase.split("_")) for phrase in there.split()))
        rows.append((tuple(here.split()), entry))
    return Lexicon(rows, source)
