"""Fitting a pack to its budgets: what leaves, in which shape, and what a budget that is too small needs.

Order: every item is bounded by `per_chunk_compression_budget`; lower-ranked items are dropped until the
pack is within `final_evidence_pack_budget` and, with provenance and the overhead of a tool response, within
`remote_model_context_budget`. Examples in `coverage` shrink before any item is dropped. The first items may
be rich (longer claims, more refs), the rest are lean, so that a small budget still holds many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from agentloop import tokens
from agentloop.compress.accounts import PROVENANCE_TOKENS
from agentloop.compress.items import Prepared, shape
from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.pack import (
    SCHEMA_NAMES,
    SCHEMA_VERSION,
    AnswerSentence,
    BudgetAccount,
    Coverage,
    EvidenceItem,
    InputScope,
    Pack,
    PackWarning,
    Payload,
    Provenance,
    QualitySignals,
    Retrieval,
    final_pack_tokens,
    to_json,
    with_short_hashes,
)
from agentloop.request import CompressRequest, Constraints

RESPONSE_OVERHEAD_TOKENS = 64  # the frame of an MCP or HTTP tool response around a pack
LEAN_CLAIM_TOKENS = 45
RICH_CLAIM_TOKENS = 110
RICH_ITEMS = 3  # so many of the first items may be rich from the start, where the budget is no tight one:
RICH_FROM = 3000  # below, breadth is worth more than depth
RICH_SHARE = 4  # and they take no more than a quarter of the room beyond their lean form
LEAN_REFS = 1
LEAST_CLAIM = 16
RICH_REFS = 3
FIRST_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Envelope:
    """Everything of a payload but its items."""

    request: CompressRequest
    query: str
    scope: InputScope
    retrieval: Retrieval
    coverage: Coverage
    warnings: tuple[PackWarning, ...]
    retrieved_tokens: int
    policy_mode: str
    quality: QualitySignals
    details: dict[str, Any]
    answer: tuple[AnswerSentence, ...]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A payload within its budgets, and how many items it had no room for."""

    schema_name: str
    payload: Payload
    quality: QualitySignals
    trimmed: int

    def pack(self, provenance: Provenance) -> Pack:
        """The whole envelope."""
        return Pack(
            schema_name=self.schema_name,
            schema_version=SCHEMA_VERSION,
            payload=self.payload,
            evidence_refs=tuple(item.id for item in self.payload.evidence),
            quality_signals=self.quality,
            provenance=provenance,
        )

    def content(self) -> dict[str, Any]:
        """The released form without provenance: what `final_pack_tokens` counts."""
        empty = Provenance(agentloop="", created="", seconds=0, pack_id="")
        content: dict[str, Any] = with_short_hashes(to_json(self.pack(empty)))
        del content["provenance"]
        return content


class Frame(Protocol):
    """Makes the envelope for so many items and examples a reason; `bare` cuts the echoed question short."""

    def __call__(self, items: int, examples: int, *, bare: bool) -> Envelope:
        """The envelope."""
        ...


def fit(prepared: Sequence[Prepared], frame: Frame, constraints: Constraints, most_examples: int) -> Fitted:
    """The largest pack within the budgets; never an empty one where there is evidence.

    Raises:
        AgentloopError: EVIDENCE_PACK_OVER_BUDGET or REMOTE_CONTEXT_BUDGET_EXCEEDED; `details.least` is the
            smallest budget that would do.
    """
    limit, code, name = pack_limit(constraints)
    per_item = constraints.per_chunk_compression_budget
    lean = [shape(p, n, LEAN_CLAIM_TOKENS, LEAN_REFS, per_item) for n, p in enumerate(prepared, 1)]
    _check_items(lean, per_item)
    examples = FIRST_EXAMPLES if limit > RICH_FROM else 1
    room = limit - _payload([], frame, examples).payload.budget.final_pack_tokens
    items = _choose(prepared, lean, room, per_item)
    while items or not prepared:
        fitted = _with_examples(items, frame, limit, most_examples)
        if fitted is not None:
            return _counted(fitted, len(prepared))
        if not items:
            break
        items = items[:-1] if items[-1] == lean[len(items) - 1] else [*items[:-1], lean[len(items) - 1]]
    smallest = _payload([shape(p, 1, LEAST_CLAIM, 1, per_item) for p in prepared[:1]], frame, 0, bare=True)
    least = smallest.payload.budget.final_pack_tokens
    if least <= limit:
        return _counted(smallest, len(prepared))
    if code is ErrorCode.REMOTE_CONTEXT_BUDGET_EXCEEDED:
        least += PROVENANCE_TOKENS + RESPONSE_OVERHEAD_TOKENS
    raise AgentloopError(
        code,
        f"{name} is too small for one evidence item: it needs at least {least} tokens.",
        Stage.COMPRESSION,
        {"budget": name, "least": least},
    )


def _counted(fitted: Fitted, prepared: int) -> Fitted:
    return replace(fitted, trimmed=prepared - len(fitted.payload.evidence))


def pack_limit(constraints: Constraints) -> tuple[int, ErrorCode, str]:
    """The tighter of the two budgets that bound the pack, and what to say when it is too tight."""
    final = constraints.final_evidence_pack_budget
    remote = constraints.remote_model_context_budget - PROVENANCE_TOKENS - RESPONSE_OVERHEAD_TOKENS
    if remote < final:
        return remote, ErrorCode.REMOTE_CONTEXT_BUDGET_EXCEEDED, "remote_model_context_budget"
    return final, ErrorCode.EVIDENCE_PACK_OVER_BUDGET, "final_evidence_pack_budget"


def _check_items(lean: Sequence[EvidenceItem], per_item: int) -> None:
    over = [item.tokens for item in lean if item.tokens > per_item]
    if over:
        raise AgentloopError(
            ErrorCode.EVIDENCE_PACK_OVER_BUDGET,
            f"per_chunk_compression_budget={per_item} is too small for an evidence item: it needs at least "
            f"{max(over)} tokens.",
            Stage.COMPRESSION,
            {"budget": "per_chunk_compression_budget", "least": max(over)},
        )


def _choose(
    prepared: Sequence[Prepared], lean: Sequence[EvidenceItem], room: int, per_item: int
) -> list[EvidenceItem]:
    """Items in order while they fit: the first few rich, then lean ones, then room left makes more rich."""
    id_cost = 6  # the id in evidence_refs and the comma
    rich_room = room // RICH_SHARE if room > RICH_FROM else 0
    items: list[EvidenceItem] = []
    used = 0
    for n, item in enumerate(lean):
        chosen = item
        if n < RICH_ITEMS:
            rich = shape(prepared[n], n + 1, RICH_CLAIM_TOKENS, RICH_REFS, per_item)
            if rich.tokens - item.tokens <= rich_room:
                rich_room -= rich.tokens - item.tokens
                chosen = rich
        if used + chosen.tokens + id_cost > room:
            chosen = item
        if used + chosen.tokens + id_cost > room:
            break
        used += chosen.tokens + id_cost
        items.append(chosen)
    for n in range(len(items)):
        if items[n] is lean[n]:
            rich = shape(prepared[n], n + 1, RICH_CLAIM_TOKENS, RICH_REFS, per_item)
            if used + rich.tokens - items[n].tokens > room:
                continue
            used += rich.tokens - items[n].tokens
            items[n] = rich
    return items


def _with_examples(
    items: Sequence[EvidenceItem], frame: Frame, limit: int, most_examples: int
) -> Fitted | None:
    """The pack with as many examples as leave it within the limit, or None where even none do."""
    best = _payload(items, frame, 0)
    if best.payload.budget.final_pack_tokens > limit:
        return None
    low, high = 0, most_examples
    while low < high:
        middle = (low + high + 1) // 2
        tried = _payload(items, frame, middle)
        if tried.payload.budget.final_pack_tokens <= limit:
            low, best = middle, tried
        else:
            high = middle - 1
    return best


def _payload(items: Sequence[EvidenceItem], frame: Frame, examples: int, *, bare: bool = False) -> Fitted:
    """A payload of these items; `trimmed` is not counted yet."""
    return enclose(items, frame(len(items), examples, bare=bare))


def enclose(items: Sequence[EvidenceItem], around: Envelope) -> Fitted:
    """The payload of an envelope with these items in it, its tokens counted; `trimmed` is not."""
    account = BudgetAccount(
        retrieved_chunk_tokens=around.retrieved_tokens,
        compressed_tokens=sum(item.tokens for item in items),
        final_pack_tokens=0,
        remote_context_budget=around.request.constraints.remote_model_context_budget,
        tokenizer=tokens.TOKENIZER,
    )
    payload = Payload(
        query=around.query,
        input_scope=around.scope,
        retrieval=around.retrieval,
        evidence=tuple(items),
        coverage=around.coverage,
        budget=account,
        warnings=around.warnings,
        policy_mode=around.policy_mode,
        details=around.details,
        answer=around.answer,
    )
    fitted = Fitted(SCHEMA_NAMES[around.request.task_type], payload, around.quality, 0)
    counted = final_pack_tokens(fitted.content())
    budget = account.model_copy(update={"final_pack_tokens": counted})
    return replace(fitted, payload=payload.model_copy(update={"budget": budget}))
