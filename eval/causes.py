"""Where the loop helps and where it harms: gains and losses of `agentic` over `single_shot`, by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from eval.answers import Answer
from eval.golden import Question

TOP = 10
EXAMPLES = 3

FOUND = "a search found what the first pass did not have"
RAISED = "a search raised what the first pass ranked low"
READ = "reading found it"
ORDER = "order alone"
PUSHED = "pushed out by what searches brought"


def causes(
    questions: Sequence[Question], before: Mapping[str, Answer], after: Mapping[str, Answer]
) -> list[dict[str, Any]]:
    """Rows `{"change", "cause", "documents", "questions", "examples"}`, the most frequent first.

    A gain is a gold document that is among the first ten of `after` only, a loss of `before` only.
    `examples` name the question and the search or read that decided it.
    """
    counted: Counter[tuple[str, str]] = Counter()
    asked: dict[tuple[str, str], dict[str, None]] = {}
    examples: dict[tuple[str, str], list[str]] = {}
    for question in questions:
        a, b = before.get(question.qid), after.get(question.qid)
        if a is None or b is None or a.error or b.error:
            continue
        old, new = a.ranking(), b.ranking()
        for doc in question.docs:
            was, now = doc in old[:TOP], doc in new[:TOP]
            if was == now:
                continue
            cause, example = _gain(doc, old, b) if now else _loss(old, new, b)
            key = ("gain" if now else "loss", cause)
            counted[key] += 1
            asked.setdefault(key, {})[question.qid] = None
            if example and len(examples.setdefault(key, [])) < EXAMPLES:
                examples[key].append(f"{question.qid}: {example}")
    return [
        {
            "change": key[0],
            "cause": key[1],
            "documents": count,
            "questions": len(asked[key]),
            "examples": examples.get(key, []),
        }
        for key, count in sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    ]


def _gain(doc: str, old: Sequence[str], answer: Answer) -> tuple[str, str]:
    for call in answer.notes.get("calls", ()):
        if doc in call["docs"]:
            told = f"{call['tool']} {call['argument']!r}"
            if call["tool"] != "search_data":
                return READ, told
            return (RAISED if doc in old else FOUND), told
    return ORDER, ""


def _loss(old: Sequence[str], new: Sequence[str], answer: Answer) -> tuple[str, str]:
    fresh = [doc for doc in new[:TOP] if doc not in old[:TOP]]
    for call in answer.notes.get("calls", ()):
        if any(doc in call["docs"] for doc in fresh):
            return PUSHED, f"{call['tool']} {call['argument']!r}"
    return ORDER, ""
