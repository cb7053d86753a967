"""The specification's entities of a run as local artifacts: chunks, index, retrieval. No text of inputs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from agentloop.cache import text_hash
from agentloop.rundir import to_bytes

if TYPE_CHECKING:
    from agentloop.pipeline import Outcome


BYTES_PER_TOKEN = 4  # of code and English prose; an estimate, as the field's name says


def entities(outcome: Outcome, manifest_id: str) -> dict[str, bytes]:
    """`chunks.json` (the retrieved ones), `indexes.json` and `retrieval.json` of a run."""
    digest = manifest_id.rpartition("_")[2]
    level = str(outcome.corpus.classification)
    payload = outcome.released["payload"]
    ranked = [candidate.chunk for candidate in outcome.ranking.candidates]
    index = {
        "index_id": f"index_{digest}",
        "manifest_id": manifest_id,
        "index_type": "bm25",
        "strategy_version": f"tantivy@{_tantivy_version()}",
        "artifact_id": "in memory",
        "chunk_count": len(outcome.chunks),
        "classification": level,
    }
    query_hash = "sha256:" + hashlib.sha256(payload["query"].encode("utf-8", "surrogateescape")).hexdigest()
    retrieval = {
        "retrieval_id": f"retrieval_{text_hash(manifest_id, query_hash)[:16]}",
        "query_hash": query_hash,
        "manifest_id": manifest_id,
        "strategies": list(outcome.ranking.strategies),
        "retrieved_chunk_ids": [f"chunk_{number}" for number in sorted(ranked)],
        "reranked_chunk_ids": [f"chunk_{number}" for number in ranked],
        "budget": {"retrieved_chunk_tokens": outcome.ranking.retrieved_tokens},
    }
    return {
        "chunks.json": to_bytes([_chunk(outcome, number, manifest_id) for number in ranked]),
        "indexes.json": to_bytes(index),
        "retrieval.json": to_bytes(retrieval),
    }


def _chunk(outcome: Outcome, number: int, manifest_id: str) -> dict[str, Any]:
    chunk = outcome.chunks[number]
    file = outcome.corpus.files[chunk.file]
    data = file.content.read(chunk.byte_start, chunk.byte_end)
    return {
        "chunk_id": f"chunk_{number}",
        "manifest_id": manifest_id,
        "chunk_hash": "sha256:" + hashlib.sha256(data).hexdigest(),
        "source_ref": {
            "input_id": file.input_id,
            "path": file.path,
            "line_start": chunk.line_start,
            "line_end": chunk.line_end,
            "content_hash": file.content_hash,
            **({"commit": file.commit} if file.commit else {}),
        },
        "chunk_type": str(chunk.type),
        "token_estimate": -(-len(data) // BYTES_PER_TOKEN),
        "classification": str(file.classification),
    }


def _tantivy_version() -> str:
    from importlib.metadata import version

    return version("tantivy")
