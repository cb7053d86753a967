"""What an attempt published, checked before the broker vouches for it, and served only unaltered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.rundir import ARTIFACT_NAME, Attempt, RunDirError, read_bytes
from broker.errors import BrokerCode, BrokerError
from broker.jobs.model import Artifact, new_id

RESULT = "result"
EVIDENCE_PACK = "evidence_pack"
LOCAL_INDEX = "local_index"
INPUT_MANIFEST = "input_manifest"
CHUNKS = "chunks"
RETRIEVAL_RUN = "retrieval_run"
KINDS = {
    "evidence_pack.json": EVIDENCE_PACK,
    "manifest.json": INPUT_MANIFEST,
    "chunks.json": CHUNKS,
    "indexes.json": LOCAL_INDEX,
    "retrieval.json": RETRIEVAL_RUN,
}
_PREFIX = {EVIDENCE_PACK: "evpack", LOCAL_INDEX: "index", INPUT_MANIFEST: "manifest"}
_METADATA_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Published:
    """The outcome of an attempt: a pack with its artifacts and run metadata, or an error object."""

    pack: Mapping[str, Any] | None
    artifacts: tuple[Artifact, ...]
    metadata: Mapping[str, Any]
    error: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose artifacts are collected: job, namespace, the broker's home, and the time of it."""

    job_id: str
    namespace: str
    home: Path
    now: float


def collect(attempt: Attempt, owner: Owner) -> Published | None:
    """Read what an attempt published; None when it published neither a result nor an error.

    A link, a foreign file or a hash that doesn't match makes the attempt an error: nothing of it is used.
    """
    try:
        metadata = _optional(attempt, "run-metadata.json")
        try:
            raw = read_bytes(attempt.path / "result.json")
        except FileNotFoundError:
            failure = _optional(attempt, "error.json")
            if not failure:
                return None
            return Published(None, (), metadata, _checked_error(failure["error"]))
        pack = json.loads(raw)
        return Published(pack, _artifacts(attempt, owner, raw, pack, metadata), metadata, None)
    except (RunDirError, OSError, ValueError, KeyError, TypeError) as exc:
        problem = AgentloopError(
            ErrorCode.RAG_SCHEMA_INVALID,
            f"What the worker published can't be used: {exc}.",
            Stage.VALIDATION,
        )
        return Published(None, (), {}, problem.to_json()["error"])


def _optional(attempt: Attempt, name: str) -> dict[str, Any]:
    try:
        found = attempt.read_json(name)
    except FileNotFoundError:
        return {}
    if not isinstance(found, dict):
        raise RunDirError(f"{name} holds no object")
    return found


def _checked_error(error: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "code": str(error["code"]),
        "message": str(error["message"])[:2000],
        "retryable": bool(error["retryable"]),
        "stage": str(error["stage"]),
        "details": dict(error["details"]),
    }


def _artifacts(
    attempt: Attempt, owner: Owner, raw: bytes, pack: Mapping[str, Any], run: Mapping[str, Any]
) -> tuple[Artifact, ...]:
    """The result and every listed file, each re-hashed."""
    level = str(pack["payload"]["input_scope"]["classification"])
    result = _artifact(attempt, owner, "result.json", hashlib.sha256(raw).hexdigest(), len(raw))
    found = [replace(result, kind=RESULT, classification=level)]
    for entry in attempt.read_json("artifacts.json"):
        name = str(entry["name"])
        if not ARTIFACT_NAME.fullmatch(name):
            raise RunDirError("artifacts.json names a file that is not allowed")
        data = read_bytes(attempt.path / "artifacts" / name)
        if hashlib.sha256(data).hexdigest() != entry["sha256"] or len(data) != entry["size"]:
            raise RunDirError(f"{name} doesn't match its hash")
        artifact = _artifact(attempt, owner, f"artifacts/{name}", str(entry["sha256"]), len(data))
        found.append(_described(replace(artifact, classification=level), data, pack))
    return tuple(_entity(artifact, found, run) for artifact in found)


def _entity(artifact: Artifact, beside: Sequence[Artifact], run: Mapping[str, Any]) -> Artifact:
    """An evidence pack with what other artifacts of its job say of it: the question, the manifests."""
    if artifact.kind != EVIDENCE_PACK:
        return artifact
    by_kind = {found.kind: found.metadata for found in beside}
    manifest = by_kind.get(INPUT_MANIFEST, {}).get("manifest_id")
    manifests = [manifest] if manifest else list(run.get("manifest_ids", ()))
    found = {**artifact.metadata, "source_manifest_ids": manifests}
    return replace(artifact, metadata=found)


def _artifact(attempt: Attempt, owner: Owner, place: str, sha256: str, size: int) -> Artifact:
    name = place.rpartition("/")[2]
    kind = KINDS.get(name, "other")
    return Artifact(
        artifact_id=new_id(_PREFIX.get(kind, "artifact")),
        job_id=owner.job_id,
        namespace=owner.namespace,
        kind=kind,
        name=name,
        path=str((attempt.path / place).relative_to(owner.home)),
        sha256=sha256,
        size=size,
        created_at=owner.now,
        classification="",
    )


def _described(artifact: Artifact, data: bytes, pack: Mapping[str, Any]) -> Artifact:
    """An artifact with the metadata that may be queried: the specification's entities, no content."""
    if artifact.kind == EVIDENCE_PACK:
        query = str(pack["payload"]["query"]).encode("utf-8", "surrogateescape")
        metadata = {
            "evidence_pack_id": str(pack["provenance"]["pack_id"]),
            "job_id": artifact.job_id,
            "schema_name": pack["schema_name"],
            "artifact_id": artifact.artifact_id,
            "query_hash": "sha256:" + hashlib.sha256(query).hexdigest(),
            "evidence_count": len(pack["payload"]["evidence"]),
            "final_pack_tokens": pack["payload"]["budget"]["final_pack_tokens"],
            "policy_mode": pack["payload"].get("policy_mode", ""),
            "classification": artifact.classification,
        }
        return replace(artifact, metadata=metadata, public_id=str(pack["provenance"]["pack_id"]))
    if artifact.kind == LOCAL_INDEX and len(data) <= _METADATA_BYTES:
        return replace(artifact, metadata={**json.loads(data), "artifact_id": artifact.artifact_id})
    if artifact.kind == RETRIEVAL_RUN and len(data) <= _METADATA_BYTES:
        return replace(artifact, metadata=json.loads(data))
    if artifact.kind == CHUNKS:
        chunks = json.loads(data)
        metadata = {"chunks": len(chunks), "manifest_id": chunks[0]["manifest_id"] if chunks else ""}
        return replace(artifact, metadata=metadata)
    if artifact.kind == INPUT_MANIFEST:
        manifest = json.loads(data)
        metadata = {
            "manifest_id": manifest["manifest_id"],
            "input_refs": manifest["input_refs"],
            "corpus_hash": manifest["corpus_hash"],
            "files": len(manifest["files"]),
        }
        return replace(artifact, metadata=metadata, public_id=str(manifest["manifest_id"]))
    return artifact


def read_artifact(artifact: Artifact, home: Path) -> bytes:
    """An artifact's bytes, when they are what was published.

    Raises:
        BrokerError: ARTIFACT_CORRUPT: missing, altered, or no plain file.
    """
    try:
        data = read_bytes(home / artifact.path)
    except (OSError, RunDirError):
        data = b""
    if hashlib.sha256(data).hexdigest() != artifact.sha256:
        raise BrokerError(
            BrokerCode.ARTIFACT_CORRUPT,
            "This artifact is missing or no longer what was published; submit the request again.",
            details={"artifact_id": artifact.artifact_id},
        )
    return data
