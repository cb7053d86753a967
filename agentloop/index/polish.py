"""Which Polish words are forms of one word. Snowball's stems are too coarse for it: Polish changes letters
inside a word (pieróg, pierogów), its last consonant (ręka, ręce) and drops vowels (łazienka, łazienek).

A word has several readings: what is left of it when an ending of a noun, an adjective or a verb is taken
off, in the letters without accents. Two words are forms of one word when they share a reading. Over the
40,000 commonest words this finds 94 % of the pairs that a dictionary gives (Snowball: 72 %), and brings
relatives too (płacić, płaca); docs/retrieval.md has the figures.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product

from agentloop.index.words import fold

_NOUN = "a e y i o u em om ami ach ow owi owie ie iem iu ia io ii iach iami iom im"
_ADJECTIVE = """
    y a e ego emu ym ych ymi ej o i iego iemu im ich imi iej ia ie io szy sza sze szych szego szej szym
    ejszy ejsza ejsze ejszych ejszego ejszej ejszym iejszy iejsza iejsze iejszych iejszego iejszej
    owy owa owe owego owej owych owym ny na ne nego nej nych nym
"""
_PAST = "l la lo li ly lem lam les las lismy lysmy liscie lyscie lby laby loby liby"
_PAST_THEMES = "a i y e ia ie ne na owa ywa iwa"
_VERB = """
    ac ic yc ec iac iec nac owac ywac iwac sc zc
    e esz emy ecie ie iesz iemy iecie i isz imy icie y ysz ymy ycie a asz am amy acie aj aje ajmy ajcie
    ije ij uj uje ujesz ujemy ujecie ujcie ujmy ne nie niesz niemy n nij aja
    ajec ujec ec iec ajecy ajeca ajece ajecych ujecy ujeca ujece ujecych ujecego ecy eca ece ecych ecego
    ajac ujac ajacy ajaca ajace ajacych ujacy ujaca ujace ujacych ujacego acy aca ace acych acego
    ty ta te to ci tych tego tej tym iety ieta iete ieto iecie iecia cie cia ciu ciem
"""
_GERUND = "ny na ne no ni nych nego nej nym nymi nie nia niu niem niami n"
_GERUND_THEMES = "a o io e ie owa ywa iwa ia"


def _after(themes: str, endings: str) -> list[str]:
    return ["".join(pair) for pair in product(themes.split(), endings.split())]


_BY_CLASS = {
    "n": ["", *_NOUN.split()],
    "a": _ADJECTIVE.split(),
    "v": [*_PAST.split(), *_after(_PAST_THEMES, _PAST), *_VERB.split(), *_after(_GERUND_THEMES, _GERUND)],
}
_ENDINGS: dict[str, str] = {}
for _class, _found in _BY_CLASS.items():
    for _ending in dict.fromkeys(_found):
        _ENDINGS[_ending] = _ENDINGS.get(_ending, "") + _class
_LONGEST = max(map(len, _ENDINGS))
_VOWELS = frozenset("aeiouy")
_SUPERLATIVE = re.compile(r"naj(.{3,}(?:sz[aey]|szych|szego|szej|szym|ej))")
_FLEETING = re.compile(r"(?<=[bcdfghjklmnprstwz])i?e(?=[klcnr]$)")
"""The vowel of łazienek, pies, ojciec that the other forms lack."""
# letters at a stem's end -> the letters that other forms of the word may have there
_SOFT = (
    ("szcz", ("st", "sk")),
    ("sc", ("st",)),
    ("dz", ("d", "g")),
    ("sz", ("s", "ch")),
    ("cz", ("k",)),
    ("rz", ("r",)),
    ("c", ("k", "t")),
    ("z", ("g",)),
)
_VOWEL = re.compile(r"i[eo](?=[^aeiouy]+$)")
"""The vowel of mieście, kościele, which is a or o in miasto, kościół."""
_NASAL = str.maketrans("ąę", "ea")  # mąż, mężowie; ręka, rąk


def _stems(stem: str) -> list[str]:
    """A stem with its last consonant as it is, and as it is before other endings."""
    if len(stem) > 3 and stem[-1] in "ij":
        stem = stem[:-1]
    found = [stem]
    if stem[-1] in "zc":
        for soft, hard in _SOFT:
            if stem.endswith(soft):
                found += [stem[: -len(soft)] + letters for letters in hard]
                break
    return found


def _read(word: str) -> set[str]:
    found: set[str] = set()
    best = _SUPERLATIVE.fullmatch(word)
    if best:
        word = best.group(1)
    length = len(word)
    least = 3 if length > 4 else 2
    for cut in range(min(_LONGEST, length - least) + 1):
        classes = _ENDINGS.get(word[length - cut :])
        if classes is None:
            continue
        stem = word[: length - cut]
        if length - cut < 3 and _VOWELS.isdisjoint(stem):
            continue
        stems = _stems(stem)
        if not cut and length > 3:
            shorter = _FLEETING.sub("", stem)
            stems += _stems(shorter) if shorter != stem else []
        if cut and word.endswith("e"):
            stems += [_VOWEL.sub(vowel, one) for one in stems for vowel in ("ia", "io") if _VOWEL.search(one)]
        found.update(kind + one for kind in classes for one in stems)
    return found


@lru_cache(maxsize=1 << 15)
def readings(word: str) -> frozenset[str]:
    """The readings of a lower-case word, with its accents or without: a letter for the class, and a stem."""
    found = _read(fold(word))
    if "ą" in word or "ę" in word:
        found |= _read(fold(word.translate(_NASAL)))
    return frozenset(found)
