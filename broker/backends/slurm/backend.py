"""The backend `slurm`: a run is a batch job whose name and comment carry its token.

The broker persists the token before it submits. An outcome that can't be known (a hung controller took
the job and never said so) is looked up by the token before anything is submitted again.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from agentloop.clock import Clock, SystemClock
from broker.backends.base import (
    BackendRejected,
    BackendUnavailable,
    Run,
    RunUpdate,
    SubmitUnknown,
)
from broker.backends.slurm import parse, tools
from broker.backends.slurm.watch import Watcher, job_name
from broker.config import Settings
from broker.planner import Tier

SCRIPT = Path(__file__).parent / "broker_worker.slurm"
TOOLS = ("sbatch", "squeue", "scontrol", "scancel")


class SlurmBackend:
    """Implements `broker.backends.base.Backend` with sbatch, squeue, sacct and scancel."""

    def __init__(
        self, settings: Settings, clock: Clock | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self._settings = settings
        self._env = tools.environment(environ)
        self._ids: dict[str, str] = {}  # by token
        self._feature = ""
        self._watcher = Watcher(
            self._env,
            clock or SystemClock(),
            settings.slurm_poll_seconds,
            settings.slurm_start_seconds,
        )

    @property
    def name(self) -> str:
        """The backend's name in requests and settings."""
        return "slurm"

    @property
    def tiers(self) -> frozenset[Tier]:
        """The tiers that a partition is configured for."""
        return frozenset(tier for tier in Tier if self._partition(tier))

    @property
    def capacity(self) -> int:
        """Runs in Slurm's queue at once; more wait in the broker's."""
        return self._settings.slurm_max_runs

    @property
    def survives_broker(self) -> bool:
        """Slurm's jobs go on without us."""
        return True

    @property
    def polls(self) -> int:
        """How often squeue was asked."""
        return self._watcher.polls

    async def start(self) -> None:
        """Find the tools and, for the P40 pool, a node feature to prefer.

        Raises:
            BackendUnavailable: a tool is missing, or no partition is configured.
        """
        absent = [tool for tool in TOOLS if not shutil.which(tool, path=self._env.get("PATH"))]
        if absent:
            raise BackendUnavailable(f"{', '.join(absent)} not found on PATH; install Slurm's client tools")
        if not self.tiers:
            raise BackendUnavailable(
                "no partition is configured; set BROKER_SLURM_PARTITION_CPU, _P40, _A100"
            )
        if self._settings.slurm_nodelist_p40:
            self._feature = await self._common_feature(self._settings.slurm_nodelist_p40)

    async def submit(self, run: Run) -> str:
        """Hand a run to sbatch.

        Raises:
            BackendRejected: Slurm refuses it for good. BackendUnavailable: it took nothing.
            SubmitUnknown: it may have taken it.
        """
        partition = self._partition(run.tier)
        if not partition:
            raise BackendRejected(f"no partition is configured for the tier {run.tier}")
        answer = await tools.call(self._sbatch(run, partition), self._env)
        if answer.status != 0:
            raise tools.refused(answer)
        backend_id = parse.submitted_id(answer.out)
        if not backend_id:
            raise SubmitUnknown("sbatch printed no job id")
        self._ids[run.token] = backend_id
        return backend_id

    async def watch(self, run: Run) -> AsyncIterator[RunUpdate]:
        """Updates of a run, ending with a final one."""
        async for update in self._watcher.follow(run, self._ids.get(run.token, run.backend_id)):
            yield update
        self._ids.pop(run.token, None)

    async def cancel(self, run: Run) -> None:
        """scancel; the watch confirms it."""
        await self._watcher.stop(run, self._ids.get(run.token, run.backend_id))

    async def recover(self, runs: Sequence[Run]) -> dict[str, RunUpdate]:
        """What Slurm knows of runs of an earlier broker, by token."""
        if not runs:
            return {}
        return await self._watcher.find({run.token: run for run in runs})

    async def logs(self, run: Run) -> str:
        """The file that Slurm writes the worker's output to."""
        return str(run.run_dir / "slurm.log")

    async def close(self) -> None:
        """Stop polling; the jobs go on."""
        await self._watcher.close()

    def _partition(self, tier: Tier) -> str:
        return {
            Tier.CPU: self._settings.slurm_partition_cpu,
            Tier.P40: self._settings.slurm_partition_p40,
            Tier.A100: self._settings.slurm_partition_a100,
        }[tier]

    def _qos(self, qos: str) -> str:
        return {
            "preemptible": self._settings.slurm_qos_preemptible,
            "normal": self._settings.slurm_qos_normal,
            "high": self._settings.slurm_qos_high,
        }.get(qos, "")

    def _sbatch(self, run: Run, partition: str) -> list[str]:
        """Fixed arguments; what varies is made of our own words and numbers, and paths of the operator."""
        r = run.resources
        script = self._settings.slurm_script_path or str(SCRIPT)
        argv = [
            "sbatch",
            "--parsable",
            f"--job-name={job_name(run)}",
            f"--comment={run.token}",
            f"--partition={partition}",
            "--nodes=1",
            "--ntasks=1",
            f"--cpus-per-task={r.cpus}",
            f"--mem={r.memory_mb}M",
            f"--time={math.ceil(r.seconds / 60)}",
            "--export=ALL",
            "--open-mode=append",
            "--requeue" if run.qos == "preemptible" else "--no-requeue",
            f"--chdir={run.run_dir}",
            f"--output={str(run.run_dir).replace('%', '%%')}/slurm.log",
        ]
        if r.gpus:
            argv.append(f"--gres=gpu:{r.gpu_type}:{r.gpus}")
        if qos := self._qos(run.qos):
            argv.append(f"--qos={qos}")
        if self._settings.slurm_account:
            argv.append(f"--account={self._settings.slurm_account}")
        if run.tier is Tier.P40 and self._feature:
            argv.append(f"--prefer={self._feature}")
        return [*argv, script, str(run.run_dir), run.label]

    async def _common_feature(self, nodelist: str) -> str:
        """A feature that all preferred nodes share, for `--prefer`; `--nodelist` would demand all of them."""
        answer = await tools.call(["sinfo", "-h", "-N", "-n", nodelist, "-o", "%N|%f"], self._env)
        shared: set[str] | None = None
        for line in answer.out.split():
            _, _, features = line.partition("|")
            own = set(features.split(",")) - {"(null)"}
            shared = own if shared is None else shared & own
        return min(shared or {""})
