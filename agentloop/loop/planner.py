"""The built-in planner: a deterministic brain without weights. It drives the same loop and tools.

How it works: search the question; then, for the best passages in turn, search the names that a passage
brought together with the terms of the question that it leaves open. That second query finds the other
end of a bridge ("the county where X lies" → the county's own page) and wording that the question lacks.
A passage that a bridge found is expanded before the next of the first passages. It stops when no
passage leaves a term open or brings a new name, or when two searches in a row showed nothing new. It
claims nothing: the extractive stage does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentloop.loop import wording
from agentloop.loop.messages import FinalTurn, Message, Reply, ToolCall, ToolSpec, Window
from agentloop.loop.tools import SEARCH, FormatError, parse_call

NO_CLAIMS = json.dumps({"claims": []})
MAX_QUESTION_TERMS = 32  # longer questions are searched by their parts
MAX_PARTS = 2  # searches for quoted strings, paths and identifiers of the question
EXPANDED = 5  # passages of the first search that may be expanded
BRIDGED = 1  # passages of an expansion that may be expanded in turn
BARREN = 2  # expansions in a row without a new passage end the search
MAX_NEW_NAMES = 20  # in one expansion; measured in docs/models.md


@dataclass(frozen=True, slots=True)
class _Seen:
    """A passage as a tool message showed it."""

    ref: str
    text: str  # the snippet


@dataclass(slots=True)
class _Plan:
    """What is still to be expanded, and what was seen and asked."""

    queue: list[_Seen] = field(default_factory=list)
    expanded: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)
    barren: int = 0  # expansions in a row that showed nothing new


class BuiltinPlanner:
    """A `ChatModel` that plans by the shapes of words. One instance serves one request."""

    name = "builtin"
    window = Window()

    def __init__(self, question: str, max_tool_calls: int) -> None:
        self._question = question
        self._terms = wording.content_terms(question)
        self._asked = wording.Vocabulary([question])
        self._left = max_tool_calls
        self._plan = _Plan()
        self._turn = 0

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        timeout: float,  # noqa: ASYNC109 - part of the protocol
        final: FinalTurn | None = None,
    ) -> Reply:
        """The next searches, or a last reply that claims nothing."""
        self._turn += 1
        calls = self._next(messages) if tools else []
        if not calls:
            return Reply(NO_CLAIMS)
        return Reply(tool_calls=tuple(calls))

    def _next(self, messages: Sequence[Message]) -> list[ToolCall]:
        if self._turn == 1:
            queries = self._opening()
        else:
            self._learn(messages)
            queries = self._expansion()
        return [_search(query, number) for number, query in enumerate(queries[: self._left])]

    def _opening(self) -> list[str]:
        """The question, then the parts of it that say most by their form."""
        parts = [
            *wording.quoted(self._question),
            *wording.paths(self._question),
            *wording.identifiers(self._question),
        ]
        lines = wording.sentences(self._question) if len(self._terms) > MAX_QUESTION_TERMS else []
        whole = " ".join(self._terms[:MAX_QUESTION_TERMS]) or self._question.strip()
        queries = [whole, *lines[:1], *parts]
        return self._fresh(queries)[: 1 + MAX_PARTS]

    def _learn(self, messages: Sequence[Message]) -> None:
        """Queue what the last turn's results showed: a bridge's first passages go before the rest."""
        plan = self._plan
        first = not plan.expanded and not plan.queue
        found: list[_Seen] = []
        before = len(plan.shown)
        for result in _last_results(messages):
            self._left = int(result.get("calls_left", self._left))
            passages = [_seen(p) for p in result.get("passages", []) if isinstance(p, dict)]
            plan.shown.update(p.ref for p in passages)
            found += passages[: EXPANDED if first else BRIDGED]
        plan.barren = 0 if len(plan.shown) > before else plan.barren + 1
        known = {seen.ref for seen in plan.queue} | plan.expanded
        fresh: dict[str, _Seen] = {}
        for seen in found:
            if seen.ref not in known:
                fresh.setdefault(seen.ref, seen)
        plan.queue = [*fresh.values(), *plan.queue]

    def _expansion(self) -> list[str]:
        """One query from the next passage that leaves something open and brings something new."""
        plan = self._plan
        while plan.queue and plan.barren < BARREN:
            seen = plan.queue.pop(0)
            plan.expanded.add(seen.ref)
            held = wording.Vocabulary([seen.text])
            still_open = [term for term in self._terms if term not in held]
            new = [name for name in wording.names(seen.text) if name not in self._asked][:MAX_NEW_NAMES]
            if not still_open or not new or len(still_open) == len(self._terms):
                continue
            queries = self._fresh([" ".join([*new, *still_open])])
            if queries:
                return queries
        return []

    def _fresh(self, queries: Sequence[str]) -> list[str]:
        """Queries that were not asked yet, in the form in which the loop compares them."""
        fresh: list[str] = []
        for query in queries:
            try:
                call = parse_call(SEARCH, json.dumps({"query": query}))
            except FormatError:
                continue
            if call.argument not in self._plan.asked:
                self._plan.asked.add(call.argument)
                fresh.append(call.argument)
        return fresh


def _search(query: str, number: int) -> ToolCall:
    return ToolCall(f"b{number}", SEARCH, json.dumps({"query": query}, ensure_ascii=False))


def _last_results(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The payloads of the tool messages after the last assistant message."""
    last = max((n for n, m in enumerate(messages) if m.role == "assistant"), default=-1)
    return [json.loads(m.content) for m in messages[last + 1 :] if m.role == "tool"]


def _seen(passage: dict[str, Any]) -> _Seen:
    return _Seen(str(passage["ref"]), str(passage["snippet"]))
