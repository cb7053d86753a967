"""How text becomes index terms, beside what tantivy's own tokenizer does.

tantivy splits at everything that is not a letter or digit and lower-cases, in compiled code: that gives
the parts of `snake_case` and of `RULE-A002`. What it can't do is done here, and only where a chunk needs
it: the parts of camelCase, pairs of characters for scripts without spaces, words without their accents.
Indexing and questions share these functions, so that both sides agree.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import filterfalse

MAX_TERM = 100
"""Longer runs of letters and digits (hex dumps, base64) are no terms, on both sides."""
_MAX_CACHE = 400_000  # distinct camelCase identifiers of one build; minified files could hold millions

_UPPER, _LOWER, _OTHER = b"u", b"l", b" "


def _letter_class(code: int) -> bytes:
    char = chr(code)
    if "A" <= char <= "Z":
        return _UPPER
    return _LOWER if "a" <= char <= "z" or "0" <= char <= "9" else _OTHER


_CLASSES = b"".join(_letter_class(code) for code in range(256))
_PARTS = re.compile(r"[A-Z]+(?![a-z0-9])|[A-Z]?[a-z0-9]+|[A-Z]+")
_WORDS = re.compile(r"[^\W_]+")
# scripts that are written without spaces, or (Hangul) with particles glued to the word
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f]+"
)
# bytes that only those scripts, or what NFKC turns into them, hold; E2 80..83 is punctuation and currency
_LEADS = b"\xe0\xe1\xe2" + bytes(range(0xE3, 0xF5))
_HIGH_BYTE = re.compile(rb"[\xe0\xe1\xe3-\xf4]|\xe2[\x84-\xbf]")
_OTHERS = bytes(byte for byte in range(256) if byte not in _LEADS)


def camel_words(data: bytes) -> list[bytes]:
    """The distinct camelCase identifiers of a text in order of first use: `fileName`, `HTTPServer`.

    A byte table maps letters to their case; then only the places where case changes are visited.
    """
    classes = data.translate(_CLASSES)
    found: dict[bytes, None] = {}
    for change in (b"lu", b"uul"):
        at = classes.find(change)
        while at >= 0:
            start = classes.rfind(b" ", 0, at) + 1
            end = classes.find(b" ", at + 2)
            if end < 0:
                end = len(data)
            found[data[start:end]] = None
            at = classes.find(change, end)
    return list(found)


def parts(identifier: str) -> list[str]:
    """The parts of one camelCase word, in its case: `parseHTTPUrl2` is `parse`, `HTTP`, `Url2`."""
    return _PARTS.findall(identifier)


class CamelParts:
    """Parts of camelCase identifiers as index text, each identifier split once a build."""

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}

    def of(self, data: bytes) -> str:
        """The parts of all camelCase identifiers of a text, joined by spaces; empty if it has none."""
        known = self._known
        texts = []
        for word in camel_words(data):
            text = known.get(word)
            if text is None:
                if len(known) > _MAX_CACHE:
                    known.clear()
                usable = len(word) <= MAX_TERM
                text = known[word] = " ".join(parts(word.decode("ascii"))) if usable else ""
            texts.append(text)
        return " ".join(texts)


def _base_letters() -> dict[int, str]:
    """Latin letters with accents or strokes -> the letters they are typed as without."""
    table = {}
    for low, high in ((0xC0, 0x250), (0x1E00, 0x1F00)):
        for code in range(low, high):
            plain = "".join(
                c for c in unicodedata.normalize("NFD", chr(code)) if not unicodedata.combining(c)
            )
            if plain.isascii() and plain.isalpha():
                table[code] = plain
    table.update({ord(a): b for a, b in zip("łŁøØđĐħŧı", "lLoOdDhti", strict=True)})
    table.update({0xDF: "ss", 0xE6: "ae", 0xC6: "Ae", 0x153: "oe", 0x152: "Oe"})
    return table


_PLAIN = _base_letters()


def fold(text: str) -> str:
    """`text` without accents and strokes on Latin letters: `żółw` is `zolw`."""
    return text.translate(_PLAIN)


def pairs(run: str) -> list[str]:
    """Overlapping pairs of characters of a run of an unspaced script; a single character is itself."""
    return [run[i : i + 2] for i in range(max(1, len(run) - 1))]


class ForeignTerms:
    """What text outside ASCII is found by besides its own words: pairs, unaccented words, normal forms."""

    def __init__(self) -> None:
        self._plain: dict[str, str] = {}

    def of(self, data: bytes, unaccented: bool = True) -> str:
        """Additional index text for a text that is not ASCII, given as UTF-8.

        `unaccented=False` leaves out words without their accents (data files: catalogues of translations).
        """
        extra: list[str] = []
        text = data.decode("utf-8", "replace")
        if data.translate(None, _OTHERS) and _HIGH_BYTE.search(data):  # none lies below U+0800
            for run in _UNSPACED.findall(unicodedata.normalize("NFKC", text)):
                extra += pairs(run)
        if not unaccented:
            return " ".join(extra)
        plain = self._plain
        for token in dict.fromkeys(filterfalse(str.isascii, text.split())):
            known = plain.get(token)
            if known is None:
                if len(plain) > _MAX_CACHE:
                    plain.clear()
                known = plain[token] = _plain_form(token)
            if known:
                extra.append(known)
        return " ".join(extra)


def _plain_form(token: str) -> str:
    """A token's normal form without accents; empty where it has none of its own."""
    if len(token) > MAX_TERM:
        return ""
    folded = fold(unicodedata.normalize("NFKC", token))
    same = folded == token or _WORDS.findall(folded) == _WORDS.findall(token)
    return "" if same else folded


def is_unspaced(word: str) -> bool:
    """Whether a word holds characters of a script that is searched by pairs."""
    return not word.isascii() and _UNSPACED.search(word) is not None


def words(text: str) -> list[str]:
    """Runs of letters and digits in their case, normalised as the index has them."""
    return _WORDS.findall(unicodedata.normalize("NFKC", text))


def terms(word: str) -> list[str]:
    """The index terms of one run of letters and digits: itself, or pairs for unspaced scripts."""
    if len(word) > MAX_TERM:
        return []
    if not is_unspaced(word):
        return [word.lower()]
    found: list[str] = []
    at = 0
    for run in _UNSPACED.finditer(word):
        if run.start() > at:
            found.append(word[at : run.start()].lower())
        found += pairs(run.group())
        at = run.end()
    if at < len(word):
        found.append(word[at:].lower())
    return found
