"""The stages in order: one request in, one verified pack out. Holds no stage logic."""

from __future__ import annotations

import asyncio
from importlib import import_module

from agentloop.budget import Ledger
from agentloop.cache.warm import baselines, primary
from agentloop.chunking import chunk_corpus
from agentloop.chunks import Chunks
from agentloop.environment import Environment, Outcome, Run, no_progress
from agentloop.errors import Stage
from agentloop.index.build import IndexBuild, build_errors
from agentloop.index.lexical import LexicalIndex
from agentloop.index.symbols import KeptParses, SymbolParser
from agentloop.request import CompressRequest, Mode
from agentloop.sources import discover
from agentloop.tasks.narrowing import narrowed
from agentloop.types import Corpus, FileKind, SourceFile

__all__ = ["Environment", "Outcome", "no_progress", "run"]


async def run(request: CompressRequest, env: Environment) -> Outcome:
    """Answer a request.

    Raises:
        AgentloopError: no pack can be made; the code says why.
    """
    ledger = Ledger(env.clock)
    deadline = env.clock.monotonic() + request.constraints.max_runtime_seconds
    job = Run(request, env, ledger, deadline)
    parser = SymbolParser(env.caps, ledger, KeptParses(env.cache, env.policy.namespace))
    try:
        return await _stages(job, parser)
    finally:
        parser.close()


async def _stages(job: Run, parser: SymbolParser) -> Outcome:
    request, env, ledger = job.request, job.env, job.ledger
    searched = request.task_params.mode is not Mode.COMPLETION
    index: LexicalIndex | None = None
    corpus: Corpus
    corpus = await job.stage(Stage.DISCOVERY, 0.0, lambda: narrowed(_discovered(job), request, ledger))
    warm = env.warm if env.warm is not None and env.warm.corpus is corpus else None
    begun = IndexBuild() if searched and warm is None else None
    chunks: Chunks
    if warm is not None:
        chunks = warm.chunks.copy()  # retrieval may add windows of a huge log to it
        index = warm.index if searched else None
    else:
        chunks = await job.stage(Stage.CHUNKING, 0.2, lambda: _chunked(job, corpus, begun))
        if env.ahead is not None:
            env.ahead.close()
        # waiting for the index leaves the interpreter idle
        asyncio.get_running_loop().run_in_executor(None, import_module, "agentloop.answer")
    if searched and any(file.kind is FileKind.CODE for file in corpus.files):
        parser.warm()  # another core starts it while the first search runs
    if begun is not None:
        index = await job.stage(Stage.INDEXING, 0.3, lambda: LexicalIndex(corpus, chunks, begun=begun))
    from agentloop.answer import answered

    return await answered(job, corpus, chunks, index, parser)


def _discovered(job: Run) -> Corpus:
    """The corpus of the request: the one that was kept, told to the ledger, or a new one."""
    request, env, ledger = job.request, job.env, job.ledger
    if env.warm is None:
        read = None if env.ahead is None else env.ahead.offer
        corpus = discover(request, env.caps, env.policy, ledger, stdin=env.stdin, read=read)
        if env.ahead is not None:
            env.ahead.flush()
        return corpus
    env.warm.check_declared(request)
    env.warm.tell(ledger)
    return env.warm.corpus


def _chunked(job: Run, corpus: Corpus, begun: IndexBuild | None) -> Chunks:
    """The chunks that may become evidence, handed to the index while further ones are made."""
    left_out, ahead = baselines(corpus), job.env.ahead

    def made(file: SourceFile, chunks: Chunks, rows: range) -> None:
        if begun is not None and file.input_id not in left_out:
            text = None if ahead is None else ahead.text(file)
            with build_errors():
                begun.add(file, chunks, rows, text)

    known = None if ahead is None else ahead.chunks
    return primary(corpus, chunk_corpus(corpus, job.ledger, job.env.caps, made, known))
