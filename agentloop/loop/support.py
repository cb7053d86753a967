"""Does a passage support a claim? Rules only, no model; a claim that is in doubt is not supported.

Numbers, identifiers and paths of the claim must stand in the passage. Most content words must stand
together, in a window of at most four statements; there, negation must agree, opposites must not have
been exchanged, quantifiers must not have been sharpened, and what acts on what must keep its order.
`docs/verification.md` publishes how many false claims are rejected and how many true ones are kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from agentloop.loop.opposites import OPPOSITE
from agentloop.loop.order import exchanged, is_reversed
from agentloop.loop.statements import Token, Window, negations, parts, stem, tokens, windows

MIN_COVERAGE = 0.85  # share of content words in the window
SHORT_CLAIM = 6  # with so few content words none may be missing
MAX_SOURCE_CHARS = 8_000  # of a passage; what only stands further on is not seen, so not supported
PRONOUN_REACH = 6  # tokens from the start of a statement in which a pronoun is its subject or object
MIN_CLAUSE = 3  # content words of a clause that is compared by itself

_EXCHANGED = "what acts on what is exchanged"
_SHARP = (
    frozenset("all every each always any whole entire".split()),  # noqa: SIM905
    frozenset("only solely exclusively just alone".split()),  # noqa: SIM905
    frozenset("must required requires require shall need needs mandatory has have".split()),  # noqa: SIM905
    frozenset({"never"}),
    frozenset("least minimum".split()),  # noqa: SIM905
    frozenset("most maximum".split()),  # noqa: SIM905
    frozenset("unless except".split()),  # noqa: SIM905
)
_SHARP_WORDS = {
    word: group for group in _SHARP for word in group if word not in {"has", "have", "any", "just"}
}
_TOLD = frozenset(
    "came gave give gives get gets got happened logged occurred printed".split()  # noqa: SIM905
)
"""Verbs with which people retell a log; its lines have none."""
_LOG_LINE = re.compile(
    r"^(?:\[|\w{3} +\d+ \d\d:|\d{2,4}[-:/]\d|[\d.]{7,} |\w*(?:Error|Exception)\b|[A-Z]{4,}\b)", re.MULTILINE
)
_PRONOUNS = frozenset("it they he she this that these those its their his her which who both".split())  # noqa: SIM905


@dataclass(frozen=True, slots=True)
class Source:
    """A passage that a claim cites. `label` (path, symbol, thread) may hold names, but states nothing."""

    ref: str
    text: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim is supported; if so the decisive `[start, end)` characters in each source used."""

    supported: bool
    reason: str = ""
    places: tuple[tuple[int, int, int], ...] = ()  # (position in `sources`, start, end)


def check(claim: str, sources: Sequence[Source]) -> Verdict:
    """Judge a claim against the passages that it cites.

    A claim that one window does not support as a whole may be supported clause by clause.
    """
    whole = _check_part(claim, sources)
    clauses = _clauses(claim)
    if len(clauses) < 2:
        return whole
    if whole.supported:
        turned = any(_turned_round(clause, whole, sources) for clause in clauses)
        return Verdict(False, _EXCHANGED) if turned else whole
    verdicts = [_check_part(clause, sources) for clause in clauses]
    if not all(v.supported for v in verdicts):
        return whole
    places = dict.fromkeys(place for verdict in verdicts for place in verdict.places)
    return Verdict(True, places=tuple(places))


def _turned_round(clause: str, whole: Verdict, sources: Sequence[Source]) -> bool:
    """Whether the statement that says most of a clause says it the other way round."""
    said = tokens(clause)
    content = [t for t in said if t.content]
    if len(content) < MIN_CLAUSE:
        return False
    n, start, end = whole.places[0]
    units = [w for w in windows(sources[n].text[start:end]) if w.units == 1]
    main, _ = _core(content, units, sources[n].label)
    return exchanged(said, main.tokens) or is_reversed(said, main.tokens)


def _clauses(claim: str) -> list[str]:
    """Independent clauses: cut at semicolons, sentence ends and at `and`/`but` after a comma."""
    text = claim
    for mark in (", and ", ", but ", "; ", ". ", ", while "):
        text = text.replace(mark, "\x00")
    return [part.strip() for part in text.split("\x00") if part.strip()]


def _check_part(claim: str, sources: Sequence[Source]) -> Verdict:
    said = tokens(claim)
    content = [t for t in said if t.content]
    if any(_LOG_LINE.search(source.text) for source in sources):
        held = {stem for source in sources for stem in _stems(tokens(source.text))}
        content = [t for t in content if t.text.casefold() not in _TOLD or t.stem in held]
    if len({t.stem for t in content}) < 2:
        return Verdict(False, "it says too little to be checked")
    missing = _missing_exact(content, sources)
    if missing:
        return Verdict(False, f"{missing} that it names is not in the passages that it cites")
    ranked = sorted(
        (
            (-_coverage(content, window, source.label), window.end - window.start, n, window.start, window)
            for n, source in enumerate(sources)
            for window in windows(source.text[:MAX_SOURCE_CHARS])
        ),
        key=lambda entry: entry[:4],
    )
    reason = "the passages that it cites do not say it"
    best = ranked[0][0] if ranked else 0.0
    for cost, _, n, _, window in ranked:
        if not _enough(content, -cost) or cost > best + 0.1:
            break
        objection = _objection(said, content, window, sources[n])
        if not objection:
            return Verdict(True, places=((n, window.start, window.end),))
        return Verdict(False, objection)
    return Verdict(False, reason)


def _enough(content: Sequence[Token], coverage: float) -> bool:
    distinct = len({t.stem for t in content})
    return coverage >= (1.0 if distinct <= SHORT_CLAIM else MIN_COVERAGE)


def _missing_exact(content: Sequence[Token], sources: Sequence[Source]) -> str:
    """The first number, identifier, path or name that no source holds; empty when all are held."""
    held = [t for source in sources for t in tokens(f"{source.text}\n{source.label}")]
    texts = {t.text for t in held} | {t.stem for t in held}
    words = {t.stem for t in held if t.kind != "number"} | {p for t in held for p in parts(t.text)}
    labels = " ".join(f"{source.text} {source.label}" for source in sources)
    for token in content:
        if token.kind == "number":
            if not any(t.kind == "number" and t.stem == token.stem for t in held):
                return "a number"
        elif token.kind in {"code", "path"}:
            bare = token.text.removesuffix("()").strip("./")
            if token.text not in texts and bare not in texts and not _spelled(bare, labels):
                return "a path" if token.kind == "path" else "an identifier"
        elif token.text[0].isupper() and token.stem not in words and token.start > 0:
            return "a name"
    return ""


def _spelled(name: str, text: str) -> bool:
    """Whether a dotted or hyphenated name stands in a text as a whole word."""
    at = text.find(name)
    while at >= 0:
        before = text[at - 1] if at else " "
        after = text[at + len(name)] if at + len(name) < len(text) else " "
        if not (before.isalnum() or before == "_") and not (after.isalnum() or after == "_"):
            return True
        at = text.find(name, at + 1)
    return False


def _coverage(content: Sequence[Token], window: Window, label: str) -> float:
    """Share of the claim's distinct content words that the window (or, for names, the label) holds."""
    held = _stems(window.tokens)
    named = _stems(tokens(label))
    wanted = {t.stem: t for t in content}
    found = sum(
        1 for key, token in wanted.items() if key in held or key in named or _by_parts(token, held | named)
    )
    return found / len(wanted)


def _stems(line: Sequence[Token]) -> set[str]:
    stems = {t.stem for t in line}
    for token in line:
        if token.kind in {"code", "path"}:
            stems.update(parts(token.text))
    return stems


def _by_parts(token: Token, held: set[str]) -> bool:
    if token.kind == "word":
        return False
    found = parts(token.text)
    return bool(found) and all(part in held for part in found)


def _objection(said: Sequence[Token], content: Sequence[Token], window: Window, source: Source) -> str:
    """Why a window that holds the words still does not support the claim; empty when it does."""
    held = {t.stem for t in (*window.tokens, *tokens(source.label)) if t.kind == "number"}
    strange = any(token.kind == "number" and token.stem not in held for token in said)
    if strange or _miscounted(said, window.tokens):
        return "a number stands elsewhere in the passage"
    units = [w for w in windows(source.text[window.start : window.end]) if w.units == 1]
    main, core = _core(content, units, source.label)
    if _polarity_differs(said, core):
        return "negation differs between the claim and the passage"
    named = _stems(tokens(source.label))
    unnamed = [t for t in said if t.stem not in named]
    if _turned(unnamed, core) or _sharper(said, core) or _replaced(said, core, source.label):
        return "it says one word where the passage says another"
    if exchanged(said, main.tokens) or is_reversed(said, main.tokens):
        return _EXCHANGED
    if _subject_differs(content, main, source.label):
        return "the passage says it of something else"
    return ""


def _miscounted(said: Sequence[Token], stated: Sequence[Token]) -> bool:
    """Whether the passage counts with other numbers what the claim counts: `2 failed` of `1 failed`."""
    there = _counts(stated)
    return any(noun in there and not numbers & there[noun] for noun, numbers in _counts(said).items())


def _counts(line: Sequence[Token]) -> dict[str, set[str]]:
    """The numbers right before each word in lower case."""
    found: dict[str, set[str]] = {}
    for one, other in pairwise(line):
        if one.kind == "number" and other.kind == "word" and other.content and other.text.islower():
            found.setdefault(other.stem, set()).add(one.stem)
    return found


def _core(content: Sequence[Token], units: Sequence[Window], label: str) -> tuple[Window, list[Token]]:
    """The statement that says most of the claim, and the tokens of all that say at least two words of it."""
    wanted = {t.stem for t in content}
    main = max(units, key=lambda unit: (_coverage(content, unit, label), -unit.start))
    core = [
        token
        for unit in units
        if unit is main or len(wanted & _stems(unit.tokens)) > 1
        for token in unit.tokens
    ]
    return main, core


def _polarity_differs(said: Sequence[Token], stated: Sequence[Token]) -> bool:
    """Whether a head of a negation on one side stands without one on the other."""
    claimed, source = negations(said), negations(stated)
    reached = {key for n in source for key in n.reach}
    if len(claimed) > len(source) or any(not reached.intersection(n.reach) for n in claimed):
        return True
    denied = {key for n in claimed for key in n.reach}
    for negation in source:
        head = negation.reach[0]
        spoken = [at for at, t in enumerate(said) if t.content and t.stem == head]
        if not spoken or head in denied:
            continue
        plain = [at for at, t in enumerate(stated) if t.content and t.stem == head and at != negation.at]
        turned = _context(stated, negation.at)
        for place in spoken:
            around = _context(said, place)
            free = max((len(around & _context(stated, at)) for at in plain), default=-1)
            if len(around & turned) >= free:
                return True
    return False


def _context(line: Sequence[Token], at: int) -> set[str]:
    """Stems of the two content words on each side of a place."""
    before = [t.stem for t in line[:at] if t.content][-2:]
    after = [t.stem for t in line[at + 1 :] if t.content][:2]
    return {*before, *after}


def _replaced(said: Sequence[Token], stated: Sequence[Token], label: str) -> bool:
    """Whether the passage has another word, between the same neighbours, than the claim."""
    claim = [t for t in said if t.content]
    line = [t.stem for t in stated if t.content]
    held = _stems(stated) | _stems(tokens(label))
    spoken = {t.stem for t in claim}
    triples: dict[tuple[str, str], set[str]] = {}
    for before, between, after in zip(["", *line], line, [*line[1:], ""], strict=False):
        triples.setdefault((before, after), set()).add(between)
    for at in range(len(claim)):
        word = claim[at]
        if word.stem in held or _by_parts(word, held):
            continue
        before = claim[at - 1].stem if at else ""
        after = claim[at + 1].stem if at + 1 < len(claim) else ""
        if before and after and triples.get((before, after), set()) - spoken:
            return True
    return False


def _turned(said: Sequence[Token], stated: Sequence[Token]) -> bool:
    """Whether a word of the claim is missing in the window, while it holds its opposite.

    The opposite in the very same form counts even where another form of the word itself is there:
    `encodes` against “decodes … encoding”.
    """
    texts = {t.text.casefold() for t in stated}
    held = texts | {t.stem for t in stated}
    for token in said:
        folded = token.text.casefold()
        if folded in texts:
            continue
        others = OPPOSITE.get(folded, frozenset()) | OPPOSITE.get(token.stem, frozenset())
        ending = folded.removeprefix(token.stem)
        if any(stem(other) + ending in texts for other in others):
            return True
        if token.stem not in held and any(other in held for other in others):
            return True
    return False


def _sharper(said: Sequence[Token], stated: Sequence[Token]) -> bool:
    held = {t.text.casefold() for t in stated}
    groups = (_SHARP_WORDS.get(token.text.casefold()) for token in said)
    return any(group and not group & held for group in groups)


def _subject_differs(content: Sequence[Token], unit: Window, label: str) -> bool:
    """Whether the statement that says most of the claim says it of something else.

    A statement that starts with a pronoun, and a claim about a name of code, take their subject from
    elsewhere in the passage.
    """
    subject = content[0]
    held = _stems(unit.tokens) | _stems(tokens(label))
    if subject.kind != "word" or subject.stem in held:
        return False
    if any(token.text.casefold() in _PRONOUNS for token in unit.tokens[:PRONOUN_REACH]):
        return False
    for token in unit.tokens:
        if token.content:
            return token.stem not in {t.stem for t in content[1:2]}
    return False
