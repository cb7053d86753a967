"""The claims of a model's last reply. What can't be read, or cites nothing of this loop, is named."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from agentloop.redact.injection import instruction_like

MAX_CLAIM_CHARS = 600
MAX_REFS = 4  # as many as an evidence item may carry
_REF = re.compile(r"c\d{1,9}")
_CITED = re.compile(r"\s*[\[(]\s*(c\d{1,9}(?:\s*[,;]?\s*c\d{1,9})*)\s*[\])]")
_FENCE = re.compile(r"^```[a-z]*\s*|\s*```$")


@dataclass(frozen=True, slots=True)
class ModelClaim:
    """A sentence by a model, and the refs that it cites, in the model's order."""

    claim: str
    refs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A claim that was dropped, and why."""

    claim: str
    reason: str


@dataclass(frozen=True, slots=True)
class Final:
    """A parsed last reply."""

    claims: tuple[ModelClaim, ...]
    answer: tuple[ModelClaim, ...]
    rejected: tuple[Rejected, ...] = ()


def parse_final(text: str, seen: Collection[str], most: int) -> Final | None:
    """The claims of a last reply, or None where it has not the form that was asked for.

    Args:
        text: a JSON object with `claims` (objects with `claim` and `refs`, or strings that end with
            refs in brackets) and, in answer mode, `answer` of the same shape.
        seen: refs that the tools of this loop returned; no other ref may be cited.
        most: how many claims are taken; later ones are rejected by name.
    """
    data = _object(text)
    if data is None or not isinstance(data.get("claims"), list):
        return None
    claims, rejected = _claims(data["claims"], seen, most)
    stated = data.get("answer")
    entries = stated if isinstance(stated, list) else [stated] if isinstance(stated, str) else []
    answer, more = _claims(entries, seen, most)
    return Final(tuple(claims), tuple(answer), tuple(rejected + more))


def is_final(text: str) -> bool:
    """Whether a text has the form of a last reply."""
    return parse_final(text, (), 0) is not None


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object of a reply; fences and a sentence around it are forgiven."""
    bare = _FENCE.sub("", text.strip())
    start, end = bare.find("{"), bare.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        value = json.loads(bare[start : end + 1])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _claims(
    entries: Sequence[Any], seen: Collection[str], most: int
) -> tuple[list[ModelClaim], list[Rejected]]:
    kept: list[ModelClaim] = []
    rejected: list[Rejected] = []
    for entry in entries:
        sentence, refs = _entry(entry)
        known = tuple(dict.fromkeys(ref for ref in refs if ref in seen))[:MAX_REFS]
        shown = sentence[:MAX_CLAIM_CHARS]
        if not sentence:
            rejected.append(Rejected(shown, "it is empty or has no readable form"))
        elif len(sentence) > MAX_CLAIM_CHARS:
            rejected.append(Rejected(shown, f"it is longer than {MAX_CLAIM_CHARS} characters"))
        elif instruction_like(sentence):
            rejected.append(Rejected(shown, "it reads as an order to a model"))
        elif not refs:
            rejected.append(Rejected(shown, "it cites nothing"))
        elif not known:
            rejected.append(Rejected(shown, "it cites no passage that this loop saw"))
        elif len(kept) >= most:
            rejected.append(Rejected(shown, f"it comes after the first {most}"))
        else:
            kept.append(ModelClaim(sentence, known))
    return kept, rejected


def _entry(entry: Any) -> tuple[str, list[str]]:
    """The sentence and the refs of one entry, in either form."""
    refs: list[str] = []
    sentence: Any = entry
    if isinstance(entry, dict):
        sentence = entry.get("claim", entry.get("text", ""))
        given = entry.get("refs", [])
        values = given if isinstance(given, list) else [given]
        refs = [ref for value in values if isinstance(value, str) for ref in _REF.findall(value)]
    if not isinstance(sentence, str):
        return "", []
    for cited in _CITED.findall(sentence):
        refs += _REF.findall(cited)
    return " ".join(_CITED.sub("", sentence).split()), refs
