"""From a rung's name to something that answers the questions of one group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from eval.answers import Answer
from eval.golden import Question
from eval.material import Material
from eval.rungs.lexical import BM25, MinSearch, Newest, Tail
from eval.rungs.options import RungOptions

LADDER = ("newest_first", "tail", "minsearch", "bm25", "hybrid", "single_shot", "agentic", "oracle")
ENGINE = frozenset({"single_shot", "agentic", "oracle"})


class Rung(Protocol):
    """Answers questions about one corpus."""

    def ask(self, question: Question) -> Answer:
        """The answer to one question."""
        ...


class ByLanguage:
    """A rung whose analysis depends on the question's language: one index a language, made when asked."""

    def __init__(self, make: Callable[[str], Rung]) -> None:
        self._make = make
        self._made: dict[str, Rung] = {}

    def ask(self, question: Question) -> Answer:
        """The answer of the index in the question's language."""
        if question.lang not in self._made:
            self._made[question.lang] = self._make(question.lang)
        return self._made[question.lang].ask(question)


def build(name: str, material: Material, options: RungOptions) -> Rung:
    """The rung `name` over `material`.

    Raises:
        ValueError: there is no such rung.
        ImportError: the package behind it is not installed.
    """
    if name in ENGINE:
        from eval.rungs.engine import EngineRung

        return EngineRung(name, material, options.engine)
    documents, lane = material.documents(), material.lane
    if name == "newest_first":
        return Newest(documents, lane)
    if name == "tail":
        return Tail(documents, lane)
    if name == "minsearch":
        return MinSearch(documents, lane)
    if name == "bm25":
        return ByLanguage(lambda lang: BM25(documents, lane, lang))
    if name == "hybrid":
        from eval.rungs.dense import Hybrid, encoder_for

        encoder = encoder_for(options.embeddings, options.vectors)
        return ByLanguage(lambda lang: Hybrid(documents, lane, lang, encoder))
    raise ValueError(f"there is no rung {name!r}; there are {', '.join(LADDER)}")
