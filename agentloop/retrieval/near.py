"""What a search shows when nothing matches as asked: other case, other endings, parts of words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from agentloop.index import words

if TYPE_CHECKING:
    from agentloop.retrieval.retriever import Retrieved, Retriever

MAX_HITS = 50
_SHORTEST = 3


def near_hits(retriever: Retriever, missed: Retrieved) -> tuple[str, Retrieved]:
    """How a search without hits was widened, and what that found; ("", missed) if nothing came of it."""
    asked = [term for word in words.words(missed.question.text) for term in words.terms(word)]
    for name, widened in (("stemmed", _heads(asked)), ("fragment", asked)):
        scores: dict[int, float] = {}
        for part in widened:
            if len(part) < _SHORTEST:
                continue
            pattern = f"{re.escape(part)}.*" if name == "stemmed" else f".*{re.escape(part)}.*"
            for rank, hit in enumerate(retriever.index.matching(pattern, MAX_HITS)):
                scores[hit.chunk] = scores.get(hit.chunk, 0.0) + 1.0 / (1 + rank)
        if scores:
            top = max(scores.values())
            ordered = sorted(((n, s / top) for n, s in scores.items()), key=lambda pair: (-pair[1], pair[0]))
            return name, replace(
                missed, scored=tuple(ordered[:MAX_HITS]), lists={name: [n for n, _ in ordered]}
            )
    return "", missed


def _heads(asked: list[str]) -> list[str]:
    return [word[: max(_SHORTEST, len(word) - 3)] for word in asked if len(word) > _SHORTEST + 1]
