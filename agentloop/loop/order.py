"""Does a statement say what acts on what in the same order as a claim?"""

from __future__ import annotations

from collections.abc import Sequence

from agentloop.loop.statements import Token, is_cue

REORDERED = 0.4  # share of word pairs in the other order that says another thing
_PIVOTS = frozenset(
    "before after than from to into over under onto instead because until unless when if while with".split()  # noqa: SIM905
)
_SUBORDINATORS = frozenset(
    "when if after before because since while unless although once where for during as so".split()  # noqa: SIM905
)
_REPORTING = frozenset({"return", "use", "say", "state", "mean", "show", "default"})
_BE = frozenset("is are was were be been being jest są był była było byli były".split())  # noqa: SIM905
_BE_WORDS = 2  # on a side of a form of `be` that are compared, beside those of content
_TELLING = frozenset({"same", "such", "other", "own"})
_PARTICIPLES = ("ed", "en", "wn", "ne", "ught", "lt", "pt", "old", "ung", "ent", "ut")
_LINKS = _BE | frozenset(
    """of to from in into on with for than before after over under against by as at
    z ze do od dla przez przed po na w we u nad pod za niż""".split()  # noqa: SIM905
)
_DETERMINERS = frozenset({"a", "an", "the", "this", "that", "these", "those", "and", "or", "only"})


def exchanged(said: Sequence[Token], stated: Sequence[Token]) -> bool:
    """Whether `x of y` of the claim stands only as `y of x`, for any preposition or form of `be`.

    What both sides share (`db-primary to db-replica`) tells nothing of their order.
    """
    there = _relations(stated)
    for near, link, far in _relations(said):
        left, right = near - far, far - near
        same = [r for r in there if r[1] == link]
        straight = any(left & a and right & b for a, _, b in same)
        if not straight and any(left & b and right & a for a, _, b in same):
            return True
    return False


def _relations(line: Sequence[Token]) -> list[tuple[set[str], str, set[str]]]:
    """The runs of words on both sides of each preposition and each form of `be`."""
    found: list[tuple[set[str], str, set[str]]] = []
    for at, token in enumerate(line):
        word = token.text.casefold()
        if word in _LINKS:
            link = "be" if word in _BE else word
            left, right = _run(line[:at][::-1], link), _run(line[at + 1 :], link)
            if left and right:
                found.append((left, link, right))
    return found


def _run(line: Sequence[Token], link: str) -> set[str]:
    """The telling words next to a place, up to the first other word; determiners may come before them.

    Next to a form of `be` every word tells: what is said of a subject may be no word of content
    (`the arguments are the same`), and `not` and a preposition are no part of it.
    """
    found: set[str] = set()
    for token in line:
        word = token.text.casefold()
        if token.content or word in _TELLING or (link == "be" and len(found) < _BE_WORDS and _bare(token)):
            found.add(token.stem)
        elif found or not (word in _DETERMINERS or (link == "be" and (is_cue(word) or word in _LINKS))):
            break
    return found


def _bare(token: Token) -> bool:
    """Whether a word may stand on a side of `be` though it is none of content."""
    word = token.text.casefold()
    return token.kind == "word" and not (word in _DETERMINERS or word in _LINKS or is_cue(word))


def is_reversed(said: Sequence[Token], stated: Sequence[Token]) -> bool:
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
