"""Shards of one root as the tasks of a Slurm array.

Shards that are submitted together and ask for the same become one `sbatch --array=0-N%M`, in chunks of
what the cluster allows. Which task is which run stands in a list that is durable before sbatch is called:
a broker that was killed in between finds the tasks by the array's token and their index. The worker reads
the same list to find its run directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentloop import tasklist
from agentloop.rundir import RunDirError
from broker.backends.base import BackendUnavailable, Run

QUIET_SECONDS = 1.0
"""How long a batch waits for the next shard: writing a run directory takes some 10 ms, on NFS more."""
MAX_ARRAY_SIZE = 1001  # Slurm's own default; indices stay below it
_MAX_ARRAY = re.compile(r"^MaxArraySize\s*=\s*(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run is in Slurm: a job's whole name and, in an array, the task's index."""

    name: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """Runs as the tasks of one array, in order of their index, and the file that lists them."""

    token: str
    file: Path
    runs: tuple[Run, ...]

    @property
    def name(self) -> str:
        """`broker-{task_type}-{stage}-{token}`, with the array's token."""
        return job_name(replace(self.runs[0], token=self.token))


def job_name(run: Run) -> str:
    """`broker-{task_type}-{stage}-{token}`: words of ours only, so that nothing needs quoting."""
    return f"broker-{run.task_type}-{run.stage}-{run.token}"


def array_limit(config: str) -> int:
    """Tasks that one array may have, from what `scontrol show config` prints."""
    found = _MAX_ARRAY.search(config)
    return max(1, int(found[1]) if found else MAX_ARRAY_SIZE)


@dataclass(slots=True)
class _Batch:
    runs: list[Run] = field(default_factory=list)
    ids: list[asyncio.Future[str]] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None


class Arrays:
    """Gathers shards into arrays, and knows where each is.

    Args:
        folder: where the lists of tasks lie; the nodes see it.
        size: the most tasks of one array.
        submit: hands an array to sbatch and gives its id, or raises as `Backend.submit`.
    """

    def __init__(self, folder: Path, size: int, submit: Callable[[Array], Awaitable[str]]) -> None:
        self._folder = folder
        self.size = size
        self._submit = submit
        self._batches: dict[object, _Batch] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._places: dict[str, Place] = {}  # by token, as the next two
        self._files: dict[str, Path] = {}
        self._left: dict[Path, set[str]] = {}

    def place(self, run: Run) -> Place:
        """Where a run is: in its array, or a job of its own."""
        return self._places.get(run.token) or Place(job_name(run))

    def takes(self, run: Run) -> bool:
        """Whether a run is one of several shards, and its paths can stand in a line."""
        return bool(run.root_id) and run.shard_count > 1 and "\n" not in str(run.run_dir)

    async def submit(self, run: Run) -> str:
        """The id of a run's task, `7_3`, once its array was submitted; raises as `Backend.submit`."""
        key = (run.root_id, run.task_type, run.stage, run.tier, run.qos, run.resources)
        batch = self._batches.setdefault(key, _Batch())
        waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        batch.runs.append(run)
        batch.ids.append(waiting)
        if batch.timer is not None:
            batch.timer.cancel()
        if len(batch.runs) >= min(self.size, run.shard_count):
            self._flush(key)
        else:
            batch.timer = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._flush, key)
        return await waiting

    def _flush(self, key: object) -> None:
        batch = self._batches.pop(key)
        alive = [(run, found) for run, found in zip(batch.runs, batch.ids, strict=True) if not found.done()]
        if not alive:
            return
        task = asyncio.get_running_loop().create_task(
            self._send([r for r, _ in alive], [f for _, f in alive])
        )
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, runs: Sequence[Run], ids: Sequence[asyncio.Future[str]]) -> None:
        """Persist what is meant, then submit; all shards of the array learn the same outcome."""
        token = secrets.token_hex(13)
        array = Array(token, self._folder / f"{token}{tasklist.SUFFIX}", tuple(runs))
        tasks = [tasklist.Task(run.token, run.label, str(run.run_dir)) for run in runs]
        try:
            await asyncio.to_thread(tasklist.write, array.file, tasks)
            self._put(array)
            job, _, cluster = (await self._submit(array)).partition(";")
        except Exception as exc:  # noqa: BLE001 - the submit of each shard raises it
            if isinstance(exc, BackendUnavailable):  # nothing was taken
                array.file.unlink(missing_ok=True)
            for waiting in ids:
                if not waiting.done():
                    waiting.set_exception(exc)
            return
        for index, waiting in enumerate(ids):
            if not waiting.done():
                waiting.set_result(f"{job}_{index};{cluster}" if cluster else f"{job}_{index}")

    def _put(self, array: Array) -> None:
        for index, run in enumerate(array.runs):
            self._places[run.token] = Place(array.name, index)
            self._files[run.token] = array.file
        self._left[array.file] = {run.token for run in array.runs}

    def adopt(self, runs: Sequence[Run]) -> None:
        """Find the arrays of an earlier broker; lists that no live run stands in are deleted."""
        mine = {run.token: run for run in runs}
        for file in sorted(self._folder.glob(f"*{tasklist.SUFFIX}")) if self._folder.is_dir() else ():
            try:
                tokens = [task.token for task in tasklist.read(file)]
            except (OSError, RunDirError):
                tokens = []
            live = [(index, mine[token]) for index, token in enumerate(tokens) if token in mine]
            if not live:
                _remove(file)
            for index, run in live:
                self._places[run.token] = Place(job_name(replace(run, token=file.stem)), index)
                self._files[run.token] = file
                self._left.setdefault(file, set()).add(run.token)

    def forget(self, run: Run) -> None:
        """A run is over. With the last one its list goes: a task that comes late finds nothing to do."""
        self._places.pop(run.token, None)
        file = self._files.pop(run.token, None)
        if file is not None:
            self._left[file].discard(run.token)
            if not self._left[file]:
                del self._left[file]
                _remove(file)

    async def close(self) -> None:
        """Submit nothing more; shards that still wait are left to the next broker."""
        for batch in self._batches.values():
            if batch.timer is not None:
                batch.timer.cancel()
        self._batches.clear()
        if self._sending:
            await asyncio.wait(self._sending)


def _remove(file: Path) -> None:
    """Delete a list and the log of what Slurm said of its tasks, which is empty as a rule."""
    for path in (file, file.with_suffix(".log")):
        with contextlib.suppress(OSError):
            path.unlink()
