"""Passages of plain rungs: windows of about 1.6k characters at line ends, as the specification's corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentloop import tokens
from eval.answers import Answer, Piece
from eval.golden import Lane, LineSpan
from eval.material import Document

WINDOW_CHARS = 1600  # the specification: 1.6k-char windows
DEPTH = 1000  # documents kept in a run file
PIECES = 200  # passages whose tokens and lines are kept


@dataclass(frozen=True, slots=True)
class Passage:
    """A window of a document: its text and lines."""

    doc: str
    text: str
    first: int
    last: int
    timestamp: str = ""


def windows(documents: Sequence[Document]) -> list[Passage]:
    """All passages, in corpus order; a line longer than a window is one passage."""
    found: list[Passage] = []
    for document in documents:
        lines = document.text.split("\n")
        first, size = 1, 0
        for number, line in enumerate(lines, 1):
            if size and size + len(line) > WINDOW_CHARS:
                text = "\n".join(lines[first - 1 : number - 1])
                found.append(Passage(document.doc, text, first, number - 1, document.timestamp))
                first, size = number, 0
            size += len(line) + 1
        rest = "\n".join(lines[first - 1 :])
        if rest or first == 1:
            found.append(Passage(document.doc, rest, first, len(lines), document.timestamp))
    return found


def answer(qid: str, order: Sequence[Passage], lane: Lane) -> Answer:
    """An answer from passages, best first. Tokens are those of the raw text that would be sent."""
    kept = order[:PIECES]
    counts = tokens.count_all([p.text for p in kept])
    pieces = tuple(
        Piece(
            docs=(p.doc,),
            tokens=count,
            lines=() if lane in {Lane.RECORDS, Lane.EXPORT} else (LineSpan(p.doc, p.first, p.last),),
        )
        for p, count in zip(kept, counts, strict=True)
    )
    tail = tuple(dict.fromkeys(p.doc for p in order))[:DEPTH]
    return Answer(qid=qid, pieces=pieces, tail=tail, calls=1)
