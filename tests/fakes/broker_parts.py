"""Parts for broker tests in one process: a clock that is held, a store on a real file, a scripted backend."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentloop.rundir import RunDir
from broker.backends.base import Run, RunState, RunUpdate
from broker.jobs.audit import Auditor
from broker.jobs.database import Database, opened
from broker.jobs.model import Job, new_id
from broker.jobs.store import Limits, Store
from broker.planner import Tier

PLENTY = Limits(1000, 1000)


@dataclass
class HeldClock:
    """Time that moves when told. The wall clock may jump; the monotonic one never goes back."""

    wall: datetime = datetime(2026, 7, 1, 12, tzinfo=UTC)
    mono: float = 1000.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.mono

    def now(self) -> datetime:
        """The wall clock."""
        return self.wall

    def jump(self, days: float) -> None:
        """Move the wall clock alone."""
        self.wall += timedelta(days=days)


def job(namespace: str = "local", **changes: Any) -> Job:
    """A queued job."""
    values: dict[str, Any] = {
        "job_id": new_id("job"),
        "namespace": namespace,
        "principal": "p",
        "task_type": "rag_compress",
        "request": {
            "query": "q",
            "input_refs": [{"type": "file", "uri": "/nowhere"}],
            "constraints": {"max_runtime_seconds": 900},
        },
        "request_hash": "h",
        "created_at": 1.0,
        "updated_at": 1.0,
        "tier": str(Tier.CPU),
    }
    return Job(**{**values, **changes})


@contextlib.asynccontextmanager
async def stored(folder: Path, clock: HeldClock | None = None) -> AsyncIterator[tuple[Store, Database]]:
    """A store on a real database file."""
    clock = clock or HeldClock()
    async with opened(folder / "broker.db", 200) as database:
        yield Store(database, clock, Auditor(b"k" * 32, clock)), database


Script = Callable[[Run], AsyncIterator[RunUpdate]]


@dataclass
class ScriptedBackend:
    """A backend whose runs go as a script says. It records what it was asked."""

    script: Script
    survives_broker: bool = False
    capacity: int = 4
    tiers: frozenset[Tier] = frozenset(Tier)
    name: str = "local"
    submitted: list[Run] = field(default_factory=list)
    cancelled: dict[str, asyncio.Event] = field(default_factory=dict)
    known: dict[str, RunUpdate] = field(default_factory=dict)
    submit_errors: list[Exception] = field(default_factory=list)

    async def start(self) -> None:
        """Nothing to get ready."""

    async def submit(self, run: Run) -> str:
        """Take a run, or raise the next error of the script."""
        self.submitted.append(run)
        if self.submit_errors:
            raise self.submit_errors.pop(0)
        return run.token

    async def watch(self, run: Run) -> AsyncIterator[RunUpdate]:
        """What the script yields."""
        self.cancelled.setdefault(run.token, asyncio.Event())
        async for update in self.script(run):
            yield update

    async def cancel(self, run: Run) -> None:
        """Set the run's event, which a script may wait for."""
        self.cancelled.setdefault(run.token, asyncio.Event()).set()

    async def recover(self, runs: Sequence[Run]) -> dict[str, RunUpdate]:
        """What `known` says; LOST else."""
        return {run.token: self.known.get(run.token, RunUpdate(RunState.LOST)) for run in runs}

    async def logs(self, run: Run) -> str:
        """Nowhere."""
        return ""

    async def close(self) -> None:
        """Nothing to let go."""


def pack(job_id: str = "j", text: str = "a claim") -> dict[str, Any]:
    """A small released pack."""
    return {
        "schema_name": "rag_evidence_pack_v1",
        "schema_version": "1.0.0",
        "payload": {
            "query": "q",
            "input_scope": {"classification": "internal", "source_refs": ["file:sha256:00"]},
            "retrieval": {
                "strategies": ["bm25"],
                "chunks_considered": 1,
                "chunks_retrieved": 1,
                "chunks_reranked": 1,
                "chunks_compressed": 1,
                "mode": "agentic",
                "model": "builtin",
                "tool_calls": 2,
            },
            "evidence": [
                {
                    "id": "ev_001",
                    "kind": "text",
                    "claim": text,
                    "source_refs": [
                        {
                            "input_id": "in1",
                            "path": "a.py",
                            "line_start": 1,
                            "line_end": 1,
                            "byte_start": 0,
                            "byte_end": 4,
                            "content_hash": "sha256:0000000000000000",
                            "chunk_hash": "sha256:0000000000000000",
                        }
                    ],
                    "relevance": 1,
                    "confidence": 0.5,
                    "redaction": "no_raw_excerpt",
                }
            ],
            "warnings": [],
            "coverage": {"files_seen": 1, "files_indexed": 1, "bytes_indexed": 4},
            "budget": {
                "retrieved_chunk_tokens": 1,
                "compressed_tokens": 1,
                "final_pack_tokens": 1,
                "remote_context_budget": 12000,
                "tokenizer": "o200k_base",
            },
        },
        "evidence_refs": ["ev_001"],
        "quality_signals": {"term_coverage": 1, "strategy_agreement": 1},
        "provenance": {
            "agentloop": "0",
            "created": "now",
            "seconds": 0,
            "pack_id": "evpack_0123456789abcdef",
            "job_id": job_id,
        },
    }


def publish_pack(run: Run, text: str = "a claim") -> None:
    """Publish a pack into a run's attempt, as a worker does."""
    found = pack(run.job_id, text)
    attempt = RunDir(run.run_dir).attempt(run.label)
    attempt.path.mkdir(parents=True, exist_ok=True)
    attempt.publish_json("run-metadata.json", {"cache": {"status": "miss", "layers": []}})
    attempt.write_artifacts({"evidence_pack.json": json.dumps(found).encode()})
    attempt.publish_json("result.json", found)
