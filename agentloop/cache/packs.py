"""The evidence-pack layer of the cache: the same question on the same content gives the same pack.

The key holds all that shapes a pack: inputs and what was left out of them, the question with all its
parameters, the policy, the model, and this release's own code. What a time limit or a failing model
shaped is not kept.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentloop.cache import (
    Cache,
    evidence_pack_key,
    manifest_key,
    rerank_key,
    retrieval_key,
    text_hash,
    value_hash,
)
from agentloop.cache.warm import cites_records, places, skipped, snapshot_of
from agentloop.config import Caps, Policy
from agentloop.errors import AgentloopError, WarningCode
from agentloop.pack import SCHEMA_NAMES, SCHEMA_VERSION
from agentloop.request import BUILTIN, REPLAY, CompressRequest
from agentloop.sources.report import check_declared
from agentloop.sources.snapshot import Snapshot, content_hash, identity
from agentloop.types import Corpus, FileKind

if TYPE_CHECKING:
    from agentloop.loop.places import ModelPlaces

NOT_KEPT = frozenset(
    {
        WarningCode.MODEL_UNAVAILABLE,
        WarningCode.CHUNKING_DEGRADED,
        WarningCode.STRATEGY_UNAVAILABLE,
        WarningCode.RERANK_FAILED,
    }
)
_FIXED_COMMIT = re.compile(r"(HEAD[~^0-9]*|[0-9a-f]{40})?")  # what a corpus' own commit decides
HASTY_STOPS = frozenset({"deadline", "timeout", "time"})


LOOKED_AT = 4 << 20
"""Bytes of a file that is hashed to be told apart, though it is no evidence: git's index, a picture."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A pack as it was released, and its local artifacts by file name."""

    released: dict[str, Any]
    artifacts: dict[str, bytes]
    records: bool  # the inputs hold records


@functools.cache
def code_version() -> str:
    """A hash of the engine's own source: another release's packs are never taken for this one's."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def corpus_id(corpus: Corpus) -> str:
    """A hash of everything that discovery found: contents, roles, classifications, what was left out."""
    inputs = [
        [i.input_id, i.type, i.role, i.content_hash, i.classification, i.commit, i.tree]
        for i in corpus.inputs
    ]
    left_out = [[e.input_id, e.path, e.reason, e.detail] for e in corpus.excluded]
    return value_hash([inputs, left_out, list(corpus.notes)])


def models_part(names: Sequence[str], places: ModelPlaces) -> str:
    """The models that shape a pack (the loop's, of embeddings, of reranking), as `pack_key` takes them.

    A profile stands for what it says now: another model under the same name is another part.
    """
    return "|".join(_model_part(name, places) for name in names) if any(names) else ""


def _model_part(name: str, places: ModelPlaces) -> str:
    from agentloop.loop.places import resolve

    if name in {"", BUILTIN} or name.startswith(REPLAY):
        return name
    try:
        return f"{name}@{value_hash(resolve(name, places).model_dump(mode='json'))}"
    except AgentloopError:
        return name  # the run reports it


def lasting(request: CompressRequest) -> bool:
    """Whether a request means the same tomorrow, with the same content.

    A `changed_since` that names a branch or tag may mean another commit.
    """
    return bool(_FIXED_COMMIT.fullmatch(request.task_params.changed_since or ""))


def pack_key(request: CompressRequest, corpus: str, policy: Policy, caps: Caps, model: str) -> str:
    """`evidence_pack:v1:…` for a request over a corpus (`corpus_id`); empty: it may not be cached."""
    if not lasting(request):
        return ""
    space, version = policy.namespace, code_version()
    asked = request.model_dump(mode="json", exclude={"idempotency_key", "execution_profile", "input_refs"})
    asked["constraints"].pop("max_runtime_seconds")
    retrieval = retrieval_key(
        space,
        corpus_hash=corpus,
        query_hash=value_hash(asked),
        strategy_set_hash=value_hash([str(s) for s in request.strategies]),
        retrieval_budget=request.constraints.retrieved_chunk_budget,
        index_versions_hash=value_hash([version, asdict(caps)]),
    )
    rerank = rerank_key(space, text_hash(retrieval), "rules", version, 0)
    return evidence_pack_key(
        space,
        rerank_hash=text_hash(rerank),
        compressor=model or "builtin",
        template_version=version,
        policy_mode=f"{policy.mode}-{value_hash(asdict(policy))}",
        final_budget=request.constraints.final_evidence_pack_budget,
        schema=f"{SCHEMA_NAMES[request.task_type]}@{SCHEMA_VERSION}",
    )


def load(cache: Cache, key: str) -> Stored | None:
    """The pack under a key."""
    data = cache.get(key)
    if data is None:
        return None
    value = json.loads(data)
    artifacts = {name: text.encode("utf-8") for name, text in value["artifacts"].items()}
    return Stored(value["released"], artifacts, bool(value["records"]))


def store(
    cache: Cache, key: str, released: Mapping[str, Any], artifacts: Mapping[str, bytes], *, records: bool
) -> bool:
    """Keep a pack, unless a failing model or a time limit shaped it; whether it was kept.

    `records`: the inputs hold records, which whoever takes the pack from here must know.
    """
    payload = released["payload"]
    hasty = str(payload["retrieval"].get("stop_reason", "")) in HASTY_STOPS
    if hasty or any(warning["code"] in NOT_KEPT for warning in payload.get("warnings", ())):
        return False
    texts = {name: data.decode("utf-8") for name, data in artifacts.items()}
    value = {"released": dict(released), "artifacts": texts, "records": records}
    return cache.put(key, json.dumps(value, ensure_ascii=True).encode())


def keep(
    cache: Cache,
    key: str,
    released: Mapping[str, Any],
    artifacts: Mapping[str, bytes],
    corpus: Corpus,
    policy: Policy,
) -> bool:
    """`store`, where the pack may be kept: one that cites records only where policy allows that."""
    records = any(file.kind is FileKind.RECORDS for file in corpus.files)
    if records and not policy.cache_records and cites_records(corpus, released):
        return False
    return store(cache, key, released, artifacts, records=records)


def renewed(
    released: Mapping[str, Any], job_id: str | None, created: datetime, seconds: float
) -> dict[str, Any]:
    """A kept pack as the answer to another request: its provenance tells that, and where it came from."""
    provenance = {
        **released["provenance"],
        "created": created.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "seconds": round(seconds, 2),
        "job_id": job_id,
        "cache": {"evidence_pack": "hit"},
    }
    provenance.pop("stages", None)
    if job_id is None:
        del provenance["job_id"]
    return {**released, "provenance": provenance}


def snapshot_digest(snapshot: Snapshot) -> str:
    """A hash of a snapshot's entries."""
    return value_hash(sorted(snapshot.entries.items()))


def inputs_key(request: CompressRequest, policy: Policy, caps: Caps) -> str:
    """The manifest entry of one set of inputs, narrowed as the request has it.

    `manifest:v1:{namespace}:inputs:{inputs, policy, caps, filters}:{code}`.
    """
    params = request.task_params
    asked = value_hash([affinity(request, policy, caps), params.paths, params.languages])
    return manifest_key(policy.namespace, "inputs", asked, code_version())


def remember_inputs(
    cache: Cache, request: CompressRequest, policy: Policy, caps: Caps, corpus: Corpus, snapshot: Snapshot
) -> None:
    """Keep which content a set of inputs had in which state of the file system, for `look_up`.

    Files that changed just before the snapshot may change again unseen: their hashes are kept too.
    """
    hashes = {place: file.ref_hash for place, file in places(corpus)}
    racy = {path: hashes.get(path) or _left_out(path, snapshot) for path in snapshot.racy()}
    value = {
        "snapshot": snapshot_digest(snapshot),
        "skip": sorted(skipped(corpus)),
        "corpus": corpus_id(corpus),
        "racy": {path: digest for path, digest in racy.items() if not os.path.isdir(path)},
        "hashes": {
            ref.uri: info.content_hash for ref, info in zip(request.input_refs, corpus.inputs, strict=True)
        },
    }
    key = inputs_key(request, policy, caps)
    data = json.dumps(value, ensure_ascii=True).encode()
    if cache.get(key) != data:
        cache.put(key, data)


def known_corpus(cache: Cache, request: CompressRequest, policy: Policy, caps: Caps) -> str:
    """The id of the corpus that a request's inputs are, when an earlier request kept it; else empty.

    Nothing is read but the file system's own records, and files whose records can't be trusted yet.

    Raises:
        AgentloopError: INPUT_HASH_MISMATCH, the request declares another hash.
    """
    value = _remembered(cache, request, policy, caps)
    if value is None:
        return ""
    found = snapshot_of(request, frozenset(value["skip"]), caps.max_entries)
    if found is None or snapshot_digest(found.without(value["skip"])) != value["snapshot"]:
        return ""
    if not all(digest and content_hash(path) == digest for path, digest in value["racy"].items()):
        return ""
    for number, ref in enumerate(request.input_refs, 1):
        check_declared(ref, f"in{number}", value["hashes"][ref.uri])
    return str(value["corpus"])


def _left_out(path: str, snapshot: Snapshot) -> str:
    """The hash of a small file that discovery looked at but did not take, such as git's; else empty."""
    try:
        status = os.lstat(path)
    except OSError:
        return ""
    same = stat.S_ISREG(status.st_mode) and identity(status) == snapshot.entries[path]
    return content_hash(path) if same and status.st_size <= LOOKED_AT else ""


def _remembered(cache: Cache, request: CompressRequest, policy: Policy, caps: Caps) -> Any:
    data = cache.get(inputs_key(request, policy, caps))
    return None if data is None else json.loads(data)


def skipped_before(cache: Cache, request: CompressRequest, policy: Policy, caps: Caps) -> frozenset[str]:
    """The folders that an earlier request on these inputs did not enter; they may be large."""
    value = _remembered(cache, request, policy, caps)
    return frozenset() if value is None else frozenset(value["skip"])


def find(cache: Cache, request: CompressRequest, policy: Policy, caps: Caps, model: str) -> Stored | None:
    """The kept pack of a request whose inputs are as they were, without reading them.

    Raises:
        AgentloopError: INPUT_HASH_MISMATCH.
    """
    corpus = known_corpus(cache, request, policy, caps)
    key = pack_key(request, corpus, policy, caps, model) if corpus else ""
    return load(cache, key) if key else None


def look_up(cache: Cache, request: CompressRequest, policy: Policy, caps: Caps, model: str) -> str:
    """Whether the pack of a request is kept (`hit`), or only its inputs are known as they are (`partial`).

    Raises:
        AgentloopError: INPUT_HASH_MISMATCH.
    """
    corpus = known_corpus(cache, request, policy, caps)
    if not corpus:
        return "miss"
    key = pack_key(request, corpus, policy, caps, model)
    return "hit" if key and cache.get(key) is not None else "partial"


def affinity(request: CompressRequest, policy: Policy, caps: Caps) -> str:
    """What requests must share to share kept inputs: namespace, inputs, policy, caps."""
    refs = [ref.model_dump(mode="json", exclude={"content_hash"}) for ref in request.input_refs]
    return value_hash([policy.namespace, refs, asdict(policy), asdict(caps)])
