"""A text as statements to compare: tokens with stems, polarity, names and numbers, in windows.

English cues, with the Polish ones that change polarity. What is not known here is an ordinary word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agentloop.loop.wording import STOP

_TOKEN = re.compile(
    r"(?P<hyphened>(?<![\w-])[A-Za-z]\w*(?:-\w+)*-\d\w*)|"  # worker-3
    r"(?P<path>(?<![\w./@+-])(?:(?:[\w.@+-]*/)+[\w.@+-]*\w|[\w@+-]+\.[A-Za-z]{1,5}\b(?![\w(])))"
    r"|(?P<number>(?<![\w.])[-−]?\d[\d,_]*(?:\.\d+)*(?![\w]*[A-Za-z_])|\b0x[0-9a-fA-F]+\b)"
    r"|(?P<word>\w+(?:['’]\w+)?(?:(?:\.|::|->)\w+)*)"
    r"|(?P<mark>!=|!(?=\w)|[.,;:()?!—])"
)
_UNIT_END = re.compile(
    r"(?<=;)(?=\s)|(?<=[.!?])(?=\s)(?!\s+[a-z])|\n\s*\n"
    r"|\n(?=\s*(?:[-*•]|\d+[.)])\s)"  # list items
    r"|\n(?=\s*(?:\[?\d{2,4}[-:/]\d|[A-Z]{4,}\b))"  # lines of a log
    r"|\n(?=\s*(?:\[[^\]\n]{1,40}\] |\w{3} +\d+ \d\d:\d|[\d.]{7,15} ))"
    r"|\n(?=\s*(?:async|class|def|fn|func|import|from|impl|pub|return|static|public|private|///?|#)(?:\s|\())"
)
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
MAX_UNIT_CHARS = 400  # a longer one (code, a table) is cut at its lines
MAX_WINDOW_CHARS = 900
MAX_WINDOW_UNITS = 4

_NOUN_CUES = frozenset({"no", "without", "lacks", "lack", "neither", "bez", "brak", "żaden", "żadna"})
_VERB_CUES = frozenset(
    {"not", "never", "nothing", "nor", "cannot", "cant", "wont", "unable", "hardly", "nobody"}
    | {"nie", "nigdy", "!", "!="}
)
CUES = _NOUN_CUES | _VERB_CUES
_NO_ADVERBS = frozenset({"apply", "reply", "supply", "multiply", "rely", "imply", "comply", "fly", "family"})
_CLAUSE_END = frozenset({".", ",", ";", ":", "but", "however", "?", "—", "ale"})
NUMBER_WORDS = dict(
    zip(
        "zero one two three four five six seven eight nine ten eleven twelve".split(),  # noqa: SIM905
        range(13),
        strict=True,
    )
)
SCOPE = 3  # content words that a negation reaches


@dataclass(frozen=True, slots=True)
class Token:
    """One word, number, path or mark. `stem` is what is compared; `content` words carry meaning."""

    text: str
    stem: str
    kind: str
    start: int
    content: bool


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive statements of a source: `[start, end)` characters and their tokens."""

    start: int
    end: int
    tokens: tuple[Token, ...]
    units: int = 1  # how many statements


def stem(word: str) -> str:
    """A light English stem: plural, -ed, -ing, -ly and a final e go. Words of three letters stay."""
    w = word.casefold().replace("’", "'").removesuffix("'s")
    if len(w) <= 3 or not w.isalpha():
        return w
    for suffix, put in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ied", "y"), ("ed", ""), ("ly", "")):
        if w.endswith(suffix) and len(w) - len(suffix) >= 3:
            w = w[: -len(suffix)] + put
            break
    else:
        if w.endswith("s") and not w.endswith(("ss", "us", "is")):
            w = w[:-1]
    if len(w) > 3 and w[-1] == w[-2] and w[-1] not in "aeiouls":
        w = w[:-1]
    return w.removesuffix("e") if len(w) > 3 else w


def number(text: str) -> str:
    """A number in one form: no thousands separators, ASCII minus, no trailing `.0`."""
    bare = text.replace(",", "").replace("_", "").replace("−", "-").casefold()
    return bare.removesuffix(".0")


def tokens(text: str) -> tuple[Token, ...]:
    """The tokens of a text in order."""
    return tuple(_tokens(text))


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        kind, value = str(match.lastgroup), match.group()
        folded = value.casefold().replace("’", "'")
        if kind == "number":
            yield Token(value, number(value.rstrip(",._")), "number", match.start(), True)
        elif kind == "hyphened":
            yield Token(value, value, "code", match.start(), True)
        elif kind == "path":
            yield Token(value, value.strip("./"), "path", match.start(), True)
        elif kind == "mark":
            yield Token(value, value, "mark", match.start(), False)
        elif folded in NUMBER_WORDS and folded != "one":
            yield Token(value, str(NUMBER_WORDS[folded]), "number", match.start(), True)
        else:
            code = is_identifier(value)
            content = folded not in STOP and not is_cue(folded) and (len(value) > 1 or code)
            yield Token(
                value, value if code else stem(value), "code" if code else "word", match.start(), content
            )


def is_identifier(word: str) -> bool:
    """Whether a word is a name of code: an underscore, an inner dot or capital, letters with digits."""
    inner = word[1:]
    has_digit = any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
    camel = any(c.isupper() for c in inner) and any(c.islower() for c in word)
    return "_" in word or "." in inner or "::" in word or "->" in word or camel or has_digit


def is_cue(folded: str) -> bool:
    """Whether a word turns the polarity of what follows it."""
    return folded in CUES or folded.endswith("n't")


def parts(word: str) -> list[str]:
    """Stems of the parts of an identifier: `maxRetries_v2` → max, retri, v, 2."""
    return [stem(part) for part in _PART.findall(word)]


def units(text: str) -> list[tuple[int, int]]:
    """Sentences, list items and paragraphs as `[start, end)`; long ones are cut at their lines."""
    cuts = [0, *(m.end() for m in _UNIT_END.finditer(text)), len(text)]
    spans: list[tuple[int, int]] = []
    for start, end in pairwise(cuts):
        if end - start <= MAX_UNIT_CHARS:
            spans.append((start, end))
            continue
        at = start
        for line in text[start:end].splitlines(keepends=True):
            spans.append((at, at + len(line)))
            at += len(line)
    return [(s, e) for s, e in spans if text[s:e].strip()]


def windows(text: str) -> list[Window]:
    """All runs of one to four statements that are short enough, shortest runs first."""
    spans = units(text)
    made: list[Window] = []
    parsed = [tuple(_tokens(text[s:e])) for s, e in spans]
    for size in range(1, MAX_WINDOW_UNITS + 1):
        for at in range(len(spans) - size + 1):
            start, end = spans[at][0], spans[at + size - 1][1]
            if size > 1 and end - start > MAX_WINDOW_CHARS:
                continue
            joined = tuple(token for part in parsed[at : at + size] for token in part)
            made.append(Window(start, end, joined, size))
    return made


@dataclass(frozen=True, slots=True)
class Negation:
    """What one cue turns: stems in order, its head first, and where the head stands in the line."""

    reach: tuple[str, ...]
    at: int


def negations(line: Sequence[Token]) -> list[Negation]:
    """The negations of a line. A cue of nouns (`without`) reaches one content word, others three.

    A cue with nothing after it in its clause turns the content word before it.
    """
    found = []
    for at, token in enumerate(line):
        folded = token.text.casefold().replace("’", "'")
        if not is_cue(folded):
            continue
        reach = _scope(line, at + 1, 1 if folded in _NOUN_CUES else SCOPE)
        if not reach:
            reach = [n for n in range(at - 1, -1, -1) if line[n].content][:1]
        if reach:
            found.append(Negation(tuple(line[n].stem for n in reach), reach[0]))
    return found


def _scope(line: Sequence[Token], start: int, most: int) -> list[int]:
    found: list[int] = []
    for at in range(start, len(line)):
        folded = line[at].text.casefold()
        if folded in _CLAUSE_END or len(found) == most:
            break
        adverb = folded.endswith("ly") and folded not in _NO_ADVERBS and not found
        if line[at].content and not adverb:
            found.append(at)
    return found
