"""From a question's words to the terms of a query: inflected, abbreviated, joined and side-by-side forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from agentloop.index import words
from agentloop.index.lexical import LexicalIndex, Term
from agentloop.retrieval.foreign import Said, said
from agentloop.retrieval.question import Question

PAIR_WEIGHT = 1.0
"""Two neighbouring words of the question that also stand side by side in a text, or are joined there."""
ABBREVIATED = 1.0
"""A prefix that names a file or folder (`auth` for `authentication`) against the word itself."""
_SHORTEST_ABBREVIATION = 3
_FEW_WORDS = 16
"""Longer questions say the same in several ways already: fewer forms of each word, for speed."""
_PAIR_FORMS = 2
NOTHING = Said()


@dataclass(frozen=True, slots=True)
class Asked:
    """A content word with all its forms in this corpus. `weight` includes how rare they are together."""

    word: str
    forms: frozenset[str]
    weight: float


@dataclass(frozen=True)
class Query:
    """What is searched for: terms for the index, and the words with their forms for everything after it.

    `foreign` are the forms that are in another language than the question.
    """

    terms: tuple[Term, ...]
    asked: tuple[Asked, ...]
    foreign: tuple[str, ...] = ()

    @cached_property
    def total(self) -> float:
        """Weight of all that is asked."""
        return sum(asked.weight for asked in self.asked)

    def share(self, words: Sequence[str] | frozenset[str] | set[str]) -> float:
        """Which share of the question, by weight, a set of lower-case words holds."""
        held = words if isinstance(words, (set, frozenset)) else set(words)
        total = self.total
        return sum(a.weight for a in self.asked if not a.forms.isdisjoint(held)) / total if total else 0.0


def build(
    question: Question, index: LexicalIndex, languages: Sequence[str], foreign: Sequence[str] = ()
) -> Query:
    """Terms for a question.

    Args:
        languages: whose stems are tried, the question's own first.
        foreign: languages of the corpus that the question is not in: its words are looked for in them too.
    """
    most = 12 if len(question.words) <= _FEW_WORDS else 3
    spoken = _spoken(question, index, foreign)
    own = [language for language in languages if language not in foreign]
    forms = {  # the endings of another language only for names, and for words that the lexicon lacks
        word.text: _forms(word.text, index, own if spoken[word.text].known else languages, most)
        for word in question.words
    }
    terms, asked = [], []
    for word in question.words:
        found, there = forms[word.text], spoken[word.text]
        terms.append(Term(tuple(found.items()), word.weight, others=there.terms))
        every = there.forms.union(found)
        df = min(len(index), sum(index.df(form) for form in every))
        # a word that this corpus lacks can't tell its chunks apart, but the question still asks for it
        asked.append(Asked(word.text, every, word.weight * index.idf(max(1, df))))
    terms += _pairs(question, index, forms)
    elsewhere = {form for one in spoken.values() for form in one.forms}
    return Query(tuple(terms), tuple(asked), tuple(sorted(elsewhere)))


def _spoken(question: Question, index: LexicalIndex, foreign: Sequence[str]) -> dict[str, Said]:
    """Each word in the other languages of the corpus; words that name one thing together, in both."""
    if not foreign:
        return {word.text: NOTHING for word in question.words}
    found = {
        word.text: said((word.text,), index, question.language, foreign, word.weight)
        for word in question.words
    }
    for pair in question.pairs:
        together = said(pair, index, question.language, foreign, 1.0)
        for word in pair if together.terms else ():
            if word in found:
                known = found[word]
                found[word] = Said(known.terms + together.terms, known.forms | together.forms, True)
    return found


def _forms(word: str, index: LexicalIndex, languages: Sequence[str], most: int) -> dict[str, float]:
    plain = words.fold(word)
    # what has accents is indexed without them too, so the plain form finds both spellings
    found = {plain if plain != word and index.df(plain) >= index.df(word) else word: 1.0}
    for language in languages:
        for form, _ in index.variants(word, language)[:most]:
            found.setdefault(form, 1.0)
    if word.isascii() and word.isalpha():
        for length in range(_SHORTEST_ABBREVIATION, len(word) - 2):
            if index.df(word[:length], "path"):
                found.setdefault(word[:length], ABBREVIATED)
    return found


def _pairs(question: Question, index: LexicalIndex, forms: dict[str, dict[str, float]]) -> list[Term]:
    """A term for each two neighbouring content words: `event hooks` is also `eventhook` and `event_hooks`."""
    weights = {word.text: word.weight for word in question.words}
    found = []
    for one, other in dict.fromkeys(question.pairs):
        if one not in forms or other not in forms:
            continue
        firsts = list(dict.fromkeys([one, *forms[one]]))[:_PAIR_FORMS]
        seconds = list(dict.fromkeys([other, *forms[other]]))[:_PAIR_FORMS]
        joined = tuple((a + b, 1.0) for a in firsts for b in seconds if index.df(a + b))
        phrases = tuple((a, b) for a in firsts for b in seconds if index.df(a) and index.df(b))
        if phrases or joined:
            found.append(
                Term(joined, PAIR_WEIGHT * min(weights[one], weights[other]), phrases or ((one, other),))
            )
    return found
