"""`details` and `answer` of a merged pack: rows of the shards' own, with the ids that items have now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from agentloop.pack import AnswerSentence
from agentloop.request import CompressRequest

Ids = Mapping[tuple[int, str], str]
"""The new id of an item by the number of its part and its id there; those that don't leave have none."""

SHARE = 0.15  # of the pack's budget: the rest is for evidence
CHARS_PER_TOKEN = 3  # of JSON with numbers and paths, on the safe side
_SAME = ("path", "name", "test", "symbol")  # what names a row: rows of one name are of one thing


def merge_answers(answers: Sequence[Sequence[AnswerSentence]], ids: Ids) -> tuple[AnswerSentence, ...]:
    """The sentences whose evidence leaves, those on the best evidence first, none twice."""
    found: dict[str, AnswerSentence] = {}
    for number, sentences in enumerate(answers):
        for sentence in sentences:
            named = [ids.get((number, own)) for own in sentence.evidence]
            if all(named):
                told = AnswerSentence(text=sentence.text, evidence=tuple(n for n in named if n))
                found.setdefault(sentence.text, told)
    return tuple(sorted(found.values(), key=lambda sentence: min(sentence.evidence)))


def merge_details(request: CompressRequest, parts: Sequence[Mapping[str, Any]], ids: Ids) -> dict[str, Any]:
    """The task's own fields of all parts, within their share of the budget.

    Counts add up. Rows stand by the best evidence that they name, else in turn, each part's first first;
    a row whose evidence does not leave is left out, and one thing that several parts tell is told once.
    Of a single value (a patch) the first part's stays.
    """
    room = int(request.constraints.final_evidence_pack_budget * SHARE * CHARS_PER_TOKEN)
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        values = [(number, part[name]) for number, part in enumerate(parts) if name in part]
        first = values[0][1]
        if isinstance(first, list | tuple):
            rows, room = _rows([(number, list(value)) for number, value in values], ids, room)
            if rows:
                merged[name] = rows
        elif isinstance(first, int) and not isinstance(first, bool):
            merged[name] = sum(value for _, value in values)
        else:
            merged[name] = first
    return merged


def _rows(columns: Sequence[tuple[int, list[Any]]], ids: Ids, room: int) -> tuple[list[Any], int]:
    """Rows while there is room, and what is left of it."""
    kept: dict[str, Any] = {}
    for row in _ordered(columns, ids):
        key = _key(row)
        if key in kept:
            kept[key] = _joined(kept[key], row)
            continue
        size = len(json.dumps(row, ensure_ascii=False, separators=(",", ":"))) + 1
        if size > room:
            break
        room -= size
        kept[key] = row
    return list(kept.values()), room


def _ordered(columns: Sequence[tuple[int, list[Any]]], ids: Ids) -> Iterator[Any]:
    """Rows with new ids: by their best evidence where they name any, else in turn."""
    turns = [
        [_renamed(row, number, ids) for row in rows if not _unseen(row, number, ids)]
        for number, rows in columns
    ]
    flat = [row for turn in zip_longest(*turns) for row in turn if row is not None]
    return iter(sorted(flat, key=lambda row: min(row["evidence"]) if _cites(row) else ""))


def _cites(row: Any) -> bool:
    return isinstance(row, dict) and bool(row.get("evidence"))


def _unseen(row: Any, number: int, ids: Ids) -> bool:
    """Whether a row rests on evidence that doesn't leave."""
    return _cites(row) and not any((number, own) in ids for own in row["evidence"])


def _renamed(row: Any, number: int, ids: Ids) -> Any:
    if not _cites(row):
        return row
    return {**row, "evidence": [ids[number, own] for own in row["evidence"] if (number, own) in ids]}


def _key(row: Any) -> str:
    """What a row on evidence is of: its name. Other rows are the same only where all of them is."""
    named = [row[name] for name in _SAME if name in row] if _cites(row) else []
    return json.dumps(named or row, sort_keys=True)


def _joined(first: Any, again: Any) -> Any:
    """Two rows of one thing: the first, with the evidence of both; a folder's files add up."""
    if not isinstance(first, dict) or "evidence" not in first:
        return first
    joined = {**first, "evidence": list(dict.fromkeys([*first["evidence"], *again.get("evidence", ())]))}
    if "files" in first and "files" in again:
        joined["files"] = first["files"] + again["files"]
    return joined
