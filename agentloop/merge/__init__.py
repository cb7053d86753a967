"""The reducer of sharded requests: packs in, one pack out. Pure; nothing of the corpus is needed.

Items keep their claims and refs, with the inputs numbered as the whole request has them. They compete
by relevance, then confidence, then shard order; items whose decisive span is the same are collapsed.
Counts add up, warnings are joined, `details` and `answer` follow the items that leave, and a shard that
gave no pack is named in `coverage.shards_failed`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentloop import __version__
from agentloop.compress.fit import Envelope, Fitted, enclose, pack_limit
from agentloop.compress.items import item_tokens
from agentloop.errors import AgentloopError, Stage, WarningCode
from agentloop.merge.details import Ids, merge_answers, merge_details
from agentloop.pack import (
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
    schema_ref,
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
class Empty:
    """A part of a folder that holds nothing to read: how many files were skipped, by reason."""

    skipped: Mapping[str, int]


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


@dataclass(frozen=True, slots=True)
class _Ranked:
    """An item of the merged pack, and where it comes from: numbers of parts with the ids it has there."""

    item: EvidenceItem
    origins: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class _Whole:
    """All that goes into a merged pack."""

    request: CompressRequest
    parts: Sequence[Part]
    failed: Sequence[str]
    empty: Sequence[Empty]
    hashes: Mapping[int, str]
    ranked: Sequence[_Ranked]

    @property
    def payloads(self) -> list[Payload]:
        """The payloads of the parts, in order."""
        return [part.pack.payload for part in self.parts]


def merge_packs(
    request: CompressRequest,
    parts: Sequence[Part],
    failed: Sequence[str],
    stamp: Stamp,
    empty: Sequence[Empty] = (),
    hashes: Mapping[int, str] | None = None,
) -> Merged:
    """Merge the packs of a request's shards.

    Args:
        failed: names of the shards that gave no pack.
        empty: those that had nothing to read.
        hashes: by input number the hash of a folder that was cut into parts, empty where it isn't known.

    Raises:
        AgentloopError: EVIDENCE_PACK_OVER_BUDGET or REMOTE_CONTEXT_BUDGET_EXCEEDED, not one item fits.
    """
    whole = _Whole(request, parts, failed, empty, hashes or {}, _ranked(parts))
    limit, code, name = pack_limit(request.constraints)
    low, high = 0, len(whole.ranked)
    while low < high:  # the most items that fit: a pack only grows with each
        middle = (low + high + 1) // 2
        if _tokens(_fitted(whole, middle)) <= limit:
            low = middle
        else:
            high = middle - 1
    fitted = _fitted(whole, low)
    if _tokens(fitted) > limit or (whole.ranked and not low):
        raise AgentloopError(
            code,
            f"{name} is too small for one item of the merged pack; raise it.",
            Stage.COMPRESSION,
            {"budget": name},
        )
    return _stamped(fitted, parts, stamp)


def _ranked(parts: Sequence[Part]) -> list[_Ranked]:
    """All items, best first, those on the same span collapsed into the best of them."""
    order = sorted(
        (
            (-item.relevance, -item.confidence, number, place, item)
            for number, part in enumerate(parts)
            for place, item in enumerate(part.pack.payload.evidence)
        ),
        key=lambda entry: entry[:4],
    )
    kept: dict[tuple[str, str], _Ranked] = {}
    for _, _, number, _, item in order:
        key = (item.kind, item.source_refs[0].chunk_hash)
        first, origin = kept.get(key), (number, item.id)
        if first is None:
            kept[key] = _Ranked(_placed(item, parts[number].inputs), (origin,))
        else:
            kept[key] = _Ranked(_joined(first.item, item), (*first.origins, origin))
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


def _fitted(whole: _Whole, count: int) -> Fitted:
    """The payload of the first `count` items."""
    request, payloads = whole.request, whole.payloads
    kept = whole.ranked[:count]
    items = _numbered([ranked.item for ranked in kept])
    ids: Ids = {
        origin: item.id for ranked, item in zip(kept, items, strict=True) for origin in ranked.origins
    }
    around = Envelope(
        request=request,
        query=payloads[0].query,
        scope=_scope(whole),
        retrieval=_retrieval(payloads),
        coverage=_coverage(whole),
        warnings=_warnings(whole, len(whole.ranked) - count),
        retrieved_tokens=sum(p.budget.retrieved_chunk_tokens for p in payloads),
        policy_mode=payloads[0].policy_mode or "",
        quality=_quality(whole.parts, count),
        details=merge_details(request, [p.details for p in payloads], ids),
        answer=merge_answers([p.answer for p in payloads], ids),
    )
    return enclose(items, around)


def _tokens(fitted: Fitted) -> int:
    return fitted.payload.budget.final_pack_tokens


def _scope(whole: _Whole) -> InputScope:
    """The inputs in the order of the request; those without a hash, of failed shards, are left out."""
    found: dict[int, str] = {}
    for part in whole.parts:
        found.update(zip(part.inputs, part.pack.payload.input_scope.source_refs, strict=True))
    for number, digest in whole.hashes.items():
        if digest:
            found[number] = schema_ref(whole.request.input_refs[number], digest)
        else:
            found.pop(number, None)
    level = max((p.input_scope.classification for p in whole.payloads), key=lambda c: c.rank)
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


def _coverage(whole: _Whole) -> Coverage:
    found = [payload.coverage for payload in whole.payloads]
    skipped: dict[str, SkippedExamples] = {}
    reasons = {reason for c in found for reason in c.skipped} | {r for e in whole.empty for r in e.skipped}
    for reason in sorted(reasons):
        mine = [c.skipped[reason] for c in found if reason in c.skipped]
        examples = tuple(path for one in mine for path in one.examples)[:MAX_EXAMPLES]
        count = sum(one.count for one in mine) + sum(e.skipped.get(reason, 0) for e in whole.empty)
        skipped[reason] = SkippedExamples(count=count, examples=examples)
    return Coverage(
        files_seen=sum(c.files_seen for c in found) + sum(sum(e.skipped.values()) for e in whole.empty),
        files_indexed=sum(c.files_indexed for c in found),
        bytes_indexed=sum(c.bytes_indexed for c in found),
        skipped=skipped,
        truncated=tuple(dict.fromkeys(name for c in found for name in c.truncated)),
        shards_failed=tuple(whole.failed),
    )


def _warnings(whole: _Whole, trimmed: int) -> tuple[PackWarning, ...]:
    trim, failed, payloads = str(WarningCode.EVIDENCE_TRIMMED), whole.failed, whole.payloads
    told = {(w.code, w.message): w for p in payloads for w in p.warnings if w.code != trim}
    found = list(told.values())
    if failed:
        of = len(failed) + len(payloads) + len(whole.empty)
        found.append(
            PackWarning(
                code=str(WarningCode.LOW_COVERAGE),
                message=f"{len(failed)} of {of} shards gave no pack.",
                stage=str(Stage.COMPRESSION),
            )
        )
    if trimmed:
        budget = whole.request.constraints.final_evidence_pack_budget
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


def _stamped(fitted: Fitted, parts: Sequence[Part], stamp: Stamp) -> Merged:
    content = fitted.content()
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
    whole = fitted.pack(provenance)
    return Merged(
        with_short_hashes(to_json(whole)),
        {
            "evidence_pack.json": canonical(to_json(whole)).encode("utf-8") + b"\n",
            "shards.json": shards_json,
        },
    )
