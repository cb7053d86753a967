"""What a rung gives back for one question, and how it is kept on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from eval.golden import LineSpan


@dataclass(frozen=True, slots=True)
class Piece:
    """One evidence item, or one passage of a plain rung: its documents in order, and its cost.

    The first `decisive` documents are those of `source_refs[0]`, which alone counts for an item's rank.
    """

    docs: tuple[str, ...]
    tokens: int
    decisive: int = 1
    lines: tuple[LineSpan, ...] = ()
    confidence: float | None = None
    relevance: float | None = None


@dataclass(frozen=True, slots=True)
class PackFacts:
    """One whole pack at one budget, checked against the original files.

    `refs` were released, `refs_ok` re-hash to the same bytes; `claims` counts items, `supported` those
    whose claim's words stand in the referenced text.
    """

    budget: int
    tokens: int
    pieces: tuple[Piece, ...]
    refs: int = 0
    refs_ok: int = 0
    claims: int = 0
    supported: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A rung's answer. `pieces` are in order of evidence, `tail` the ranked documents beyond them."""

    qid: str
    pieces: tuple[Piece, ...] = ()
    tail: tuple[str, ...] = ()
    packs: tuple[PackFacts, ...] = ()
    seconds: float = 0.0
    calls: int = 0
    turns: int = 0
    tokens: int = 0  # what the caller receives: the pack, or the passages within the largest budget
    model_tokens: int = 0  # what a chat model was sent and wrote
    cost: float = 0.0
    error: str = ""  # why it could not be answered: counted apart from zero
    notes: Mapping[str, Any] = field(default_factory=dict)

    def ranking(self, depth: int = 1000) -> list[str]:
        """Distinct documents: those of the evidence in its order, then the rest of the ranking."""
        order = dict.fromkeys(doc for piece in self.pieces for doc in piece.docs)
        order.update(dict.fromkeys(self.tail))
        return list(order)[:depth]

    def to_json(self) -> dict[str, Any]:
        """JSON values; `from_json` reads them back."""
        return asdict(self)


def answer_from_json(row: Mapping[str, Any]) -> Answer:
    """An answer as `Answer.to_json` wrote it."""
    values = dict(row)
    values["pieces"] = tuple(_piece(p) for p in row["pieces"])
    values["tail"] = tuple(row["tail"])
    values["packs"] = tuple(
        PackFacts(**{**pack, "pieces": tuple(_piece(p) for p in pack["pieces"])}) for pack in row["packs"]
    )
    return Answer(**values)


def _piece(row: Mapping[str, Any]) -> Piece:
    return Piece(
        docs=tuple(row["docs"]),
        tokens=row["tokens"],
        decisive=row["decisive"],
        lines=tuple(LineSpan(**span) for span in row["lines"]),
        confidence=row["confidence"],
        relevance=row["relevance"],
    )
