"""Warm services as Slurm jobs: one a profile, started when a run needs it, replaced when it is not well.

A service ends by itself when its lease is not renewed (`agentloop.loop.services`), so nothing here stops
one that is idle. What was ordered is durable before sbatch is called, under a token that is in the job's
name: an order of unknown outcome is looked up before another one is given.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from agentloop.loop.services import STALE_SECONDS, Files, Order
from broker.backends.base import BackendRejected, BackendUnavailable, Run, SubmitUnknown
from broker.backends.slurm import parse, tools
from broker.config import Settings
from broker.planner import Tier, resources_of

log = logging.getLogger("broker.slurm")

STARTING_SECONDS = 900.0
"""How long a service that runs may tell nothing: it loads its model. Then it is replaced."""
LABEL = "0"

Submit = Callable[[Run, Path, list[str]], Awaitable[str]]
"""Hands a job to sbatch: what it asks for, its log, the script's arguments."""


class Services:
    """Sees to it that a service lives, or is on its way, for those who need one."""

    def __init__(self, settings: Settings, env: Mapping[str, str], submit: Submit) -> None:
        self._settings = settings
        self._env = env
        self._submit = submit
        self._folder = settings.home_path / "services"
        self._turns: dict[str, asyncio.Lock] = {}

    async def ensure(self, run: Run) -> None:
        """Renew the lease of a run's service, and start the service where there is none that is well.

        Trouble is logged and left at that: the run's worker waits for the service, and fails with
        MODEL_UNAVAILABLE, which is retried with a server of its own.
        """
        files = Files(self._folder, run.service)
        async with self._turns.setdefault(run.service, asyncio.Lock()):
            await asyncio.to_thread(files.renew)
            if await asyncio.to_thread(files.living, time.time()) is not None:
                return
            try:
                if not await self._coming(files):
                    await self._order(files, run)
            except (BackendRejected, BackendUnavailable, SubmitUnknown, OSError) as exc:
                log.warning("a warm service could not be ordered: %s", exc, extra={"job": run.job_id})

    async def _coming(self, files: Files) -> bool:
        """Whether the service that was ordered last waits or starts; one that tells nothing is cancelled."""
        order = await asyncio.to_thread(files.read_order)
        if order is None:
            return False
        name = _name(files, order.token)
        argv = ["squeue", "--me", "-h", f"--name={name}", "-O", "JobArrayID:|,State:|,TimeUsed:|"]
        answer = await tools.call(argv, self._env)
        if answer.status != 0:
            return True  # no information: nothing is ordered twice for that
        for line in answer.out.splitlines():
            job, state, used, *_ = [*line.split("|"), "", ""]
            if state == "PENDING" or (state == "RUNNING" and parse.seconds_of(used) < self._patience(files)):
                return True
            await tools.call(["scancel", job], self._env)
        return False

    def _patience(self, files: Files) -> float:
        """Seconds that a running service may be silent: long while it never told anything."""
        return STARTING_SECONDS if not files.told() else STALE_SECONDS

    async def _order(self, files: Files, run: Run) -> None:
        token = secrets.token_hex(13)
        order = Order(
            token=token,
            profile=run.service,
            home=str(self._settings.home_path),
            model_profiles_file=self._settings.model_profiles_file,
            idle_seconds=self._settings.slurm_service_idle_seconds,
        )
        await asyncio.to_thread(files.registry.unlink, missing_ok=True)
        await asyncio.to_thread(files.write_order, order)
        tier = run.tier
        asked = replace(
            run,
            task_type="service",
            stage=files.slug,
            token=token,
            run_dir=self._folder,
            qos="preemptible",
            resources=resources_of(tier, self._settings.slurm_service_seconds),
        )
        await self._submit(asked, self._folder / f"{files.slug}.log", [str(files.order), LABEL])


def on_cpu(run: Run) -> Run:
    """A run whose model is served elsewhere, on the tier without GPUs."""
    seconds = run.resources.seconds
    return replace(
        run, tier=Tier.CPU, resources=replace(resources_of(Tier.CPU, 0), seconds=seconds), before=()
    )


def _name(files: Files, token: str) -> str:
    return f"broker-service-{files.slug}-{token}"
