"""Run files and item files, as DESIGN's "Eval output" fixes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from eval.answers import Answer
from eval.golden import Question
from eval.metrics import run_scores

TO_ENCODE = re.compile(r"[\s%]")


def encode_id(name: str) -> str:
    """`name`, percent-encoded where it holds white space; `urllib.parse.unquote` gives it back."""
    if not re.search(r"\s", name):
        return name
    return TO_ENCODE.sub(lambda m: "".join(f"%{byte:02X}" for byte in m[0].encode()), name)


def write_run(path: Path, questions: Iterable[Question], answers: Mapping[str, Answer], tag: str) -> None:
    """`qid Q0 docid rank score tag`, a line a document; questions in the set's order, scores falling."""
    rankings = {
        q.qid: answers[q.qid].ranking() for q in questions if q.qid in answers and not answers[q.qid].error
    }
    scores = run_scores(rankings)
    lines = [
        f"{encode_id(qid)} Q0 {encode_id(doc)} {rank} {scores[qid][doc]:.1f} {tag}\n"
        for qid, docs in rankings.items()
        for rank, doc in enumerate(docs, 1)
    ]
    _write(path, "".join(lines))


def write_items(path: Path, questions: Iterable[Question], answers: Mapping[str, Answer]) -> None:
    """A line a question: `{"id", "items": [{"rank", "docs", "tokens", "lines"?, "confidence"?}]}`.

    A row of `items` is an evidence item (of a plain rung: a passage). `lines` are `path:first-last`.
    """
    rows = []
    for question in questions:
        answer = answers.get(question.qid)
        if answer is None or answer.error:
            continue
        items = [
            {
                "rank": rank,
                "docs": [encode_id(doc) for doc in piece.docs],
                "tokens": piece.tokens,
                **({"lines": [f"{s.doc}:{s.first}-{s.last}" for s in piece.lines]} if piece.lines else {}),
                **({"confidence": piece.confidence} if piece.confidence is not None else {}),
            }
            for rank, piece in enumerate(answer.pieces, 1)
        ]
        rows.append(json.dumps({"id": question.qid, "items": items}, ensure_ascii=False) + "\n")
    _write(path, "".join(rows))


def write_qrels(path: Path, questions: Iterable[Question]) -> None:
    """`qid 0 docid 1`: the gold that the metrics were computed with, so that anyone can again."""
    lines = [f"{encode_id(q.qid)} 0 {encode_id(doc)} 1\n" for q in questions for doc in q.docs]
    _write(path, "".join(lines))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
