"""The answer of `agentloop compress`: from the private cache where the inputs are as they were, else made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agentloop import ahead
from agentloop.api import compress_sync
from agentloop.cache import packs as packcache
from agentloop.cache.warm import keepable, skipped, snapshot_of
from agentloop.pipeline import Environment, Outcome
from agentloop.request import REPLAY, CompressRequest, Mode
from agentloop.types import FileKind
from broker.commands.settings import model_places, settings
from broker.release import screen

if TYPE_CHECKING:
    from broker.config import Settings

FIRST_LOOK = 30_000
"""Entries of the inputs that a first request looks at to tell later ones apart: a third of a second."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A pack as it leaves, its local artifacts by file name, and whether the inputs hold records."""

    released: dict[str, Any]
    artifacts: dict[str, bytes]
    records: bool


def answered(request: CompressRequest, env: Environment, model: str, *, cached: bool) -> Answer:
    """Answer a request. What is kept passes policy again.

    Args:
        model: name of the model profile; empty: the built-in planner.
        cached: whether the pack may come from the cache (a recorded run may not).

    Raises:
        AgentloopError: no pack can be made.
    """
    found = settings()
    if not cached or found.cache == "off" or model.startswith(REPLAY):
        return _answer(compress_sync(request, replace(env, ahead=ahead.start())))
    names = (model, found.embeddings_profile, found.rerank_profile)
    models = packcache.models_part(names, model_places(found)) if any(names) else ""
    known = packcache.known_corpus(env.cache, request, env.policy, env.caps)
    key = packcache.pack_key(request, known, env.policy, env.caps, models) if known else ""
    kept = packcache.load(env.cache, key) if key else None
    if kept is not None:
        screen(kept.released, env.policy)
        released = packcache.renewed(kept.released, None, env.clock.now(), 0.0)
        return Answer(released, kept.artifacts, kept.records)
    skip = packcache.skipped_before(env.cache, request, env.policy, env.caps)
    most = env.caps.max_entries if skip else min(FIRST_LOOK, env.caps.max_entries)
    # Before reading: what changes while we read differs from this, and is seen next time.
    snapshot = snapshot_of(request, skip, most)
    if known:  # another question on these inputs: more may follow
        env = _with_stages(request, env, found)
    outcome = compress_sync(request, replace(env, ahead=None if env.warm else ahead.start()))
    if snapshot is not None and keepable(outcome.corpus, env.policy):
        snapshot = snapshot.without(skipped(outcome.corpus))
        corpus = packcache.corpus_id(outcome.corpus)
        packcache.remember_inputs(env.cache, request, env.policy, env.caps, outcome.corpus, snapshot)
        key = packcache.pack_key(request, corpus, env.policy, env.caps, models)
        if key:
            packcache.keep(env.cache, key, outcome.released, outcome.artifacts, outcome.corpus, env.policy)
    return _answer(outcome)


def _with_stages(request: CompressRequest, env: Environment, found: Settings) -> Environment:
    """The environment with chunks and index from the cache, or made and kept for the next question."""
    from agentloop.checkpoint import in_cache, prepared, trim

    params = request.task_params
    if params.paths or params.languages or params.mode is Mode.COMPLETION:
        return env
    folder = in_cache(found.home_path / "cache", env.policy.namespace)
    warm = prepared(folder, request, env.caps, env.policy, env.clock, progress=env.progress)
    trim(folder, found.cache_max_mb << 19)
    return replace(env, warm=warm)


def _answer(outcome: Outcome) -> Answer:
    records = any(file.kind is FileKind.RECORDS for file in outcome.corpus.files)
    return Answer(outcome.released, outcome.artifacts, records)
