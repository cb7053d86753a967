"""The stages that depend on the question, in order: retrieval, the loop, claims, the pack, verification.

`agentloop.pipeline` imports this module when it is needed: while the index is still being filled.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agentloop.cache.rankings import RankCache
from agentloop.chunks import Chunks
from agentloop.compress import build_pack
from agentloop.environment import Outcome, Run
from agentloop.errors import Stage, WarningCode
from agentloop.index.lexical import LexicalIndex
from agentloop.index.symbols import SymbolParser
from agentloop.request import Mode, TaskType
from agentloop.retrieval import RetrievalSession, newest
from agentloop.retrieval.semantic import Semantics
from agentloop.tasks.evidence import task_evidence
from agentloop.tasks.model import TaskEvidence, with_history
from agentloop.tasks.unused import tell_unused
from agentloop.types import Corpus, Ranking
from agentloop.verify import verify_released

if TYPE_CHECKING:
    from agentloop.loop import LoopResult

CUT_SHORT = frozenset({"time", "deadline", "max_turns"})
"""Ends that cut a loop short. A spent call budget does not: the last turn answers with what was found."""


async def answered(
    job: Run, corpus: Corpus, chunks: Chunks, index: LexicalIndex | None, parser: SymbolParser
) -> Outcome:
    """The pack of a request over indexed chunks. Without an index the newest chunks are the evidence.

    Raises:
        AgentloopError: no pack can be made, or it may not be released.
    """
    request, env, ledger = job.request, job.env, job.ledger
    looped: LoopResult | None = None
    if index is None:
        ranking = await job.stage(Stage.RETRIEVAL, 0.4, lambda: newest(corpus, chunks, request, ledger))
    else:
        ranking, looped = await _ranked(job, corpus, chunks, index, parser)
    tell_unused(request, corpus, ledger, has_model=env.model is not None)
    evidence: TaskEvidence = await job.stage(
        Stage.COMPRESSION,
        0.85,
        lambda: task_evidence(ranking, corpus, chunks, request, parser, ledger, looped),
    )
    cited = with_history(corpus, evidence.history)
    if request.task_type is TaskType.PROPOSE_PATCH:
        evidence = await _patch(job, evidence, cited, parser)
    built = await job.stage(
        Stage.COMPRESSION,
        0.9,
        lambda: build_pack(
            evidence.drafts,
            ranking,
            cited,
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
        Stage.VALIDATION, 0.95, lambda: verify_released(built, cited, request, env.policy, env.caps)
    )
    env.progress(Stage.VALIDATION, 1.0)
    return Outcome(built.pack, built.released, built.artifacts, ranking, corpus, chunks, ledger, looped)


async def _ranked(
    job: Run, corpus: Corpus, chunks: Chunks, index: LexicalIndex, parser: SymbolParser
) -> tuple[Ranking, LoopResult | None]:
    """What the question finds, with the loop that found it; from the cache where it was asked before."""
    request, env, ledger = job.request, job.env, job.ledger
    cache = RankCache(request, env, corpus, chunks)
    kept = await asyncio.to_thread(cache.find, ledger)
    if kept is not None:
        return kept
    looped: LoopResult | None = None
    meaning = Semantics(env.embedder, env.reranker, env.cache, env.policy, job.deadline)
    tables = env.warm.tables if env.warm is not None and env.warm.corpus is corpus else None
    session = RetrievalSession(corpus, chunks, request, ledger, env.caps, parser, index, meaning, tables)
    await job.stage(Stage.RETRIEVAL, 0.5, session.first_pass)
    if request.task_params.mode is Mode.AGENTIC:
        looped = await _explore(job, session, corpus)
    ranking: Ranking = await job.stage(Stage.RERANKING, 0.8, session.rank)
    cache.keep(ranking, looped, ledger, chunks)
    return ranking, looped


async def _patch(job: Run, evidence: TaskEvidence, corpus: Corpus, parser: SymbolParser) -> TaskEvidence:
    """A patch by the model that the request has, checked; without one a located plan."""
    from agentloop.tasks.patch.evidence import patch_evidence
    from agentloop.tasks.patch.propose import propose
    from agentloop.tasks.patch.validation import validate

    request, env = job.request, job.env
    proposed = None
    if env.model is not None:
        with job.ledger.stage(Stage.COMPRESSION):
            proposed = await propose(
                request, evidence.drafts, corpus, parser, env.model, env.clock, job.deadline
            )
    patch = proposed.patch if proposed else None
    validation = await job.stage(
        Stage.VALIDATION,
        0.88,
        lambda: validate(patch, corpus, request, env.policy, env.caps, env.clock, job.deadline, job.ledger),
    )
    return patch_evidence(evidence, proposed, corpus, request, env.policy, job.ledger, validation)


async def _explore(job: Run, session: RetrievalSession, corpus: Corpus) -> LoopResult:
    """The bounded tool loop; a model that fails leaves what was found so far, with a warning."""
    from agentloop.loop import explore

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
