"""What `/metrics` tells, in Prometheus' text form."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE

__all__ = ["CONTENT_TYPE", "FINISHED", "JOB_SECONDS", "SUBMITTED", "render"]

REGISTRY = CollectorRegistry()
SUBMITTED = Counter("agentloop_jobs_submitted", "Jobs accepted", ["task_type"], registry=REGISTRY)
FINISHED = Counter(
    "agentloop_jobs_finished", "Jobs that reached a terminal state", ["task_type", "state"], registry=REGISTRY
)
JOB_SECONDS = Histogram(
    "agentloop_job_seconds",
    "Seconds from submit to the terminal state",
    ["task_type"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900),
    registry=REGISTRY,
)
UNFINISHED = Gauge(
    "agentloop_jobs_unfinished", "Jobs not in a terminal state", ["namespace", "state"], registry=REGISTRY
)


def render(counts: Mapping[tuple[str, str], int]) -> bytes:
    """All metrics; `counts` are the unfinished jobs by namespace and state."""
    UNFINISHED.clear()
    for (namespace, state), count in counts.items():
        UNFINISHED.labels(namespace, state).set(count)
    return generate_latest(REGISTRY)
