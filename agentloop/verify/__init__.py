"""Stage 8: nothing leaves unless refs re-hash, budgets hold and no secret is left. Fails closed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from agentloop import tokens
from agentloop.compress.accounts import PROVENANCE_TOKENS
from agentloop.compress.build import BuiltPack
from agentloop.compress.fit import RESPONSE_OVERHEAD_TOKENS
from agentloop.compress.items import item_tokens
from agentloop.compress.refs import digest, enclosed, text_digest
from agentloop.compress.wording import MAX_RUN, longest_run
from agentloop.config import Caps, Policy
from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.pack import (
    MAX_REF_LINES,
    SCHEMA_NAMES,
    EvidenceItem,
    Pack,
    Redaction,
    SourceRef,
    canonical,
    final_pack_tokens,
    to_json,
    with_short_hashes,
)
from agentloop.request import Classification, CompressRequest, Confidentiality
from agentloop.tasks.details import DETAILS
from agentloop.types import Content, Corpus, SourceFile
from agentloop.verify.saved import Checked, verify_saved

__all__ = ["Checked", "schemas", "verify_released", "verify_saved"]


def schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schemas by name: a pack of each task, and `request_v1`. Draft 2020-12."""
    made = {name: _pack_schema(name) for name in SCHEMA_NAMES.values()}
    request = CompressRequest.model_json_schema()
    return {**made, "request_v1": {"$schema": _DIALECT, "$id": "request_v1", **request}}


COUNT_BLOCK = 1 << 22  # bytes read at a time to count lines
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _pack_schema(name: str) -> dict[str, Any]:
    schema = Pack.model_json_schema(mode="validation")
    schema["properties"]["schema_name"] = {"const": name, "title": "Schema Name", "type": "string"}
    task = next(task for task, known in SCHEMA_NAMES.items() if known == name)
    own = DETAILS[task].model_json_schema(mode="validation")
    schema["$defs"] |= own.pop("$defs", {})
    schema["$defs"]["Details"] = own
    schema["$defs"]["Payload"]["properties"]["details"] = {"$ref": "#/$defs/Details"}
    return {"$schema": _DIALECT, "$id": name, **schema}


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(_pack_schema(name))


def verify_released(
    built: BuiltPack, corpus: Corpus, request: CompressRequest, policy: Policy, caps: Caps
) -> None:
    """Check a built pack before it is released.

    Raises:
        AgentloopError: RAG_SCHEMA_INVALID, EVIDENCE_REF_INVALID, EVIDENCE_PACK_OVER_BUDGET,
            REMOTE_CONTEXT_BUDGET_EXCEEDED or POLICY_REDACTION_REQUIRED, naming the item that is off.
    """
    _check_schema(built)
    _check_refs(built, corpus)
    _check_budgets(built, request)
    _check_policy(built, corpus, request, policy)


def _check_schema(built: BuiltPack) -> None:
    released = built.released
    name = released.get("schema_name")
    if name not in SCHEMA_NAMES.values():
        raise _invalid(ErrorCode.RAG_SCHEMA_INVALID, f"The pack names no known schema: {name!r}.")
    error = next(iter(_validator(str(name)).iter_errors(released)), None)
    if error is not None:
        where = ".".join(map(str, error.absolute_path)) or "the pack"
        raise _invalid(
            ErrorCode.RAG_SCHEMA_INVALID,
            f"{where} does not conform to {name}: {error.validator}.",
            field=where,
        )
    if released["payload"] != with_short_hashes(to_json(built.pack.payload)):
        raise _invalid(ErrorCode.RAG_SCHEMA_INVALID, "What leaves is not what the local artifact says.")
    ids = [item["id"] for item in released["payload"]["evidence"]]
    if ids != released["evidence_refs"] or len(set(ids)) != len(ids):
        raise _invalid(ErrorCode.RAG_SCHEMA_INVALID, "evidence_refs are not the ids of the items in order.")


def _check_refs(built: BuiltPack, corpus: Corpus) -> None:
    files: dict[tuple[str, str, str, str], SourceFile] = {}
    by_hash: dict[tuple[str, str], list[SourceFile]] = {}
    named = {ref.content_hash for item in built.pack.payload.evidence for ref in item.source_refs}
    paths = {ref.path for item in built.pack.payload.evidence for ref in item.source_refs}
    for file in corpus.files:
        if file.ref_path in paths:
            files[file.input_id, file.ref_path, file.member, file.commit] = file
        if file.ref_hash in named:
            by_hash.setdefault((file.input_id, file.ref_hash), []).append(file)
    cited: dict[int, list[tuple[int, int, str]]] = {}
    for item in built.pack.payload.evidence:
        for ref in item.source_refs:
            if ref.path is None:
                found = _holding(ref, by_hash.get((ref.input_id, ref.content_hash), []))
            else:
                member = (ref.derived.member or "") if ref.derived else ""
                found = files.get((ref.input_id, ref.path, member, ref.commit or ""))
            reason = "it names no file of the inputs" if found is None else ref_fault(ref, found)
            if found is None or reason:
                raise _ref_invalid(item.id, reason)
            cited.setdefault(found.index, []).append((ref.byte_start, ref.line_start, item.id))
    for index, places in cited.items():
        wrong = _wrong_line(corpus.files[index].content, sorted(places))
        if wrong:
            raise _ref_invalid(wrong, "its lines do not agree with its bytes")


def _holding(ref: SourceRef, files: Sequence[SourceFile]) -> SourceFile | None:
    """Of files with one hash (twins, or members of one archive) the one that a ref without a path fits."""
    return next((file for file in files if not ref_fault(ref, file)), files[0] if files else None)


def _wrong_line(content: Content, places: Sequence[tuple[int, int, str]]) -> str:
    """The item whose first line is not that of its first byte; one pass over the file for all of them."""
    at, line = 0, 1
    for byte_start, line_start, item in places:
        while at < byte_start:
            end = min(byte_start, at + COUNT_BLOCK)
            line += content.read(at, end).count(b"\n")
            at = end
        if line != line_start:
            return item
    return ""


def _ref_invalid(item: str, reason: str) -> AgentloopError:
    return _invalid(ErrorCode.EVIDENCE_REF_INVALID, f"Evidence item {item}: {reason}.", evidence_id=item)


def ref_fault(ref: SourceRef, file: SourceFile) -> str:  # noqa: PLR0911 - one return a fault
    """Why a ref does not hold for a file as it was read; empty when it does (its first line is trusted)."""
    if file.ref_hash != ref.content_hash:
        return "its content_hash is not that of the file"
    if not 0 <= ref.byte_start < ref.byte_end <= file.content.size:
        return f"bytes {ref.byte_start}-{ref.byte_end} are outside the file"
    long = ref.derived is None and ref.line_end - ref.line_start >= MAX_REF_LINES
    if long or not 1 <= ref.line_start <= ref.line_end:
        return f"lines {ref.line_start}-{ref.line_end} are out of bounds"
    data = file.content.read(ref.byte_start, ref.byte_end)
    if digest(data) != ref.chunk_hash:
        return "its span does not hash to its chunk_hash"
    first = ref.line_start + data.count(b"\n", 0, len(data) - 1)
    if first != ref.line_end:
        return "its lines do not agree with its bytes"
    if ref.derived is not None:
        if file.derived is None:
            return "it is marked derived, and the file's text is not"
        text = _cited_text(ref, file)
        if not text or text_digest(text) != ref.derived.text_hash:
            return "its derived text does not hash to its text_hash"
    return ""


def _check_budgets(built: BuiltPack, request: CompressRequest) -> None:
    c = request.constraints
    counted = final_pack_tokens(built.released)
    stated = built.released["payload"]["budget"]["final_pack_tokens"]
    if counted != stated:
        raise _invalid(
            ErrorCode.RAG_SCHEMA_INVALID,
            f"final_pack_tokens says {stated}, and it is {counted}.",
            counted=counted,
        )
    if counted > c.final_evidence_pack_budget:
        raise _invalid(
            ErrorCode.EVIDENCE_PACK_OVER_BUDGET,
            f"The pack has {counted} tokens, over final_evidence_pack_budget={c.final_evidence_pack_budget}.",
            counted=counted,
        )
    spent = tokens.count(canonical(built.released["provenance"]))
    if spent > PROVENANCE_TOKENS:
        raise _invalid(
            ErrorCode.RAG_SCHEMA_INVALID, f"provenance has {spent} tokens, over {PROVENANCE_TOKENS}."
        )
    whole = counted + spent + RESPONSE_OVERHEAD_TOKENS
    if whole > c.remote_model_context_budget:
        raise _invalid(
            ErrorCode.REMOTE_CONTEXT_BUDGET_EXCEEDED,
            f"The response takes {whole} tokens, over "
            f"remote_model_context_budget={c.remote_model_context_budget}.",
            counted=whole,
        )
    for item in built.pack.payload.evidence:
        if item_tokens(item) > c.per_chunk_compression_budget:
            raise _invalid(
                ErrorCode.EVIDENCE_PACK_OVER_BUDGET,
                f"Evidence item {item.id} is over "
                f"per_chunk_compression_budget={c.per_chunk_compression_budget}.",
                evidence_id=item.id,
            )


def _check_policy(built: BuiltPack, corpus: Corpus, request: CompressRequest, policy: Policy) -> None:
    guarded = max(
        (i.classification for i in corpus.inputs), key=lambda c: c.rank, default=Classification.PUBLIC
    )
    cited = {(r.input_id, r.path) for item in built.pack.payload.evidence for r in item.source_refs}
    by_path: dict[tuple[str, str], Classification] = {}
    for file in corpus.files:
        key = (file.input_id, file.ref_path)
        if key in cited:
            known = by_path.get(key, file.classification)
            by_path[key] = max(known, file.classification, key=lambda c: c.rank)
    for item in built.pack.payload.evidence:
        reason = _excerpt_fault(item, request, policy, guarded.protected or _any_protected(item, by_path))
        if not reason and not policy.allow_paths and any(ref.path is not None for ref in item.source_refs):
            reason = "it carries a path, which policy forbids"
        if not reason and item.redaction in (Redaction.DERIVED_ONLY, Redaction.REFERENCE_ONLY):
            reason = _quote_fault(item, corpus)
        if not reason and any(built.redactor.leaks(text) for text in (item.claim, item.excerpt or "")):
            reason = "its text still holds a secret"
        if reason:
            raise _invalid(
                ErrorCode.POLICY_REDACTION_REQUIRED,
                f"Evidence item {item.id}: {reason}.",
                evidence_id=item.id,
            )
    rest = {key: value for key, value in built.released["payload"].items() if key != "evidence"}
    if any(built.redactor.leaks(text) for text in _strings(rest)):
        raise _invalid(ErrorCode.POLICY_REDACTION_REQUIRED, "The pack's envelope still holds a secret.")


def _quote_fault(item: EvidenceItem, corpus: Corpus) -> str:
    """Whether a derived claim repeats more than five words in a row of what it cites."""
    for ref in item.source_refs:
        member = ref.derived.member if ref.derived else None
        for file in corpus.files:
            if file.input_id == ref.input_id and file.ref_hash == ref.content_hash:
                if member is not None and file.member != member:
                    continue
                if longest_run(item.claim, _cited_text(ref, file)) > MAX_RUN:
                    return "it repeats a protected source"
                if member is not None or file.archive is None:
                    break
    return ""


def _cited_text(ref: SourceRef, file: SourceFile) -> str:
    if ref.derived is None or file.derived is None:
        return file.content.read(ref.byte_start, ref.byte_end).decode("utf-8", "replace")
    first, last = enclosed(file.derived, ref.byte_start, ref.byte_end)
    return file.derived.joined(first, last)[ref.derived.char_start : ref.derived.char_end]


def _any_protected(item: EvidenceItem, by_path: dict[tuple[str, str], Classification]) -> bool:
    found = (by_path.get((ref.input_id, ref.path)) for ref in item.source_refs if ref.path is not None)
    return any(c is not None and c.protected for c in found)


def _excerpt_fault(item: EvidenceItem, request: CompressRequest, policy: Policy, guarded: bool) -> str:
    if guarded and item.redaction not in (Redaction.DERIVED_ONLY, Redaction.REFERENCE_ONLY):
        return "it cites a protected input and its claim is not derived"
    if item.excerpt is None:
        return ""
    if request.constraints.confidentiality is Confidentiality.LOCAL_ONLY:
        return "it carries an excerpt under confidentiality local_only"
    if guarded or not policy.allow_excerpts or not request.task_params.include_inline_excerpts:
        return "it carries an excerpt that policy forbids"
    return ""


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from _strings(member)
    elif isinstance(value, list):
        for member in value:
            yield from _strings(member)


def _invalid(code: ErrorCode, message: str, **details: Any) -> AgentloopError:
    stage = Stage.POLICY if code is ErrorCode.POLICY_REDACTION_REQUIRED else Stage.VALIDATION
    return AgentloopError(code, message, stage, details)
