"""Cancels, gathered: one scancel for all runs that are stopped within a moment, as the shards of a root are.

What scancel could not do, because the controller is away, is tried again until it says yes: a cancel that
was taken on is not forgotten. That a run has ended is seen by watching it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from broker.backends.base import BackendUnavailable
from broker.backends.slurm import tools

log = logging.getLogger("broker.slurm")

GATHER_SECONDS = 0.1
MOST_IDS = 500  # of one command line


class Cancels:
    """Asks Slurm to end jobs by id or name. `seconds` is between two tries."""

    def __init__(self, env: Mapping[str, str], seconds: float) -> None:
        self._env = env
        self._seconds = seconds
        self._ids: dict[str, set[str]] = {}  # by cluster
        self._names: set[tuple[str, str]] = set()
        self._task: asyncio.Task[None] | None = None

    def ask(self, cluster: str, *, job: str = "", name: str = "") -> None:
        """Take on to cancel a job by its id, or all jobs of a name."""
        if job:
            self._ids.setdefault(cluster, set()).add(job)
        if name:
            self._names.add((cluster, name))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        """Do what was taken on, once; the jobs of a controller that is away go on."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._try()

    async def _work(self) -> None:
        wait = GATHER_SECONDS
        while self._ids or self._names:
            await asyncio.sleep(wait)
            await self._try()
            wait = max(GATHER_SECONDS, self._seconds)

    async def _try(self) -> None:
        """One round; what failed is taken on again."""
        ids, names = self._ids, self._names
        self._ids, self._names = {}, set()
        for cluster, jobs in ids.items():
            listed = sorted(jobs)
            for first in range(0, len(listed), MOST_IDS):
                some = listed[first : first + MOST_IDS]
                if not await self._scancel(cluster, some):
                    self._ids.setdefault(cluster, set()).update(some)
        for cluster, name in sorted(names):
            if not await self._scancel(cluster, [f"--name={name}"]):
                self._names.add((cluster, name))

    async def _scancel(self, cluster: str, targets: list[str]) -> bool:
        where = ["-M", cluster] if cluster else []
        try:
            answer = await tools.call(["scancel", *where, *targets], self._env)
        except BackendUnavailable as exc:
            log.warning("scancel failed", extra={"reason": str(exc)})
            return False
        if answer.status == 0 or "Invalid job id" in answer.err:
            return True
        log.warning("scancel failed", extra={"reason": answer.err.strip()[:200]})
        return False
