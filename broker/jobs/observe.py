"""Watching a run from its run directory: stage events, heartbeats, silence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentloop.clock import Clock
from agentloop.errors import Stage
from agentloop.rundir import Attempt, RunDirError, read_bytes

MAX_EVENT_BYTES = 1 << 20  # of one attempt's event log; a pipeline writes a few kB
MAX_EVENTS = 500
_EVENTS = frozenset({"started", "stage", "finished"})
_STAGES = frozenset(map(str, Stage)) | {"starting"}


@dataclass(slots=True)
class Observer:
    """What has been seen of one attempt. Only known stages, numbers and flags pass: never text."""

    attempt: Attempt
    clock: Clock
    seen_bytes: int = 0
    seen_events: int = 0
    last_beat: str = ""
    beat_at: float = -1.0

    def new_events(self) -> list[tuple[str, dict[str, Any]]]:
        """The events that were appended since the last look, whole lines only."""
        try:
            data = read_bytes(self.attempt.path / "events.jsonl", MAX_EVENT_BYTES)
        except (OSError, RunDirError):
            return []
        fresh = data[self.seen_bytes :]
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self.seen_bytes += len(whole)
        found = []
        for line in whole.splitlines():
            event = _event(line)
            if event is not None and self.seen_events < MAX_EVENTS:
                self.seen_events += 1
                found.append(event)
        return found

    def heartbeat(self) -> Mapping[str, Any] | None:
        """The last heartbeat, when it is another than at the last look."""
        try:
            beat = self.attempt.read_json("heartbeat.json")
            stage, percent, stamp = str(beat["stage"]), float(beat["percent"]), str(beat["ts"])
            metrics = {str(k): v for k, v in beat["metrics"].items() if isinstance(v, int | float)}
        except (OSError, RunDirError, KeyError, TypeError, ValueError, AttributeError):
            return None
        if stamp == self.last_beat or stage not in _STAGES:
            return None
        self.last_beat, self.beat_at = stamp, self.clock.monotonic()
        return {"stage": stage, "percent": min(100.0, max(0.0, percent)), "metrics": metrics}

    def silent_for(self) -> float:
        """Seconds on the monotonic clock since the last new heartbeat (since the first call, before one)."""
        if self.beat_at < 0:
            self.beat_at = self.clock.monotonic()
        return self.clock.monotonic() - self.beat_at


def _event(line: bytes) -> tuple[str, dict[str, Any]] | None:
    try:
        value = json.loads(line)
        kind, stage = value["event"], value["stage"]
    except (ValueError, KeyError, TypeError):
        return None
    if kind not in _EVENTS or stage not in _STAGES:
        return None
    facts = {k: v for k, v in value.items() if isinstance(v, bool | int | float)}
    return kind, {"stage": stage, **facts}
