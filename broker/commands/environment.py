"""What surrounds a request on the command line: settings, the model, the place of artifacts."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentloop.cache import Cache, FileCache, NoCache
from agentloop.pipeline import Environment, no_progress
from broker.auth import LOCAL_NAMESPACE
from broker.commands.settings import model_places, settings

if TYPE_CHECKING:
    from agentloop.errors import Stage
    from broker.commands.kept import Answer
    from broker.config import Settings

KEPT_PACKS = 200
"""Packs whose local artifacts stay on disk; the oldest go first."""


@contextmanager
def compress_environment(
    *,
    model: str | None,
    record: str | None,
    progress: Callable[[Stage, float], None] | None,
) -> Iterator[Environment]:
    """The environment of one request in this process; a local model server lives as long as the block.

    Raises:
        AgentloopError: the model profile is unknown or can't be served.
    """
    found = settings()
    # allowed roots bind the broker's callers: a person at the command line may read what they name
    env = Environment(
        caps=found.caps(),
        policy=replace(found.policy(LOCAL_NAMESPACE), allowed_roots=None),
        progress=progress or no_progress,
        stdin=sys.stdin.buffer,
        cache=private_cache(found),
    )
    if found.embeddings_profile or found.rerank_profile:
        env = _with_meaning(env, found)
    if model is None and record is None:
        yield env
        return
    from agentloop.loop.brains import open_model

    with open_model(model, model_places(found), Path(record) if record else None) as chat:
        yield replace(env, model=chat)


def _with_meaning(env: Environment, found: Settings) -> Environment:
    """The environment with the models for embeddings and reranking that the settings name."""
    from agentloop.loop.semantic import open_embedder, open_reranker

    places = model_places(found)
    return replace(
        env,
        embedder=open_embedder(found.embeddings_profile, places) if found.embeddings_profile else None,
        reranker=open_reranker(found.rerank_profile, places) if found.rerank_profile else None,
    )


def private_cache(found: Settings) -> Cache:
    """The cache under BROKER_HOME; none where it is off or can't be made."""
    try:
        if found.cache == "on":
            return FileCache(found.home_path / "cache", found.cache_max_mb << 20)
    except OSError:
        pass  # a home that can't be written: nothing is kept
    return NoCache()


def keep_artifacts(answer: Answer, directory: str | None) -> None:
    """Write the pack's local artifacts: to `directory`, else under BROKER_HOME for files only.

    Artifacts of record sources (a person's conversations) are written only where asked for.
    """
    if directory is None and answer.records:
        return
    from agentloop.reasons import unwritable

    pack_id = answer.released["provenance"]["pack_id"]
    folder = Path(directory) if directory else settings().home_path / "packs" / pack_id
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, data in answer.artifacts.items():
            (folder / name).write_bytes(data)
        if directory is None:
            _prune(folder.parent)
    except OSError as exc:
        print(
            f"agentloop: the local artifacts were not kept in {folder}: {unwritable(exc)}.", file=sys.stderr
        )


def _prune(packs: Path) -> None:
    folders = sorted((p for p in packs.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime)
    for old in folders[:-KEPT_PACKS]:
        shutil.rmtree(old, ignore_errors=True)
