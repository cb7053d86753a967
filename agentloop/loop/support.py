"""Does a passage support a claim? Rules only, no model; a claim that is in doubt is not supported.

Numbers, identifiers and paths of the claim must stand in the passage. Most content words must stand
together, in a window of at most four statements; there, negation must agree, opposites must not have
been exchanged, quantifiers must not have been sharpened, and what acts on what must keep its order.
`docs/verification.md` publishes how many false claims are rejected and how many true ones are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentloop.loop.opposites import OPPOSITE
from agentloop.loop.statements import Token, Window, negations, parts, stem, tokens, windows

MIN_COVERAGE = 0.85  # share of content words in the window
SHORT_CLAIM = 6  # with so few content words none may be missing
MAX_SOURCE_CHARS = 8_000  # of a passage; what only stands further on is not seen, so not supported
PRONOUN_REACH = 6  # tokens from the start of a statement in which a pronoun is its subject or object
REORDERED = 0.4  # share of word pairs in the other order that says another thing

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
_PIVOTS = frozenset(
    "before after than from to into over under onto instead because until unless when if while with".split()  # noqa: SIM905
)
_SUBORDINATORS = frozenset(
    "when if after before because since while unless although once where for during as so".split()  # noqa: SIM905
)
_REPORTING = frozenset({"return", "use", "say", "state", "mean", "show", "default"})
_BE = frozenset({"is", "are", "was", "were", "be", "been", "being"})
_PARTICIPLES = ("ed", "en", "wn", "ne", "ught", "lt", "pt", "old", "ung", "ent", "ut")
_LINKS = _BE | frozenset(
    "of to from in into on with for than before after over under against by as at".split()  # noqa: SIM905
)
_DETERMINERS = frozenset({"a", "an", "the", "this", "that", "these", "those", "and", "or", "only"})
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
    if whole.supported:
        return whole
    clauses = _clauses(claim)
    if len(clauses) < 2:
        return whole
    verdicts = [_check_part(clause, sources) for clause in clauses]
    if not all(v.supported for v in verdicts):
        return whole
    places = dict.fromkeys(place for verdict in verdicts for place in verdict.places)
    return Verdict(True, places=tuple(places))


def _clauses(claim: str) -> list[str]:
    """Independent clauses: cut at semicolons, sentence ends and at `and`/`but` after a comma."""
    text = claim
    for mark in (", and ", ", but ", "; ", ". ", ", while "):
        text = text.replace(mark, "\x00")
    return [part.strip() for part in text.split("\x00") if part.strip()]


def _check_part(claim: str, sources: Sequence[Source]) -> Verdict:
    said = tokens(claim)
    content = [t for t in said if t.content]
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
    for token in said:
        if token.kind == "number" and token.stem not in held:
            return "a number stands elsewhere in the passage"
    units = [w for w in windows(source.text[window.start : window.end]) if w.units == 1]
    main, core = _core(content, units, source.label)
    if _polarity_differs(said, core):
        return "negation differs between the claim and the passage"
    named = _stems(tokens(source.label))
    unnamed = [t for t in said if t.stem not in named]
    if _turned(unnamed, core) or _sharper(said, core) or _replaced(said, core, source.label):
        return "it says one word where the passage says another"
    if _exchanged(said, main.tokens) or _reversed(said, main.tokens):
        return "what acts on what is exchanged"
    if _subject_differs(content, main, source.label):
        return "the passage says it of something else"
    return ""


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


def _exchanged(said: Sequence[Token], stated: Sequence[Token]) -> bool:
    """Whether `x of y` of the claim stands only as `y of x`, for any preposition or form of `be`."""
    there = _relations(stated)
    for left, link, right in _relations(said):
        same = [r for r in there if r[1] == link]
        straight = any(left & a and right & b for a, _, b in same)
        if not straight and any(left & b and right & a for a, _, b in same):
            return True
    return False


def _relations(line: Sequence[Token]) -> list[tuple[set[str], str, set[str]]]:
    """The runs of content words on both sides of each preposition and each form of `be`."""
    found: list[tuple[set[str], str, set[str]]] = []
    for at, token in enumerate(line):
        word = token.text.casefold()
        if word in _LINKS:
            left, right = _run(line[:at][::-1]), _run(line[at + 1 :])
            if left and right:
                found.append((left, "be" if word in _BE else word, right))
    return found


def _run(line: Sequence[Token]) -> set[str]:
    """The content words next to a place, up to the first other word; determiners may come before them."""
    found: set[str] = set()
    for token in line:
        if token.content:
            found.add(token.stem)
        elif found or token.text.casefold() not in _DETERMINERS:
            break
    return found


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


def _reversed(said: Sequence[Token], stated: Sequence[Token]) -> bool:
    """Whether some `a … w … b` of the claim stands only as `b … w … a` in the window, or most is turned.

    A passive on one side only turns the expectation around; a subordinate clause may move as a whole.
    """
    if _passive(said) != _passive(stated):
        return False
    claim = [t.stem for t in said if t.content or t.text.casefold() in _PIVOTS]
    places: dict[str, list[int]] = {}
    for at, token in enumerate(stated):
        places.setdefault(token.stem, []).append(at)
    line = [key for key in dict.fromkeys(claim) if key in places and key not in _REPORTING]
    for middle in range(1, len(line) - 1):
        for first in line[:middle]:
            for last in line[middle + 1 :]:
                straight = _ordered(places[first], places[line[middle]], places[last])
                crossed = _ordered(places[last], places[line[middle]], places[first])
                if crossed and not straight:
                    return True
    pairs = [(a, b) for n, a in enumerate(line) for b in line[n + 1 :]]
    turned = sum(1 for a, b in pairs if min(places[a]) > max(places[b]))
    moved = any(t.text.casefold() in _SUBORDINATORS for t in (*said, *stated))
    return not moved and turned > REORDERED * len(pairs)


def _passive(line: Sequence[Token]) -> bool:
    """Whether a line holds a passive: a form of `be` and a participle, or a participle and `by`."""
    texts = [t.text.casefold() for t in line]
    for at, text in enumerate(texts):
        if text == "by" and at and texts[at - 1].endswith(_PARTICIPLES):
            return True
        if text in _BE and any(next_.endswith("ed") for next_ in texts[at + 1 : at + 4]):
            return True
    return False


def _ordered(first: Sequence[int], middle: Sequence[int], last: Sequence[int]) -> bool:
    """Whether some occurrences stand in this order."""
    start, end = min(first), max(last)
    return any(start < at < end for at in middle)


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
