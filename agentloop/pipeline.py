"""The stages in order: one request in, one verified pack out. Holds no stage logic."""

from __future__ import annotations

import asyncio
from importlib import import_module

from agentloop.ahead import Ahead
from agentloop.budget import Ledger
from agentloop.environment import Environment, Outcome, Run, no_progress
from agentloop.errors import Stage
from agentloop.index.lexical import LexicalIndex
from agentloop.index.symbols import KeptParses, SymbolParser
from agentloop.request import CompressRequest, Mode
from agentloop.sources import discover
from agentloop.tasks.narrowing import narrowed
from agentloop.types import Corpus, FileKind

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
    ahead = Ahead(request, ledger, env.caps, indexed=searched) if env.warm is None else None
    corpus = await job.stage(Stage.DISCOVERY, 0.0, lambda: narrowed(_discovered(job, ahead), request, ledger))
    if env.warm is not None and env.warm.corpus is corpus:
        chunks = list(env.warm.chunks)  # retrieval may add windows of a huge log to it
        if any(file.kind is FileKind.CODE for file in corpus.files):
            parser.warm()  # another core starts it while the first search runs
        index = env.warm.index if searched else None
    else:
        made = ahead or Ahead(request, ledger, env.caps, indexed=searched)
        await job.stage(Stage.CHUNKING, 0.2, lambda: made.settle(corpus))
        chunks = made.chunks
        if searched and any(file.kind is FileKind.CODE for file in corpus.files):
            parser.warm()
        # waiting for the index leaves the interpreter idle
        asyncio.get_running_loop().run_in_executor(None, import_module, "agentloop.answer")
        if searched:
            index = await job.stage(
                Stage.INDEXING, 0.3, lambda: LexicalIndex(corpus, chunks, begun=made.build)
            )
    from agentloop.answer import answered

    return await answered(job, corpus, chunks, index, parser)


def _discovered(job: Run, ahead: Ahead | None) -> Corpus:
    """The corpus of the request: the one that was kept, told to the ledger, or a new one."""
    request, env, ledger = job.request, job.env, job.ledger
    if env.warm is None:
        params = request.task_params
        whole = ahead is not None and not params.paths and not params.languages
        read = ahead.add if ahead is not None and whole else None
        return discover(request, env.caps, env.policy, ledger, stdin=env.stdin, read=read)
    env.warm.check_declared(request)
    env.warm.tell(ledger)
    return env.warm.corpus
