"""The evidence-pack layer of the cache: the same question on the same content gives the same pack.

The key holds all that shapes a pack: inputs and what was left out of them, the question with all its
parameters, the policy, the model, and this release's own code. What a time limit or a failing model
shaped is not kept.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentloop.cache import (
    Cache,
    evidence_pack_key,
    manifest_key,
    rerank_key,
    retrieval_key,
    text_hash,
    value_hash,
)
from agentloop.config import Caps, Policy
from agentloop.errors import WarningCode
from agentloop.pack import SCHEMA_NAMES, SCHEMA_VERSION
from agentloop.request import CompressRequest
from agentloop.sources.snapshot import Snapshot, take
from agentloop.sources.uri import absolute_path
from agentloop.types import Corpus
from agentloop.warm import Warm, skipped

NOT_KEPT = frozenset(
    {
        WarningCode.MODEL_UNAVAILABLE,
        WarningCode.CHUNKING_DEGRADED,
        WarningCode.STRATEGY_UNAVAILABLE,
        WarningCode.RERANK_FAILED,
    }
)
_FIXED_COMMIT = re.compile(r"(HEAD[~^0-9]*|[0-9a-f]{40})?")  # what a corpus' own commit decides
_HASTY_STOPS = frozenset({"deadline", "timeout", "time"})


@dataclass(frozen=True, slots=True)
class Stored:
    """A pack as it was released, and its local artifacts by file name."""

    released: dict[str, Any]
    artifacts: dict[str, bytes]


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


def models_part(model: str, embeddings: str, rerank: str) -> str:
    """The models that shape a pack, as `pack_key` takes them: the loop's alone where there is no other."""
    return "|".join((model or "builtin", embeddings, rerank)) if embeddings or rerank else model


def pack_key(request: CompressRequest, corpus: str, policy: Policy, caps: Caps, model: str) -> str:
    """`evidence_pack:v1:…` for a request over a corpus (`corpus_id`); empty: it may not be cached.

    A `changed_since` that names a branch or tag may mean another commit tomorrow, with the same content.
    """
    if not _FIXED_COMMIT.fullmatch(request.task_params.changed_since or ""):
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
    return Stored(value["released"], artifacts)


def store(cache: Cache, key: str, released: Mapping[str, Any], artifacts: Mapping[str, bytes]) -> bool:
    """Keep a pack, unless a failing model or a time limit shaped it; whether it was kept."""
    payload = released["payload"]
    hasty = str(payload["retrieval"].get("stop_reason", "")) in _HASTY_STOPS
    if hasty or any(warning["code"] in NOT_KEPT for warning in payload.get("warnings", ())):
        return False
    texts = {name: data.decode("utf-8") for name, data in artifacts.items()}
    value = {"released": dict(released), "artifacts": texts}
    return cache.put(key, json.dumps(value, ensure_ascii=True).encode())


def snapshot_digest(snapshot: Snapshot) -> str:
    """A hash of a snapshot's entries."""
    return value_hash(sorted(snapshot.entries.items()))


def inputs_key(affinity: str, namespace: str) -> str:
    """The manifest entry of one set of inputs: `manifest:v1:{namespace}:inputs:{affinity}:{code}`."""
    return manifest_key(namespace, "inputs", affinity, code_version())


def remember_inputs(cache: Cache, request: CompressRequest, policy: Policy, caps: Caps, warm: Warm) -> None:
    """Keep which content a set of inputs had in which state of the file system, for `look_up`."""
    if warm.snapshot is None:
        return
    value = {
        "snapshot": snapshot_digest(warm.snapshot),
        "skip": sorted(skipped(warm.corpus)),
        "corpus": corpus_id(warm.corpus),
        "racy": bool(warm.snapshot.racy()),
    }
    key = inputs_key(affinity(request, policy, caps), policy.namespace)
    data = json.dumps(value, ensure_ascii=True).encode()
    if cache.get(key) != data:
        cache.put(key, data)


def look_up(cache: Cache, request: CompressRequest, policy: Policy, caps: Caps, model: str) -> str:
    """Whether the pack of a request is kept (`hit`), or only its inputs are known as they are (`partial`).

    Nothing is read but the file system's own records; `miss` where they differ.
    """
    data = cache.get(inputs_key(affinity(request, policy, caps), policy.namespace))
    if data is None:
        return "miss"
    value = json.loads(data)
    roots = [absolute_path(ref.uri, "input") for ref in request.input_refs]
    found = take(roots, frozenset(value["skip"]), caps.max_entries)
    if found is None or value["racy"] or snapshot_digest(found.without(value["skip"])) != value["snapshot"]:
        return "miss"
    key = pack_key(request, value["corpus"], policy, caps, model)
    return "hit" if key and cache.get(key) is not None else "partial"


def affinity(request: CompressRequest, policy: Policy, caps: Caps) -> str:
    """What requests must share to share kept inputs: namespace, inputs, policy, caps."""
    refs = [ref.model_dump(mode="json", exclude={"content_hash"}) for ref in request.input_refs]
    return value_hash([policy.namespace, refs, asdict(policy), asdict(caps)])
