"""What a worker is told in `job_spec.json` and `input_manifest.json`, and how it carries it out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentloop.cache import Cache, FileCache, NoCache, text_hash
from agentloop.cache import packs as packcache
from agentloop.cache.warm import Warm
from agentloop.clock import Clock
from agentloop.config import Caps, InputPart, Policy, Sandbox
from agentloop.entities import entities
from agentloop.errors import AgentloopError, Stage
from agentloop.request import BUILTIN, REPLAY, Classification, CompressRequest, parse_request
from agentloop.rundir import RunDir, RunDirError, read_json, to_bytes
from agentloop.types import Corpus, FileKind

if TYPE_CHECKING:
    from agentloop.loop import ChatModel
    from agentloop.loop.places import ModelPlaces
    from agentloop.retrieval.semantic import Embedder, TextReranker

Execution = tuple[dict[str, Any], dict[str, bytes], dict[str, Any]]
"""The released pack, the local artifacts by file name, and the run's metadata."""

REPLIES = "replies.jsonl"
"""The model's replies among the checkpoints of an attempt."""

Progress = Callable[[Stage, float], None]


@dataclass(frozen=True, slots=True)
class Manifest:
    """`manifest.json` of a corpus, and its id; `entries` are those of its files."""

    manifest_id: str
    data: bytes
    corpus: Corpus
    entries: list[bytes]

    @classmethod
    def of(cls, corpus: Corpus, before: Manifest | None = None) -> Manifest:
        """Make it; `before`, of an earlier state, has the entries of files that are the same."""
        from agentloop.sources.manifest import build_manifest, file_entry

        facts = [(info.is_dir, info.commit) for info in corpus.inputs]
        known: dict[int, bytes] = {}
        if before is not None and facts == [(info.is_dir, info.commit) for info in before.corpus.inputs]:
            known = {id(f): entry for f, entry in zip(before.corpus.files, before.entries, strict=True)}
        inputs = {info.input_id: info for info in corpus.inputs}
        entries = [
            known.get(id(file)) or to_bytes(file_entry(file, inputs[file.input_id])) for file in corpus.files
        ]
        made = build_manifest(corpus, ())
        whole = to_bytes(made).replace(b'"files":[]', b'"files":[' + b",".join(entries) + b"]", 1)
        return cls(made["manifest_id"], whole, corpus, entries)


@dataclass(frozen=True, slots=True)
class Kept:
    """What a warm host gives its worker: the stages before the question, and which were not made anew."""

    warm: Warm | None = None
    layers: tuple[str, ...] = ()
    manifest: Manifest | None = None  # of the kept corpus, made once
    remembered: bool = False  # the cache knows these inputs as they are
    told: tuple[str, float] | None = None  # the stage, and how far, that the host has told of this attempt


NOTHING = Kept()


def policy_to_json(policy: Policy) -> dict[str, Any]:
    """A policy as JSON values."""
    return asdict(policy)


def policy_from_json(value: dict[str, Any]) -> Policy:
    """The policy that `policy_to_json` wrote."""
    roots = value["allowed_roots"]
    sandbox = value.get("sandbox")
    return Policy(
        **{
            **value,
            "allowed_roots": None if roots is None else tuple(roots),
            "sandbox": None if sandbox is None else Sandbox(**sandbox),
            "default_classification": Classification(value["default_classification"]),
            "classification_rules": tuple(
                (glob, Classification(level)) for glob, level in value["classification_rules"]
            ),
        }
    )


def caps_from_json(value: dict[str, Any]) -> Caps:
    """The caps that `asdict` wrote; those of an earlier release have no parts."""
    return Caps(**{**value, "parts": tuple(InputPart(**part) for part in value.get("parts", ()))})


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job as its worker sees it. `inputs` are the only paths that it may open."""

    job_id: str
    namespace: str
    request: CompressRequest
    policy: Policy
    caps: Caps = field(default_factory=Caps)
    cache_dir: str = ""  # empty: no cache
    cache_bytes: int = 0
    model_profile: str = ""  # empty: the built-in planner
    home: str = ""  # where model profiles are looked up
    model_profiles_file: str = ""  # looked up first
    embeddings_profile: str = ""  # empty: no strategy `embeddings`
    rerank_profile: str = ""  # empty: the rules alone rank
    checkpoint_dir: str = ""  # where finished stages are kept for a restart; empty: nowhere
    service: bool = False  # the model is that of a warm service

    def to_json(self) -> dict[str, Any]:
        """`job_spec.json`."""
        return {
            "job_id": self.job_id,
            "namespace": self.namespace,
            "request": self.request.model_dump(mode="json", exclude_none=True),
            "policy": policy_to_json(self.policy),
            "caps": asdict(self.caps),
            "cache_dir": self.cache_dir,
            "cache_bytes": self.cache_bytes,
            "model_profile": self.model_profile,
            "home": self.home,
            "model_profiles_file": self.model_profiles_file,
            "embeddings_profile": self.embeddings_profile,
            "rerank_profile": self.rerank_profile,
            "checkpoint_dir": self.checkpoint_dir,
            "service": self.service,
        }

    @classmethod
    def load(cls, run_dir: RunDir) -> JobSpec:
        """Read the specification, its inputs narrowed to those that the broker authorised.

        Raises:
            FileNotFoundError: the run directory is not complete.
            RunDirError: a document is not what the contract says.
        """
        value = read_json(run_dir.path / "job_spec.json")
        manifest = read_json(run_dir.path / "input_manifest.json")
        try:
            request = parse_request(value["request"])
            allowed = [(entry["type"], entry["uri"]) for entry in manifest["input_refs"]]
            if allowed != [(str(ref.type), ref.uri) for ref in request.input_refs]:
                raise RunDirError("input_manifest.json names other inputs than job_spec.json")
            return cls(
                job_id=value["job_id"],
                namespace=value["namespace"],
                request=request,
                policy=replace(policy_from_json(value["policy"]), allowed_roots=tuple(manifest["roots"])),
                caps=caps_from_json(value["caps"]),
                cache_dir=value["cache_dir"],
                cache_bytes=value["cache_bytes"],
                model_profile=value["model_profile"],
                home=value["home"],
                model_profiles_file=value["model_profiles_file"],
                embeddings_profile=value.get("embeddings_profile", ""),
                rerank_profile=value.get("rerank_profile", ""),
                checkpoint_dir=value.get("checkpoint_dir", ""),
                service=value.get("service", False),
            )
        except (KeyError, TypeError, ValueError, AgentloopError) as exc:
            raise RunDirError(f"job_spec.json or input_manifest.json is malformed: {exc}") from exc

    @property
    def connects(self) -> bool:
        """Whether the job may need a socket: for a model, or for a command that has a network of its own."""

        name = self.model_profile
        model = name not in {"", BUILTIN} and not name.startswith(REPLAY)
        commands = self.policy.sandbox is not None and bool(self.request.task_params.validation_commands)
        return model or commands or self.service or bool(self.embeddings_profile or self.rerank_profile)

    def cache(self) -> Cache:
        """The cache of this job, which may be none."""
        return FileCache(Path(self.cache_dir), self.cache_bytes) if self.cache_dir else NoCache()

    async def execute(self, clock: Clock, progress: Progress, kept: Kept = NOTHING) -> Execution:
        """Give the pack: from the cache, or by the pipeline.

        Raises:
            AgentloopError: no pack can be made.
        """
        began = clock.monotonic()
        cache = self.cache()
        models = await asyncio.to_thread(self._models)
        if kept.warm is None:  # else the host has just looked
            found = await asyncio.to_thread(
                packcache.find, cache, self.request, self.policy, self.caps, models
            )
            if found is not None:
                return _from_cache(found, self.job_id, clock, began)
        warm = kept.warm or await asyncio.to_thread(self._warm, clock, progress)
        key = ""
        if warm is not None:
            warm.check_declared(self.request)
            key = self._key(warm, models, remembered=kept.remembered)
            found = packcache.load(cache, key) if key else None
            if found is not None:
                return _from_cache(found, self.job_id, clock, began)
        return await self._run(clock, progress, kept, warm, key)

    async def _run(
        self, clock: Clock, progress: Progress, kept: Kept, warm: Warm | None, key: str
    ) -> Execution:
        from agentloop.pipeline import Environment, run

        with self._model() as opened:
            model = self._kept_outputs(opened, warm, key)
            env = Environment(
                caps=self.caps,
                policy=self.policy,
                model=model,
                clock=clock,
                progress=progress,
                job_id=self.job_id,
                warm=warm,
                embedder=self._embedder(),
                reranker=self._reranker(),
                cache=self.cache(),
            )
            outcome = await run(self.request, env)
        whole = warm is not None and outcome.corpus is warm.corpus
        manifest = kept.manifest if whole and kept.manifest else Manifest.of(outcome.corpus)
        artifacts = {
            **outcome.artifacts,
            "manifest.json": manifest.data,
            **entities(outcome, manifest.manifest_id),
        }
        if key:
            packcache.keep(self.cache(), key, outcome.released, artifacts, outcome.corpus, self.policy)
        layers = kept.layers if warm is None or kept.warm is not None else warm.layers
        if outcome.ledger.get(Stage.RERANKING, "reused"):
            layers = (*layers, "retrieval", "rerank")
        status = ("partial" if layers else "miss") if self.cache_dir else "bypass"
        metadata = {
            "stages": {stage: round(spent, 3) for stage, spent in outcome.ledger.seconds.items()},
            "counters": outcome.ledger.counters,
            "cache": {"status": status, "layers": list(layers) if self.cache_dir else []},
        }
        return outcome.released, artifacts, metadata

    def _warm(self, clock: Clock, progress: Progress) -> Warm | None:
        """The stages before the question, made here; None where narrowing makes the whole of them a waste."""
        params = self.request.task_params
        if params.paths or params.languages:
            return None
        if self.checkpoint_dir:
            return self.prepare(clock, progress)
        if not self.cache_dir:
            return None
        from agentloop.checkpoint import in_cache, prepared, trim

        folder = in_cache(Path(self.cache_dir), self.namespace)
        warm = prepared(folder, self.request, self.caps, self.policy, clock, progress=progress)
        trim(folder, self.cache_bytes // 2)
        return warm

    def prepare(self, clock: Clock, progress: Progress, *, always: bool = False) -> Warm:
        """The stages before the question, from this attempt's checkpoint or kept in it.

        Raises:
            AgentloopError: as discovery and indexing.
        """
        from agentloop.checkpoint import prepared

        folder = Path(self.checkpoint_dir)
        return prepared(folder, self.request, self.caps, self.policy, clock, progress=progress, always=always)

    def _key(self, warm: Warm, models: str, *, remembered: bool) -> str:
        """The key of this job's pack, told to the cache with the state of its inputs; empty: not cached."""
        if not self.cache_dir or warm.snapshot is None or not warm.keepable(self.policy):
            return ""
        if not remembered:
            packcache.remember_inputs(
                self.cache(), self.request, self.policy, self.caps, warm.corpus, warm.snapshot
            )
        corpus = packcache.corpus_id(warm.corpus)
        return packcache.pack_key(self.request, corpus, self.policy, self.caps, models)

    def _models(self) -> str:
        """The models that shape the pack, for its key."""
        names = (self.model_profile, self.embeddings_profile, self.rerank_profile)
        return packcache.models_part(names, self._places()) if any(names) else ""

    @contextlib.contextmanager
    def _model(self) -> Iterator[ChatModel | None]:
        """The brain of the loop: the profile's model, served while the block lasts, or the built-in planner.

        Raises:
            AgentloopError: MODEL_UNAVAILABLE, or the profile is unknown.
        """
        if not self.model_profile:
            yield None
            return
        from agentloop.loop.brains import open_model

        with open_model(self.model_profile, self._places()) as model:
            if model is None or not self.checkpoint_dir:
                yield model
                return
            from agentloop.loop.resume import ResumingModel

            yield ResumingModel(model, Path(self.checkpoint_dir) / REPLIES)

    def _kept_outputs(self, model: ChatModel | None, warm: Warm | None, key: str) -> ChatModel | None:
        """The model with its outputs in the cache, where prompts over these inputs may be kept."""
        if model is None or warm is None or not key:
            return model
        if not self.policy.cache_records and any(f.kind is FileKind.RECORDS for f in warm.corpus.files):
            return model
        from agentloop.loop.kept import CachedModel, OutputSpace

        version = text_hash(packcache.models_part((self.model_profile,), self._places()))
        template = packcache.code_version()
        space = OutputSpace(self.namespace, version, template, self.policy.mode)
        return CachedModel(model, self.cache(), space)

    def _places(self) -> ModelPlaces:
        """Where profiles lie. A worker's environment is scrubbed: keys come from their `api_key_file`."""
        from agentloop.loop.places import ModelPlaces

        places = ModelPlaces.under(Path(self.home), self.model_profiles_file)
        if self.service:
            return replace(places, services=places.home.parent / "services")
        from agentloop.loop.sharing import folder_of

        return replace(places, shared=folder_of(tempfile.gettempdir(), os.environ))

    def _embedder(self) -> Embedder | None:
        if not self.embeddings_profile:
            return None
        from agentloop.loop.semantic import open_embedder

        return open_embedder(self.embeddings_profile, self._places())

    def _reranker(self) -> TextReranker | None:
        if not self.rerank_profile:
            return None
        from agentloop.loop.semantic import open_reranker

        return open_reranker(self.rerank_profile, self._places())


def _from_cache(found: packcache.Stored, job_id: str, clock: Clock, began: float) -> Execution:
    """A kept pack as this job's: its provenance tells this job, and that it came from the cache."""
    layers = ["file_hash", "manifest", "chunks", "index", "retrieval", "rerank", "evidence_pack"]
    released = packcache.renewed(found.released, job_id, clock.now(), clock.monotonic() - began)
    metadata = {"stages": {}, "counters": {}, "cache": {"status": "hit", "layers": layers}}
    return released, found.artifacts, metadata
