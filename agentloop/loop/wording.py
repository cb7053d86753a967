"""What the built-in planner reads from a question and from passages: terms, names, identifiers, paths.

Only shapes of words are used, no statistics of a corpus: the planner knows what a model would know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"_*[^\W_]\w*(?:['’.-][^\W_]\w*)*")
_PART = re.compile(r"[^\W_]+")
_CODE_WORD = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|->|-)\w+)*(?:\(\))?")  # one match a word: linear
_FORMS = (
    re.compile(r"\w{2,}(?:(?:\.|::|->)\w{2,})+"),  # os.path, A::bc
    re.compile(r"\w*_\w+"),  # snake_case, _x, UPPER_CASE
    re.compile(r"[a-z]+[a-z0-9]*[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*"),  # camelCase, PascalCase
    re.compile(
        r"[A-Za-z]\w{0,12}-\d[\w-]*|[A-Z]+-[A-Z]*\d[\w-]*|[A-Z]+\d{2,}\w*"
    ),  # worker-3, RULE-A002, E0308
)
MAX_NAME_CHARS = 200
MAX_INFLECTED = 40  # longer words (hashes, encoded data) have no inflections
_QUOTED = re.compile(r'"([^"\n]{3,200})"|“([^”\n]{3,200})”|`([^`\n]{2,200})`|«([^»\n]{3,200})»')
_PATH_WORD = re.compile(r"[\w./@+-]+")
_FILE_NAME = re.compile(r"[\w@+-][\w.@+-]*\.[A-Za-z]{1,5}")
_STARTS = re.compile(r"(?:^|[.!?:…]['\"”)]*\s+|\n\s*|[-*•–—]\s+)['\"“(]*$")
_CONTRACTED = re.compile(r"['’](?:s|m|re|ve|ll|d|t)$", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")

# Function words and words that ask; English and Polish, the languages of the specification's set.
_FUNCTION_WORDS = """
    a about after again all also although am an and any are as at be because been before being both but by
    can could did do does doing during each for from further get had has have having he her here him his how
    however i if in into is it its itself me might more most my no nor not now of off on once one only or
    other our out over own s same she should since so some such than that the their them then there these
    they this those through to too two under until up us very was we were what when where which while who
    whom whose why will with would you your
    hello hey hi oh ok okay thanks wow yeah yes
    cześć dzięki hej
    bez by było być być była były ci co czy dla do gdy gdzie go i ich ile im ja jak jaka jaki jakie jako je
    jego jej jest jeszcze już kiedy kto która które którego której który których którym ma mnie może na nad
    nie niż o od oraz po pod przez przy się są ta tak także tam te tego tej ten to tu tym w we więc z za
    że"""
STOP = frozenset(_FUNCTION_WORDS.split())


def words(text: str) -> list[str]:
    """Words in order, as written; a word keeps inner apostrophes, dots and hyphens."""
    return [match.group() for match in _WORD.finditer(text)]


def content_terms(text: str) -> list[str]:
    """Distinct words that are not function words, as written, in order."""
    seen: dict[str, str] = {}
    for word in words(text):
        folded = word.casefold()
        if folded not in STOP and (len(word) > 1 or not word.isascii() or word.isdigit()):
            seen.setdefault(folded, word)
    return list(seen.values())


def identifiers(text: str) -> list[str]:
    """Distinct names that look like code: dotted, snake, camel, `f()`, hyphenated ids."""
    found: dict[str, None] = {}
    for match in _CODE_WORD.finditer(text):
        name = match.group().removesuffix("()")
        if not 2 < len(name) <= MAX_NAME_CHARS:
            continue
        if name != match.group() or any(form.fullmatch(name) for form in _FORMS):
            found.setdefault(name)
    return list(found)


def quoted(text: str) -> list[str]:
    """Distinct quoted strings."""
    found = (next(group for group in match.groups() if group) for match in _QUOTED.finditer(text))
    return list(dict.fromkeys(" ".join(value.split()) for value in found))


def paths(text: str) -> list[str]:
    """Distinct words that look like file names or paths."""
    found: dict[str, None] = {}
    for match in _PATH_WORD.finditer(text):
        word = match.group().rstrip(".-+/")
        if len(word) <= MAX_NAME_CHARS and (
            len([part for part in word.split("/") if part]) > 1 or _FILE_NAME.fullmatch(word)
        ):
            found.setdefault(word)
    return list(found)


def sentences(text: str) -> list[str]:
    """Sentences and lines that hold a word."""
    return [part.strip() for part in _SENTENCE.split(text) if _PART.search(part)]


def names(text: str) -> list[str]:
    """Distinct words of names: a capital, a digit or an inner underscore, no function word, in order.

    A capital at the start of a sentence says nothing, unless the next word has one too or the word comes
    with its capital elsewhere in the text.
    """
    seen: dict[str, str] = {}
    for match in _WORD.finditer(text):
        word = match.group()
        bare = _CONTRACTED.sub("", word)
        named = word[0].isupper() or any(c.isdigit() for c in word) or "_" in word
        if not named or len(bare) < 2 or bare.casefold() in STOP:
            continue
        if bare[1:].islower() and _STARTS.search(text[max(0, match.start() - 4) : match.start()]):
            following = _WORD.match(text, match.end() + 1)
            if following is None or not following.group()[0].isupper():
                continue
        seen.setdefault(bare.casefold(), bare)
    return list(seen.values())


class Vocabulary:
    """The words of a text, to ask whether it holds a term in some inflection.

    Inflection is judged by the first letters: all but the last two, or the last one of a word of up to six.
    That is crude, and it is the same for every language.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._stems: set[str] = set()
        for text in texts:
            for match in _PART.finditer(text):
                word = match.group().casefold()
                self._stems.add(word)
                if len(word) <= MAX_INFLECTED:
                    self._stems.update(word[:n] for n in range(4, len(word)))

    def __contains__(self, term: object) -> bool:
        parts = [part.casefold() for part in _PART.findall(str(term))]
        return bool(parts) and all(self._holds(part) for part in parts)

    def _holds(self, part: str) -> bool:
        if part.isdigit():
            return part in self._stems
        kept = len(part) - (2 if len(part) > 6 else 1)
        return part in self._stems or (len(part) > 4 and part[:kept] in self._stems)
