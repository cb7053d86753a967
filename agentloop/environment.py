"""What surrounds a request, what comes out of it, and how a stage of it is run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from agentloop.budget import Ledger
from agentloop.cache import Cache, NoCache
from agentloop.chunks import Chunks
from agentloop.clock import Clock, SystemClock
from agentloop.config import Caps, Policy
from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.request import CompressRequest
from agentloop.types import Corpus, Ranking

if TYPE_CHECKING:
    from agentloop.ahead import Ahead
    from agentloop.cache.warm import Warm
    from agentloop.loop import ChatModel, LoopResult
    from agentloop.pack import Pack
    from agentloop.retrieval.semantic import Embedder, TextReranker

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
    ahead: Ahead | None = None  # a process that chunks files while others are read
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
    chunks: Chunks
    ledger: Ledger
    loop: LoopResult | None


@dataclass(slots=True)
class Run:
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
