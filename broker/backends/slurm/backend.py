"""The backend `slurm`: a run is a batch job whose name and comment carry its token.

The broker persists the token before it submits. An outcome that can't be known (a hung controller took
the job and never said so) is looked up by the token before anything is submitted again.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
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
from broker.backends.slurm.arrays import MAX_ARRAY_SIZE, Array, Arrays, array_limit, job_name
from broker.backends.slurm.services import Services, on_cpu
from broker.backends.slurm.watch import Watcher
from broker.config import Settings
from broker.planner import Tier

SCRIPT = Path(__file__).parent / "broker_worker.slurm"
ARRAY_LABEL = "0"
"""What the batch script of an array gets for an attempt: the list of tasks has each task's own."""
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
        self._arrays = Arrays(settings.home_path / "slurm", MAX_ARRAY_SIZE, self._submit_array)
        self._services = Services(settings, self._env, self._submit_service)
        self._watcher = Watcher(
            self._env,
            clock or SystemClock(),
            settings.slurm_poll_seconds,
            settings.slurm_start_seconds,
            self._arrays.place,
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
        config = await tools.call(["scontrol", "show", "config"], self._env)
        most = array_limit(config.out)
        self._arrays.size = min(most, self._settings.slurm_array_size or most)
        if self._settings.slurm_nodelist_p40:
            self._feature = await self._common_feature(self._settings.slurm_nodelist_p40)

    async def submit(self, run: Run) -> str:
        """Hand a run to sbatch.

        Raises:
            BackendRejected: Slurm refuses it for good. BackendUnavailable: it took nothing.
            SubmitUnknown: it may have taken it.
        """
        if run.service:
            await self._services.ensure(run)
            run = on_cpu(run) if self._settings.slurm_partition_cpu else run
        if self._arrays.takes(run) and not run.before:
            backend_id = await self._arrays.submit(run)
        else:
            backend_id = await self._submit_steps(run)
        self._ids[run.token] = backend_id
        return backend_id

    async def _submit_steps(self, run: Run) -> str:
        """A run as one job, or as a chain of jobs: each starts when the one before it went well."""
        earlier = ""
        for step in run.before:
            stage = replace(run, stage=step.stage, tier=step.tier, resources=step.resources)
            made = await self._sbatch(
                _with_earlier(self._argv(stage), earlier), [str(run.run_dir), run.label, step.stage]
            )
            earlier = made.partition(";")[0]
        return await self._sbatch(_with_earlier(self._argv(run), earlier), [str(run.run_dir), run.label])

    async def _submit_array(self, array: Array) -> str:
        """Runs as one array; each of its tasks finds its own run directory in the list."""
        limit = self._settings.slurm_array_running
        bound = f"%{limit}" if limit else ""
        first = replace(array.runs[0], token=array.token, run_dir=array.file.parent)
        argv = [*self._argv(first, array.file.with_suffix(".log")), f"--array=0-{len(array.runs) - 1}{bound}"]
        return await self._sbatch(argv, [str(array.file), ARRAY_LABEL])

    async def _submit_service(self, asked: Run, output: Path, arguments: list[str]) -> str:
        argv = [*self._argv(asked, output), "--no-requeue"]  # a requeued one would wait for nobody
        return await self._sbatch(argv, arguments)

    async def _sbatch(self, argv: list[str], arguments: list[str]) -> str:
        answer = await tools.call(
            [*argv, self._settings.slurm_script_path or str(SCRIPT), *arguments], self._env
        )
        if answer.status != 0:
            raise tools.refused(answer)
        backend_id = parse.submitted_id(answer.out)
        if not backend_id:
            raise SubmitUnknown("sbatch printed no job id")
        return backend_id

    async def watch(self, run: Run) -> AsyncIterator[RunUpdate]:
        """Updates of a run, ending with a final one."""
        async for update in self._watcher.follow(run, self._ids.get(run.token, run.backend_id)):
            yield update
        self._ids.pop(run.token, None)
        self._arrays.forget(run)

    async def cancel(self, run: Run) -> None:
        """scancel; the watch confirms it."""
        await self._watcher.stop(run, self._ids.get(run.token, run.backend_id))

    async def recover(self, runs: Sequence[Run]) -> dict[str, RunUpdate]:
        """What Slurm knows of runs of an earlier broker, by token."""
        self._arrays.adopt(runs)
        if not runs:
            return {}
        return await self._watcher.find({run.token: run for run in runs})

    async def logs(self, run: Run) -> str:
        """The file that Slurm writes the worker's output to."""
        return str(run.run_dir / "slurm.log")

    async def close(self) -> None:
        """Stop polling; the jobs go on."""
        await self._arrays.close()
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

    def _argv(self, run: Run, log: Path | None = None) -> list[str]:
        """Fixed arguments; what varies is made of our own words and numbers, and paths of the operator.

        Raises:
            BackendRejected: the tier has no partition.
        """
        partition, r = self._partition(run.tier), run.resources
        if not partition:
            raise BackendRejected(f"no partition is configured for the tier {run.tier}")
        output = str(log or run.run_dir / "slurm.log").replace("%", "%%")
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
            f"--output={output}",
        ]
        if r.gpus:
            argv.append(f"--gres=gpu:{r.gpu_type}:{r.gpus}")
        if qos := self._qos(run.qos):
            argv.append(f"--qos={qos}")
        if self._settings.slurm_account:
            argv.append(f"--account={self._settings.slurm_account}")
        if run.tier is Tier.P40 and self._feature:
            argv.append(f"--prefer={self._feature}")
        return argv

    async def _common_feature(self, nodelist: str) -> str:
        """A feature that all preferred nodes share, for `--prefer`; `--nodelist` would demand all of them."""
        answer = await tools.call(["sinfo", "-h", "-N", "-n", nodelist, "-o", "%N|%f"], self._env)
        shared: set[str] | None = None
        for line in answer.out.split():
            _, _, features = line.partition("|")
            own = set(features.split(",")) - {"(null)"}
            shared = own if shared is None else shared & own
        return min(shared or {""})


def _with_earlier(argv: list[str], earlier: str) -> list[str]:
    """Arguments of a job that waits for another; when that fails it is cancelled, not left pending."""
    return [*argv, f"--dependency=afterok:{earlier}", "--kill-on-invalid-dep=yes"] if earlier else argv
