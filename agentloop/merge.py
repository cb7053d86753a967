"""The reducer of sharded requests: packs in, one pack out. Pure; nothing of the corpus is needed.

Items keep their claims and refs, with the inputs numbered as the whole request has them. They compete
by relevance, then confidence, then shard order; items whose decisive span is the same are collapsed.
Counts add up, warnings are joined, and a shard that gave no pack is named in `coverage.shards_failed`.
`details` and `answer`, which speak of one shard's items, stay in the shards' own packs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentloop import __version__
from agentloop.compress.accounts import PROVENANCE_TOKENS
from agentloop.compress.fit import RESPONSE_OVERHEAD_TOKENS
from agentloop.compress.items import item_tokens
from agentloop.errors import AgentloopError, ErrorCode, Stage, WarningCode
from agentloop.pack import (
    SCHEMA_NAMES,
    SCHEMA_VERSION,
    BudgetAccount,
    Collapsed,
    Coverage,
    EvidenceItem,
    InputScope,
    Pack,
    PackWarning,
    Payload,
    Provenance,
    QualitySignals,
    Retrieval,
    SkippedExamples,
    SourceRef,
    canonical,
    final_pack_tokens,
    short_hash,
    to_json,
    with_short_hashes,
)
from agentloop.request import CompressRequest

MAX_EXAMPLES = 3  # of a skip reason in a merged pack; each shard's `coverage.json` has them all


@dataclass(frozen=True, slots=True)
class Part:
    """One shard's pack (with whole hashes), its name, and which inputs of the request it had, from 0."""

    name: str
    pack: Pack
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stamp:
    """What makes the provenance of a merged pack."""

    job_id: str
    created: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged pack as it leaves, and its local artifacts by file name."""

    released: dict[str, Any]
    artifacts: dict[str, bytes]


def merge_packs(
    request: CompressRequest, parts: Sequence[Part], failed: Sequence[str], stamp: Stamp
) -> Merged:
    """Merge the packs of a request's shards; `failed` names those that gave none.

    Raises:
        AgentloopError: EVIDENCE_PACK_OVER_BUDGET, not one item fits.
    """
    ranked = _ranked(parts)
    limit = min(
        request.constraints.final_evidence_pack_budget,
        request.constraints.remote_model_context_budget - PROVENANCE_TOKENS - RESPONSE_OVERHEAD_TOKENS,
    )
    low, high = 0, len(ranked)
    while low < high:  # the most items that fit: a pack only grows with each
        middle = (low + high + 1) // 2
        if _tokens(_pack(request, parts, failed, ranked[:middle], len(ranked))) <= limit:
            low = middle
        else:
            high = middle - 1
    pack = _pack(request, parts, failed, ranked[:low], len(ranked))
    if _tokens(pack) > limit or (ranked and not low):
        raise AgentloopError(
            ErrorCode.EVIDENCE_PACK_OVER_BUDGET,
            "final_evidence_pack_budget is too small for one item of the merged pack; raise it.",
            Stage.COMPRESSION,
            {"budget": limit},
        )
    return _stamped(pack, parts, stamp)


def _ranked(parts: Sequence[Part]) -> list[EvidenceItem]:
    """All items, best first, those on the same span collapsed into the best of them."""
    order = sorted(
        (
            (-item.relevance, -item.confidence, number, place, _placed(item, part.inputs))
            for number, part in enumerate(parts)
            for place, item in enumerate(part.pack.payload.evidence)
        ),
        key=lambda entry: entry[:4],
    )
    kept: dict[tuple[str, str], EvidenceItem] = {}
    for *_, item in order:
        key = (item.kind, item.source_refs[0].chunk_hash)
        first = kept.get(key)
        kept[key] = item if first is None else _joined(first, item)
    return list(kept.values())


def _placed(item: EvidenceItem, inputs: Sequence[int]) -> EvidenceItem:
    """An item with the inputs numbered as in the whole request."""

    def name(input_id: str) -> str:
        return f"in{inputs[int(input_id.removeprefix('in')) - 1] + 1}"

    def moved(ref: SourceRef) -> SourceRef:
        return ref.model_copy(update={"input_id": name(ref.input_id)})

    collapsed = tuple(
        group.model_copy(
            update={
                "source_refs": tuple(
                    ref if ref.input_id is None else ref.model_copy(update={"input_id": name(ref.input_id)})
                    for ref in group.source_refs
                )
            }
        )
        for group in item.collapsed
    )
    refs = tuple(moved(ref) for ref in item.source_refs)
    return item.model_copy(update={"source_refs": refs, "collapsed": collapsed})


def _joined(first: EvidenceItem, again: EvidenceItem) -> EvidenceItem:
    """The better of two items on the same content, which now stands for one more."""
    count = sum(group.count for item in (first, again) for group in item.collapsed) + 1
    refs = first.collapsed[0].source_refs if first.collapsed else ()
    return first.model_copy(update={"collapsed": (Collapsed(count=count, source_refs=refs),)})


def _numbered(items: Sequence[EvidenceItem]) -> tuple[EvidenceItem, ...]:
    """Items with ids in order and their own token counts."""
    found = []
    for number, item in enumerate(items, 1):
        renamed = item.model_copy(update={"id": f"ev_{number:03d}"})
        found.append(renamed.model_copy(update={"tokens": item_tokens(renamed)}))
    return tuple(found)


def _pack(
    request: CompressRequest,
    parts: Sequence[Part],
    failed: Sequence[str],
    items: Sequence[EvidenceItem],
    ranked: int,
) -> Pack:
    evidence = _numbered(items)
    payloads = [part.pack.payload for part in parts]
    budget = BudgetAccount(
        retrieved_chunk_tokens=sum(p.budget.retrieved_chunk_tokens for p in payloads),
        compressed_tokens=sum(item.tokens for item in evidence),
        final_pack_tokens=0,
        remote_context_budget=request.constraints.remote_model_context_budget,
        tokenizer=payloads[0].budget.tokenizer,
    )
    payload = Payload(
        query=payloads[0].query,
        input_scope=_scope(request, parts),
        retrieval=_retrieval(payloads),
        evidence=evidence,
        coverage=_coverage(payloads, failed),
        budget=budget,
        warnings=_warnings(payloads, failed, ranked - len(items), request),
        policy_mode=payloads[0].policy_mode,
    )
    pack = Pack(
        schema_name=SCHEMA_NAMES[request.task_type],
        schema_version=SCHEMA_VERSION,
        payload=payload,
        evidence_refs=tuple(item.id for item in evidence),
        quality_signals=_quality(parts, len(items)),
        provenance=Provenance(agentloop="", created="", seconds=0, pack_id=""),
    )
    account = budget.model_copy(update={"final_pack_tokens": _tokens(pack)})
    return pack.model_copy(update={"payload": payload.model_copy(update={"budget": account})})


def _tokens(pack: Pack) -> int:
    return final_pack_tokens(with_short_hashes(to_json(pack)))


def _scope(request: CompressRequest, parts: Sequence[Part]) -> InputScope:
    """The inputs in the order of the request; those of failed shards have no hash and are left out."""
    found: dict[int, str] = {}
    for part in parts:
        found.update(zip(part.inputs, part.pack.payload.input_scope.source_refs, strict=True))
    level = max((part.pack.payload.input_scope.classification for part in parts), key=lambda c: c.rank)
    return InputScope(classification=level, source_refs=tuple(found[n] for n in sorted(found)))


def _retrieval(payloads: Sequence[Payload]) -> Retrieval:
    found = [payload.retrieval for payload in payloads]
    return Retrieval(
        strategies=tuple(dict.fromkeys(s for r in found for s in r.strategies)),
        chunks_considered=sum(r.chunks_considered for r in found),
        chunks_retrieved=sum(r.chunks_retrieved for r in found),
        chunks_reranked=sum(r.chunks_reranked for r in found),
        chunks_compressed=sum(r.chunks_compressed for r in found),
        mode=found[0].mode,
        model=found[0].model,
        tool_calls=sum(r.tool_calls for r in found),
        turns=sum(r.turns for r in found),
        stop_reason="merged",
    )


def _coverage(payloads: Sequence[Payload], failed: Sequence[str]) -> Coverage:
    found = [payload.coverage for payload in payloads]
    skipped: dict[str, SkippedExamples] = {}
    for reason in sorted({reason for c in found for reason in c.skipped}):
        mine = [c.skipped[reason] for c in found if reason in c.skipped]
        examples = tuple(path for one in mine for path in one.examples)[:MAX_EXAMPLES]
        skipped[reason] = SkippedExamples(count=sum(one.count for one in mine), examples=examples)
    return Coverage(
        files_seen=sum(c.files_seen for c in found),
        files_indexed=sum(c.files_indexed for c in found),
        bytes_indexed=sum(c.bytes_indexed for c in found),
        skipped=skipped,
        truncated=tuple(dict.fromkeys(name for c in found for name in c.truncated)),
        shards_failed=tuple(failed),
    )


def _warnings(
    payloads: Sequence[Payload], failed: Sequence[str], trimmed: int, request: CompressRequest
) -> tuple[PackWarning, ...]:
    trim = str(WarningCode.EVIDENCE_TRIMMED)
    told = {(w.code, w.message): w for p in payloads for w in p.warnings if w.code != trim}
    found = list(told.values())
    if failed:
        found.append(
            PackWarning(
                code=str(WarningCode.LOW_COVERAGE),
                message=f"{len(failed)} of {len(failed) + len(payloads)} shards gave no pack.",
                stage=str(Stage.COMPRESSION),
            )
        )
    if trimmed:
        budget = request.constraints.final_evidence_pack_budget
        message = f"{trimmed} lower-ranked items did not fit final_evidence_pack_budget={budget}."
        found.append(PackWarning(code=trim, message=message, stage=str(Stage.COMPRESSION)))
    return tuple(found)


def _quality(parts: Sequence[Part], items: int) -> QualitySignals:
    """The best coverage of any shard (an answer may lie in one); means of the rest, by items."""
    found = [part.pack.quality_signals for part in parts]
    return QualitySignals(
        term_coverage=max(q.term_coverage for q in found),
        strategy_agreement=sum(q.strategy_agreement for q in found) / len(found),
        model_claims=sum(q.model_claims for q in found) / len(found),
        low_coverage=not items or all(q.low_coverage for q in found),
    )


def _stamped(pack: Pack, parts: Sequence[Part], stamp: Stamp) -> Merged:
    content = with_short_hashes(to_json(pack))
    content.pop("provenance", None)
    shards = [
        {"shard": p.name, "pack_id": p.pack.provenance.pack_id, "job_id": p.pack.provenance.job_id}
        for p in parts
    ]
    shards_json = json.dumps(shards, separators=(",", ":")).encode() + b"\n"
    provenance = Provenance(
        agentloop=__version__,
        created=stamp.created,
        seconds=round(stamp.seconds, 2),
        pack_id="evpack_" + hashlib.sha256(canonical(content).encode("utf-8")).hexdigest()[:16],
        job_id=stamp.job_id,
        artifacts={"shards.json": short_hash("sha256:" + hashlib.sha256(shards_json).hexdigest())},
    )
    whole = pack.model_copy(update={"provenance": provenance})
    return Merged(
        with_short_hashes(to_json(whole)),
        {
            "evidence_pack.json": canonical(to_json(whole)).encode("utf-8") + b"\n",
            "shards.json": shards_json,
        },
    )
