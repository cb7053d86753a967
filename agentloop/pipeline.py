"""The stages in order: one request in, one verified pack out. Holds no stage logic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from agentloop import tokens
from agentloop.budget import Ledger
from agentloop.cache import Cache, NoCache
from agentloop.chunking import chunk_corpus
from agentloop.clock import Clock, SystemClock
from agentloop.compress import build_pack
from agentloop.config import Caps, Policy
from agentloop.errors import AgentloopError, ErrorCode, Stage, WarningCode
from agentloop.index.build import IndexBuild, build_errors
from agentloop.index.lexical import LexicalIndex
from agentloop.index.symbols import SymbolParser
from agentloop.loop import ChatModel, LoopResult, explore
from agentloop.pack import Pack
from agentloop.request import CompressRequest, Mode, TaskType
from agentloop.retrieval import RetrievalSession, newest
from agentloop.retrieval.semantic import Embedder, Semantics, TextReranker
from agentloop.sources import discover
from agentloop.tasks.evidence import task_evidence
from agentloop.tasks.model import TaskEvidence
from agentloop.tasks.narrowing import narrowed
from agentloop.tasks.patch.evidence import patch_evidence
from agentloop.tasks.patch.propose import propose
from agentloop.types import Chunk, Corpus, Ranking
from agentloop.verify import verify_released
from agentloop.warm import Warm, primary

CUT_SHORT = frozenset({"time", "deadline", "max_turns"})
"""Ends that cut a loop short. A spent call budget does not: the last turn answers with what was found."""

Progress = Callable[[Stage, float], None]
"""Called at the start of each stage with the share of the request that is done, 0..1."""


def no_progress(stage: Stage, done: float) -> None:
    """Report to nobody."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What surrounds a request: limits, policy, the model, time. Filled at the composition root."""

    caps: Caps = field(default_factory=Caps)
    policy: Policy = field(default_factory=Policy)
    model: ChatModel | None = None  # None: the built-in planner
    clock: Clock = field(default_factory=SystemClock)
    progress: Progress = no_progress
    stdin: BinaryIO | None = None
    job_id: str | None = None
    warm: Warm | None = None  # discovery, chunks and index of these inputs, made earlier
    embedder: Embedder | None = None  # None: the strategy `embeddings` is not available
    reranker: TextReranker | None = None  # None: the rules alone rank
    cache: Cache = field(default_factory=NoCache)  # of vectors and of a reranker's scores


# no repr: at its end `asyncio.run` makes one of its task's result (through `signal.getsignal` and an enum),
# and that of a whole corpus costs seconds
@dataclass(frozen=True, slots=True, repr=False)
class Outcome:
    """A released pack, its local artifacts by file name, and what the stages made on the way."""

    pack: Pack
    released: dict[str, Any]  # the canonical form, as JSON values
    artifacts: dict[str, bytes]
    ranking: Ranking
    corpus: Corpus
    chunks: list[Chunk]
    ledger: Ledger
    loop: LoopResult | None


@dataclass(slots=True)
class _Run:
    """Deadline, ledger and progress of one request."""

    request: CompressRequest
    env: Environment
    ledger: Ledger
    deadline: float

    async def stage(self, stage: Stage, done: float, work: Callable[[], Any]) -> Any:
        """Run a stage off the event loop, timed, unless the request's time is over."""
        if self.env.clock.monotonic() > self.deadline:
            limit = self.request.constraints.max_runtime_seconds
            raise AgentloopError(
                ErrorCode.TIMED_OUT,
                f"The request ran longer than max_runtime_seconds={limit}; raise it or narrow the inputs.",
                stage,
            )
        self.env.progress(stage, done)
        with self.ledger.stage(stage):
            return await asyncio.to_thread(work)


async def run(request: CompressRequest, env: Environment) -> Outcome:
    """Answer a request.

    Raises:
        AgentloopError: no pack can be made; the code says why.
    """
    ledger = Ledger(env.clock)
    deadline = env.clock.monotonic() + request.constraints.max_runtime_seconds
    job = _Run(request, env, ledger, deadline)
    parser = SymbolParser(env.caps, ledger)
    try:
        return await _stages(job, parser)
    finally:
        parser.close()


async def _stages(job: _Run, parser: SymbolParser) -> Outcome:
    request, env, ledger = job.request, job.env, job.ledger
    corpus = await job.stage(
        Stage.DISCOVERY,
        0.0,
        lambda: narrowed(_discovered(job), request, ledger),
    )
    # loading the tokenizer takes half a second without the interpreter's lock: another core does it meanwhile
    asyncio.get_running_loop().run_in_executor(None, tokens.load)
    warm = env.warm if env.warm is not None and env.warm.corpus is corpus else None
    searched = request.task_params.mode is not Mode.COMPLETION
    begun = IndexBuild(corpus) if searched and warm is None else None
    chunks = (
        list(warm.chunks)  # retrieval may add windows of a huge log to it
        if warm is not None
        else await job.stage(Stage.CHUNKING, 0.2, lambda: _chunked(job, corpus, begun))
    )
    looped: LoopResult | None = None
    if not searched:
        ranking = await job.stage(Stage.RETRIEVAL, 0.4, lambda: newest(corpus, chunks, request, ledger))
    else:
        session = await job.stage(
            Stage.INDEXING,
            0.3,
            lambda: RetrievalSession(
                corpus,
                chunks,
                request,
                ledger,
                env.caps,
                parser,
                LexicalIndex(corpus, chunks, begun=begun) if warm is None else warm.index,
                Semantics(env.embedder, env.reranker, env.cache, env.policy, job.deadline),
            ),
        )
        await job.stage(Stage.RETRIEVAL, 0.5, session.first_pass)
        if request.task_params.mode is Mode.AGENTIC:
            looped = await _explore(job, session, corpus)
        ranking = await job.stage(Stage.RERANKING, 0.8, session.rank)
    evidence: TaskEvidence = await job.stage(
        Stage.COMPRESSION,
        0.85,
        lambda: task_evidence(ranking, corpus, chunks, request, parser, ledger, looped),
    )
    if request.task_type is TaskType.PROPOSE_PATCH:
        evidence = await _patch(job, evidence, corpus, parser)
    built = await job.stage(
        Stage.COMPRESSION,
        0.9,
        lambda: build_pack(
            evidence.drafts,
            ranking,
            corpus,
            request,
            env.policy,
            ledger,
            looped,
            job_id=env.job_id,
            details=evidence.details,
            answer=evidence.answer,
            extra=evidence.artifacts,
        ),
    )
    await job.stage(
        Stage.VALIDATION, 0.95, lambda: verify_released(built, corpus, request, env.policy, env.caps)
    )
    env.progress(Stage.VALIDATION, 1.0)
    return Outcome(built.pack, built.released, built.artifacts, ranking, corpus, chunks, ledger, looped)


async def _patch(job: _Run, evidence: TaskEvidence, corpus: Corpus, parser: SymbolParser) -> TaskEvidence:
    """A patch by the model that the request has, checked; without one a located plan."""
    request, env = job.request, job.env
    proposed = None
    if env.model is not None:
        with job.ledger.stage(Stage.COMPRESSION):
            proposed = await propose(
                request, evidence.drafts, corpus, parser, env.model, env.clock, job.deadline
            )
    return patch_evidence(evidence, proposed, corpus, request, env.policy, job.ledger)


def _discovered(job: _Run) -> Corpus:
    """The corpus of the request: the one that was kept, told to the ledger, or a new one."""
    request, env, ledger = job.request, job.env, job.ledger
    if env.warm is None:
        return discover(request, env.caps, env.policy, ledger, stdin=env.stdin)
    env.warm.check_declared(request)
    env.warm.tell(ledger)
    return env.warm.corpus


def _chunked(job: _Run, corpus: Corpus, begun: IndexBuild | None) -> list[Chunk]:
    """The chunks that may become evidence, handed to the index while further ones are made."""

    def made(chunks: list[Chunk]) -> None:
        if begun is not None:
            with build_errors():
                begun.add(primary(corpus, chunks))

    return primary(corpus, chunk_corpus(corpus, job.ledger, job.env.caps, made))


async def _explore(job: _Run, session: RetrievalSession, corpus: Corpus) -> LoopResult:
    """The bounded tool loop; a model that fails leaves what was found so far, with a warning."""
    job.env.progress(Stage.LOOP, 0.6)
    with job.ledger.stage(Stage.LOOP):
        result = await explore(
            session,
            job.request,
            model=job.env.model,
            clock=job.env.clock,
            deadline=job.deadline,
            notes=corpus.notes,
        )
    if result.failure:
        job.ledger.warn(WarningCode.MODEL_UNAVAILABLE, result.failure, Stage.LOOP)
    elif result.stop_reason in CUT_SHORT:
        message = f"The tool loop ended at a limit ({result.stop_reason}) before it was done."
        job.ledger.warn(WarningCode.LOOP_LIMIT_REACHED, message, Stage.LOOP)
    return result
