"""Finished stages of an attempt, kept in its run directory so that a requeued job does not start over.

What is kept: the chunks and the index, under a key of the inputs' hashes, and each reply of the model.
What is read of the inputs is read again, for evidence has to be true of what is there now; a key that
differs makes the stages anew. Nothing is kept of an input that is a set of records (conversations) unless
policy allows it, and all of it goes when the attempt ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentloop import cache
from agentloop.ahead import Ahead, started_for
from agentloop.budget import Ledger
from agentloop.cache import chunks_key, index_key, text_hash, value_hash
from agentloop.cache.packs import code_version, corpus_id
from agentloop.cache.warm import Progress, Warm, primary, skipped, snapshot_of
from agentloop.chunking import chunk_corpus
from agentloop.chunks import Chunks
from agentloop.clock import Clock
from agentloop.config import Caps, Policy
from agentloop.errors import AgentloopError, Stage, WarningCode
from agentloop.index.build import IndexBuild, StoredBuild, build_errors, index_in
from agentloop.index.lexical import LexicalIndex
from agentloop.request import CompressRequest
from agentloop.rundir import RunDirError, publish, read_bytes, to_bytes
from agentloop.sources import discover
from agentloop.types import Chunk, ChunkType, Corpus, FileKind, Trait

STAGES = "stages.json"
LEAST_BYTES = 8 << 20
"""Inputs below are chunked and indexed again in less time than a job takes to start."""

_NO_SOURCE = frozenset({Trait.TEST, Trait.VENDORED, Trait.EXAMPLE, Trait.GENERATED})


def prepared(
    folder: Path,
    request: CompressRequest,
    caps: Caps,
    policy: Policy,
    clock: Clock,
    *,
    progress: Progress = lambda stage, done: None,
    always: bool = False,
) -> Warm:
    """The stages before the question: those of a checkpoint that still holds, else made, and kept.

    Args:
        folder: the attempt's checkpoints.
        always: keep them however small the inputs are.

    Raises:
        AgentloopError: as discovery and indexing.
    """
    ledger = Ledger(clock)
    progress(Stage.DISCOVERY, 0.0)
    snapshot = snapshot_of(request, frozenset(), caps.max_entries)
    undeclared = request.model_copy(
        update={"input_refs": tuple(r.model_copy(update={"content_hash": None}) for r in request.input_refs)}
    )
    corpus = discover(undeclared, caps, policy, ledger)
    progress(Stage.CHUNKING, 0.2)
    place = folder / _key(corpus, caps, policy.namespace)
    found = _load(place, ledger)
    kept = None if found is None else _stored(place)
    if found is None or kept is None:
        _drop(place)  # of a broken disk, or of a release that kept it otherwise
        size = sum(file.size for file in corpus.files)
        keep = (always or size >= LEAST_BYTES) and _may_keep(corpus, policy)
        ahead = started_for(corpus.files) if keep else None
        known = None if ahead is None else ahead.chunks
        chunks = primary(corpus, chunk_corpus(corpus, ledger, caps, known=known))
        progress(Stage.INDEXING, 0.3)
        index = _kept(place, corpus, chunks, ledger, ahead) if keep else LexicalIndex(corpus, chunks)
        if ahead is not None:
            ahead.close()
    else:
        chunks = found
        progress(Stage.INDEXING, 0.3)
        index = LexicalIndex(corpus, chunks, begun=kept)
    return Warm(
        corpus=corpus,
        chunks=chunks,
        index=index,
        warnings=tuple(ledger.warnings),
        counters=ledger.counters,
        snapshot=None if snapshot is None else snapshot.without(skipped(corpus)),
        layers=("chunks", "index") if kept is not None else (),
    )


def forget(folder: Path) -> None:
    """Delete the checkpoints of an attempt that has ended."""
    shutil.rmtree(folder, ignore_errors=True)


def in_cache(root: Path, namespace: str) -> Path:
    """The folder of a namespace's stages in a private cache."""
    return root / cache.STAGES / text_hash(namespace)[:16]


def trim(folder: Path, most: int) -> None:
    """Delete the stages that were used longest ago until those in `folder` have at most `most` bytes."""
    try:
        places = [(place.stat().st_mtime, place) for place in folder.iterdir() if place.name[0] != "."]
    except OSError:
        return
    left = most
    for _, place in sorted(places, reverse=True):
        left -= size_of(place)
        if left < 0:
            _drop(place)


def _drop(place: Path) -> None:
    """Delete kept stages, at once: they are never seen in part."""
    gone = place.with_name(f".{place.name}.gone.{os.getpid()}")
    with contextlib.suppress(OSError):
        os.rename(place, gone)
        shutil.rmtree(gone, ignore_errors=True)


def size_of(folder: Path) -> int:
    """Bytes of the files below a folder; 0 for one that is gone."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size
    return total


def _key(corpus: Corpus, caps: Caps, namespace: str) -> str:
    """Names what chunks and index depend on: a hash of the specification's keys of both layers."""
    whole, version = corpus_id(corpus), code_version()
    rules = value_hash([asdict(caps), [[f.input_id, f.path] for f in corpus.files]])
    chunks = chunks_key(namespace, whole, version, rules)
    return text_hash(index_key(namespace, whole, "bm25", version, text_hash(chunks)))


def _sums(place: Path) -> dict[str, str]:
    """The hashes of the index's files."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((place / "index").iterdir())
        if not path.name.endswith(".lock")
    }


def _stored(place: Path) -> StoredBuild | None:
    """The index of a checkpoint; None where it can't be opened."""
    try:
        with build_errors():
            return StoredBuild(index_in(place / "index", fresh=False))
    except (AgentloopError, OSError):
        return None


def _may_keep(corpus: Corpus, policy: Policy) -> bool:
    """No words of records, in a folder neither; a mail or a chat among test data is no record source."""
    return policy.cache_records or not any(
        file.kind is FileKind.RECORDS and file.traits.isdisjoint(_NO_SOURCE) for file in corpus.files
    )


def _kept(place: Path, corpus: Corpus, chunks: Chunks, ledger: Ledger, ahead: Ahead | None) -> LexicalIndex:
    """Index chunks on disk, and keep both under `place`, whole or not at all. A full disk keeps nothing."""
    partial = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        (partial / "index").mkdir(mode=0o700, parents=True)
        with build_errors():
            build = IndexBuild(index_in(partial / "index", fresh=True))
            for file, rows in chunks.runs():
                source = corpus.files[file]
                build.add(source, chunks, rows, None if ahead is None else ahead.text(source))
            build.close()
        facts = {
            "chunks": list(chunks),
            "warnings": [[str(code), message, str(stage)] for code, message, stage in ledger.warnings],
            "counters": ledger.counters,
            "index": _sums(partial),
        }
        data = to_bytes(facts)
        publish(partial / STAGES, hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
        os.rename(partial, place)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        with contextlib.suppress(OSError):
            if (place / STAGES).exists():  # another restart of this attempt was first
                return LexicalIndex(corpus, chunks, begun=StoredBuild(index_in(place / "index", fresh=False)))
        return LexicalIndex(corpus, chunks)
    return LexicalIndex(corpus, chunks, begun=StoredBuild(index_in(place / "index", fresh=False)))


def _load(place: Path, ledger: Ledger) -> Chunks | None:
    """The chunks of a checkpoint, what making them told put into the ledger; None where there is none."""
    try:
        digest, _, data = read_bytes(place / STAGES).partition(b"\n")
        if hashlib.sha256(data).hexdigest().encode() != digest:
            return None
        facts: dict[str, Any] = json.loads(data)
        if facts["index"] != _sums(place):
            return None
        os.utime(place)  # its last use
        chunks = Chunks(map(_chunk, facts["chunks"]))
        told = [(WarningCode(c), str(m), Stage(s)) for c, m, s in facts["warnings"]]
        counters = {Stage(stage): found for stage, found in facts["counters"].items()}
    except (OSError, RunDirError, KeyError, TypeError, ValueError):
        return None
    for warning in told:
        if warning not in ledger.warnings:  # discovery tells its own again
            ledger.warn(*warning)
    for stage, found in counters.items():
        if stage is not Stage.DISCOVERY:
            ledger.add(stage, **found)
    return chunks


def _chunk(values: Sequence[Any]) -> Chunk:
    chunk = Chunk(*values)
    return chunk._replace(type=ChunkType(chunk.type))
