"""A question in one language about text in another: the question's words as that text may say them.

By the lexicon of the language pair where there is one, else by a shared root: `migracja` and `migration`,
`weterynarz` and `veterinarian` begin with the same sounds. Both are ways of one term beside the word as
asked, of which only the best counts in a text, so a text in the question's own language is judged as ever.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from agentloop.index import words
from agentloop.index.lexical import LexicalIndex, Term
from agentloop.index.translate import Entry, lexicon

TRANSLATED = 0.8
"""A word of the lexicon against the word as asked."""
COGNATE = 0.7
"""A word that only begins with the same sounds."""
_FORMS = 8  # inflected forms of a translation
_COGNATE_LETTERS = 5
_COGNATE_SHARE = 0.7
_SPELLINGS = {"k": "kc", "c": "ck", "w": "wv", "v": "vw", "j": "jyi", "y": "yji", "f": ("f", "ph"), "i": "iy"}
_SOUNDS = tuple(
    (re.compile(pattern), sound)
    for pattern, sound in (
        ("ph", "f"), ("th", "t"), ("qu", "kv"), ("x", "ks"), ("w", "v"), ("[sc]z|sh|ch", "s"),
        ("tion|cj[aei]", "ti"), ("[cq]", "k"), ("z", "s"), ("[jy]", "i"), (r"(.)\1", r"\1"),
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Said:
    """How a text in another language says a word: terms for the index, and all their single words."""

    terms: tuple[Term, ...] = ()
    forms: frozenset[str] = frozenset()
    known: bool = False  # a lexicon has the word


def said(
    phrase: tuple[str, ...], index: LexicalIndex, source: str, targets: Sequence[str], weight: float
) -> Said:
    """A word of the question, or words that stand side by side in it, in the other languages of the corpus.

    Args:
        source: the language of the question.
        targets: the other languages.
        weight: of the word in the question.
    """
    terms: list[Term] = []
    forms: set[str] = set()
    listed = False
    for target in targets:
        known = lexicon(source, target)
        entries = known.of(phrase) if known is not None else ()
        listed = listed or bool(entries)
        for entry in entries:
            term, found = _term(entry, index, target, weight * TRANSLATED)
            if term is not None:
                terms.append(term)
                forms |= found
        if not entries and len(phrase) == 1:
            cognates = _cognates(phrase[0], index)
            if cognates:
                terms.append(Term(tuple((word, 1.0) for word in cognates), weight * COGNATE))
                forms.update(cognates)
    return Said(tuple(terms), frozenset(forms), listed)


def _term(entry: Entry, index: LexicalIndex, target: str, weight: float) -> tuple[Term | None, set[str]]:
    """One sense as a term: its single words in the forms that the index has, and its phrases."""
    forms: dict[str, float] = {}
    phrases = []
    for words_ in entry.phrases:
        if len(words_) > 1:
            phrases.append(words_)
            continue
        plain = words.fold(words_[0])
        for form in (plain, *(f for f, _ in index.variants(words_[0], target)[:_FORMS])):
            if index.df(form):
                forms.setdefault(form, 1.0)
    if not forms and not phrases:
        return None, set()
    return Term(tuple(forms.items()), weight, tuple(phrases)), set(forms)


@lru_cache(maxsize=1 << 14)
def sounds(word: str) -> str:
    """A word by its sounds, alike in the spellings of European languages."""
    found = words.fold(word.lower())
    for pattern, sound in _SOUNDS:
        found = pattern.sub(sound, found)
    return found


def _cognates(word: str, index: LexicalIndex) -> list[str]:
    """Words of the index that begin with the same sounds, as far as most of both goes."""
    plain = words.fold(word)
    if len(plain) < _COGNATE_LETTERS or not plain.isalpha() or not plain.isascii():
        return []
    mine = sounds(plain)
    heads = {"".join(letters) for letters in product(*(_SPELLINGS.get(c, c) for c in plain[:3]))}
    found = []
    for head in sorted(heads):
        for other, _ in index.prefixed(head):
            if other != plain and other.isascii() and other.isalpha() and len(other) >= _COGNATE_LETTERS:
                theirs = sounds(other)
                shared = 0
                while shared < min(len(mine), len(theirs)) and mine[shared] == theirs[shared]:
                    shared += 1
                if shared >= max(_COGNATE_LETTERS, _COGNATE_SHARE * min(len(mine), len(theirs))):
                    found.append(other)
    return found[:_FORMS]
