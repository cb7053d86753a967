"""Documentation kept in view: beside code, a question in plain words gets the page that answers it too.

Files of prose stand behind code (`rerank`), which is right for most questions about a repository. A question
about behaviour that a page states would then show none of it. The best passages of the documentation take
two places behind the head, which stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agentloop.retrieval.question import Question
from agentloop.retrieval.terms import Query

PLACES = (5, 9)
"""Places, from 0, that the best passages of the documentation have at the latest."""
LEAST_SHARE = 0.35
"""What a passage must hold of the question to be put there."""


def in_view(
    scored: Sequence[tuple[int, float]],
    question: Question,
    query: Query,
    told: Callable[[int], bool],
    terms_of: Callable[[int], frozenset[str]],
    text_of: Callable[[int], str],
) -> list[tuple[int, float]]:
    """The order with the best passages of documentation at `PLACES` or before.

    Args:
        scored: chunks with their scores, best first.
        told: whether a chunk is documentation.
    """
    order = list(scored)
    if question.identifiers or question.quoted or question.paths or question.regex:
        return order  # the question says by name what it is about
    fits = {}
    for place, (chunk, _) in enumerate(order):
        if told(chunk) and (share := query.share(terms_of(chunk))) >= LEAST_SHARE:
            # of two that rank alike, the one that says it in one breath
            fits[chunk] = (share + together(query, text_of(chunk)), -place)
    best = sorted(fits, key=lambda chunk: fits[chunk], reverse=True)[: len(PLACES)]
    for chunk, place in zip(best, PLACES, strict=False):
        now = next(n for n, pair in enumerate(order) if pair[0] == chunk)
        if now > place:
            del order[now]
            between = (order[place - 1][1] + order[place][1]) / 2
            order.insert(place, (chunk, between))
    return order


def together(query: Query, text: str) -> float:
    """The largest share of the question, by weight, on two lines of a text that follow each other, 0..1."""
    by_form: dict[str, list[int]] = {}
    for number, word in enumerate(query.asked):
        for form in sorted(word.forms):
            by_form.setdefault(form, []).append(number)
    forms = "|".join(re.escape(form) for form in sorted(by_form, key=lambda form: (-len(form), form)))
    best, before, here = 0.0, set[int](), set[int]()
    for match in re.finditer(rf"\n|(?<![^\W_])(?:{forms})(?![^\W_])", text.lower() + "\n"):
        if match.group() != "\n":
            here.update(by_form[match.group()])
            continue
        best = max(best, sum(query.asked[number].weight for number in sorted(before | here)))
        before, here = here, set()
    return best / query.total if query.total else 0.0
