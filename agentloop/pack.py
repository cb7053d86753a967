"""Evidence packs: the result envelope that leaves the machine. JSON Schemas are made from these models.

A released pack carries the first 16 hex digits of each hash; the local artifact keeps all 64.
Fields that are empty, null or at their default are left out of the canonical form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from agentloop.request import Classification, InputRef, TaskType

SCHEMA_VERSION = "1.0.0"
SHORT_HASH_DIGITS = 16
MAX_REFS = 4
MAX_REF_LINES = 80

SCHEMA_NAMES: dict[TaskType, str] = {
    TaskType.RAG_COMPRESS: "rag_evidence_pack_v1",
    TaskType.DEBUG: "debug_evidence_pack_v1",
    TaskType.SUMMARIZE_LOGS: "log_evidence_pack_v1",
    TaskType.INSPECT_REPO: "repo_inspection_pack_v1",
    TaskType.PROPOSE_PATCH: "patch_proposal_pack_v1",
}


class Redaction(StrEnum):
    """What an evidence item withholds."""

    NONE = "none"
    NO_RAW_EXCERPT = "no_raw_excerpt"
    SECRETS_REMOVED = "secrets_removed"
    DERIVED_ONLY = "derived_only"
    REFERENCE_ONLY = "reference_only"


class Out(BaseModel):
    """Base of all released models: frozen, unknown fields refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DerivedSpan(Out):
    """How to extract derived text again: joined text of the enclosing items, and the slice of it.

    `member` names the member of an archive whose bytes the extractor reads. `line_start` and `line_end` are
    the lines in the file that was packed, where its text has lines.
    """

    extractor: str
    version: str
    text_hash: str
    char_start: Annotated[int, Field(ge=0)]
    char_end: Annotated[int, Field(ge=0)]
    member: str | None = None
    line_start: int | None = None
    line_end: int | None = None


class SourceRef(Out):
    """An exact place in an input. `path` is left out where policy forbids paths."""

    input_id: str
    path: str | None = None
    line_start: Annotated[int, Field(ge=1)]
    line_end: Annotated[int, Field(ge=1)]
    byte_start: Annotated[int, Field(ge=0)]
    byte_end: Annotated[int, Field(ge=0)]
    content_hash: str
    chunk_hash: str
    timestamp_start: str | None = None
    timestamp_end: str | None = None
    page_start: int | None = None
    page_end: int | None = None
    commit: str | None = None
    artifact_id: str | None = None
    record_ids: tuple[str, ...] = ()
    derived: DerivedSpan | None = None


class CollapsedRef(Out):
    """Lines of a duplicate. `input_id` and `path` are left out where they are those of the item's first ref.

    Offsets and hashes of every duplicate are in the artifact `collapsed.json`.
    """

    input_id: str | None = None
    path: str | None = None
    line_start: Annotated[int, Field(ge=1)]
    line_end: Annotated[int, Field(ge=1)]


class Collapsed(Out):
    """Duplicates that an item stands for: their exact number, and the first and last of them."""

    count: Annotated[int, Field(ge=1)]
    source_refs: Annotated[tuple[CollapsedRef, ...], Field(max_length=2)] = ()


class EvidenceItem(Out):
    """A claim and the places that show it, the decisive one first. `tokens` counts the item itself."""

    id: str
    kind: str
    claim: str
    source_refs: Annotated[tuple[SourceRef, ...], Field(min_length=1, max_length=MAX_REFS)]
    relevance: Annotated[float, Field(ge=0, le=1)]
    confidence: Annotated[float, Field(ge=0, le=1)]
    redaction: Redaction
    tokens: Annotated[int, Field(ge=0)] = 0
    source_tokens: Annotated[int, Field(ge=0)] = 0
    excerpt: str | None = None
    flags: tuple[str, ...] = ()
    collapsed: Annotated[tuple[Collapsed, ...], Field(max_length=1)] = ()


class InputScope(Out):
    """What was searched, as `type:sha256:…` in the order of `input_refs`."""

    classification: Classification
    source_refs: tuple[str, ...]


class Retrieval(Out):
    """Counts of the retrieval and of the tool loop."""

    strategies: tuple[str, ...]
    chunks_considered: int
    chunks_retrieved: int
    chunks_reranked: int
    chunks_compressed: int
    mode: str
    model: str
    tool_calls: int = 0
    turns: int = 0
    stop_reason: str = ""


class SkippedExamples(Out):
    """Exact count of one skip reason, with as many example paths as the budget leaves."""

    count: int
    examples: tuple[str, ...] = ()


class Coverage(Out):
    """Exact counts of what was seen, searched and left out; the full list is `coverage.json`."""

    files_seen: int
    files_indexed: int
    bytes_indexed: int
    skipped: dict[str, SkippedExamples] = {}
    truncated: tuple[str, ...] = ()
    shards_failed: tuple[str, ...] = ()


class BudgetAccount(Out):
    """The four numbers of the specification, and the tokenizer that counted them."""

    retrieved_chunk_tokens: int
    compressed_tokens: int
    final_pack_tokens: int
    remote_context_budget: int
    tokenizer: str


class PackWarning(Out):
    """Partial trouble: a code, a sentence, the stage."""

    code: str
    message: str
    stage: str


class AnswerSentence(Out):
    """One sentence of an answer and the evidence ids that support it."""

    text: str
    evidence: Annotated[tuple[str, ...], Field(min_length=1)]


class Payload(Out):
    """What all five tasks share. `details` holds the task's own fields, documented per schema."""

    query: str
    input_scope: InputScope
    retrieval: Retrieval
    evidence: tuple[EvidenceItem, ...]
    coverage: Coverage
    budget: BudgetAccount
    warnings: tuple[PackWarning, ...]
    answer: tuple[AnswerSentence, ...] = ()
    details: dict[str, Any] = {}
    policy_mode: str | None = None


class QualitySignals(Out):
    """How far to trust the pack as a whole; how each is computed is in `docs/pack.md`."""

    term_coverage: Annotated[float, Field(ge=0, le=1)]
    strategy_agreement: Annotated[float, Field(ge=0, le=1)]
    model_claims: Annotated[float, Field(ge=0, le=1)] = 0.0
    low_coverage: bool = False


class Provenance(Out):
    """Everything that may differ between two runs of one request: ids, times, machine facts."""

    agentloop: str
    created: str
    seconds: float
    pack_id: str
    job_id: str | None = None
    stages: dict[str, float] = {}
    artifacts: dict[str, str] = {}
    cost: dict[str, float] = {}
    cache: dict[str, str] = {}


class Pack(Out):
    """The result envelope."""

    schema_name: str
    schema_version: str
    payload: Payload
    evidence_refs: tuple[str, ...]
    quality_signals: QualitySignals
    provenance: Provenance


def _short(value: Any) -> Any:
    """`value` with floats of at most two decimals, whole ones as integers."""
    if isinstance(value, dict):
        return {key: _short(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_short(member) for member in value]
    if isinstance(value, float):
        return int(value) if value == int(value) else round(value, 2)
    return value


def to_json(model: BaseModel) -> dict[str, Any]:
    """The released form as plain JSON values: what is at its default is left out."""
    short: dict[str, Any] = _short(model.model_dump(mode="json", exclude_defaults=True))
    return short


_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def canonical(value: Any) -> str:
    """Compact JSON text, keys in model order, characters outside ASCII as they are.

    Lone surrogates (file names that are not UTF-8) are written as `\\udcXX` escapes: lossless.
    """
    text = _compact(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        pass
    else:
        return text
    return "".join(f"\\u{ord(c):04x}" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text)


def short_hash(digest: str) -> str:
    """`sha256:` and the first 16 hex digits, as released packs carry it."""
    return digest[: len("sha256:") + SHORT_HASH_DIGITS]


OWN_VALUE = "00000000"


def final_pack_tokens(content: dict[str, Any]) -> int:
    """Tokens of a released pack: canonical JSON without provenance, the count's own value as `00000000`."""
    from agentloop import tokens

    bare = {key: value for key, value in content.items() if key != "provenance"}
    budget = {**bare["payload"]["budget"], "final_pack_tokens": OWN_VALUE}
    text = canonical({**bare, "payload": {**bare["payload"], "budget": budget}})
    return tokens.count(
        text.replace(f'"final_pack_tokens":"{OWN_VALUE}"', f'"final_pack_tokens":{OWN_VALUE}')
    )


HASH_FIELDS = frozenset({"content_hash", "chunk_hash", "text_hash"})


def with_short_hashes(value: Any) -> Any:
    """JSON values with the hashes of refs cut to what a released pack carries."""
    if isinstance(value, dict):
        return {
            key: short_hash(member)
            if key in HASH_FIELDS and isinstance(member, str)
            else with_short_hashes(member)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [with_short_hashes(member) for member in value]
    return value


BINARY_EXTRACTORS = frozenset({"pdf", "docx", "compressed"})
"""Extractors of files that have no lines of their own."""


def shown_place(ref: Mapping[str, Any]) -> str:
    """A ref of a pack as people read it: `path:first-last`, `w.zip/notes.md:4`, `report.pdf page 3`.

    Lines are those that a reader can look at: of packed text those of the file inside, and none where the
    file is binary. Where paths are withheld the input and its hash stand for it.
    """
    derived = ref.get("derived")
    span: Mapping[str, Any] = derived if isinstance(derived, Mapping) else {}
    name = ref.get("path") or f"{ref.get('input_id', '?')}@{ref.get('content_hash', '?')}"
    if span.get("member"):
        name = f"{name}/{span['member']}"
    page = f" page {ref['page_start']}" if ref.get("page_start") else ""
    if span.get("line_start"):
        first, last = span["line_start"], span.get("line_end") or span["line_start"]
    elif span.get("member") or span.get("extractor") in BINARY_EXTRACTORS:
        records = ref.get("record_ids")
        record = f" record {records[0]}" if isinstance(records, list) and records and not page else ""
        return f"{name}{page}{record}"
    else:
        first, last = ref.get("line_start", "?"), ref.get("line_end", "?")
    return f"{name}:{first}{page}" if first == last else f"{name}:{first}-{last}{page}"


def schema_ref(ref: InputRef, content_hash: str) -> str:
    """An input as `input_scope.source_refs` names it."""
    return f"{ref.type}:{short_hash(content_hash)}"
