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
from dataclasses import asdict, astuple, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from agentloop import __version__
from agentloop.budget import Ledger
from agentloop.chunking import chunk_corpus
from agentloop.clock import Clock
from agentloop.config import Caps, Policy
from agentloop.errors import Stage, WarningCode
from agentloop.index.build import IndexBuild, StoredBuild, build_errors, index_in
from agentloop.index.lexical import LexicalIndex
from agentloop.packcache import corpus_id
from agentloop.request import CompressRequest
from agentloop.rundir import RunDirError, publish, read_json, to_bytes
from agentloop.sources import discover
from agentloop.types import Chunk, ChunkType, Corpus, FileKind
from agentloop.warm import Progress, Warm, primary, skipped, snapshot_of

STAGES = "stages.json"
LEAST_BYTES = 8 << 20
"""Inputs below are chunked and indexed again in less time than a job takes to start."""


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
    place = folder / _key(corpus, caps)
    found = _load(place, ledger)
    if found is None:
        chunks = primary(corpus, chunk_corpus(corpus, ledger, caps))
        progress(Stage.INDEXING, 0.3)
        size = sum(file.size for file in corpus.files)
        keep = (always or size >= LEAST_BYTES) and _may_keep(corpus, policy)
        index = _kept(place, corpus, chunks, ledger) if keep else LexicalIndex(corpus, chunks)
    else:
        chunks = found
        progress(Stage.INDEXING, 0.3)
        with build_errors():
            stored = StoredBuild(index_in(place / "index", fresh=False))
        index = LexicalIndex(corpus, chunks, begun=stored)
    return Warm(
        corpus=corpus,
        chunks=chunks,
        index=index,
        warnings=tuple(ledger.warnings),
        counters=ledger.counters,
        snapshot=None if snapshot is None else snapshot.without(skipped(corpus)),
        layers=("chunks", "index") if found is not None else (),
    )


def forget(folder: Path) -> None:
    """Delete the checkpoints of an attempt that has ended."""
    shutil.rmtree(folder, ignore_errors=True)


def _key(corpus: Corpus, caps: Caps) -> str:
    """Names what chunks and index depend on."""
    parts = [__version__, corpus_id(corpus), asdict(caps), [[f.input_id, f.path] for f in corpus.files]]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _may_keep(corpus: Corpus, policy: Policy) -> bool:
    """No words of an input that is a set of records; some among a folder's files don't make it one."""
    named = {info.input_id for info in corpus.inputs if not info.is_dir}
    return policy.cache_records or not any(
        file.kind is FileKind.RECORDS and file.input_id in named for file in corpus.files
    )


def _kept(place: Path, corpus: Corpus, chunks: Sequence[Chunk], ledger: Ledger) -> LexicalIndex:
    """Index chunks on disk, and keep both under `place`, whole or not at all. A full disk keeps nothing."""
    partial = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        (partial / "index").mkdir(mode=0o700, parents=True)
        with build_errors():
            build = IndexBuild(index_in(partial / "index", fresh=True))
            for file, mine in groupby(chunks, key=lambda chunk: chunk.file):
                build.add(corpus.files[file], mine)
            build.close()
        facts = {
            "chunks": [astuple(chunk) for chunk in chunks],
            "warnings": [[str(code), message, str(stage)] for code, message, stage in ledger.warnings],
            "counters": ledger.counters,
        }
        publish(partial / STAGES, to_bytes(facts))
        os.rename(partial, place)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        with contextlib.suppress(OSError):
            if (place / STAGES).exists():  # another restart of this attempt was first
                return LexicalIndex(corpus, chunks, begun=StoredBuild(index_in(place / "index", fresh=False)))
        return LexicalIndex(corpus, chunks)
    return LexicalIndex(corpus, chunks, begun=StoredBuild(index_in(place / "index", fresh=False)))


def _load(place: Path, ledger: Ledger) -> list[Chunk] | None:
    """The chunks of a checkpoint, what making them told put into the ledger; None where there is none."""
    try:
        facts: dict[str, Any] = read_json(place / STAGES)
        chunks = [_chunk(values) for values in facts["chunks"]]
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
    return replace(chunk, type=ChunkType(chunk.type))
