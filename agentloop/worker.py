"""`agentloop worker RUN_DIR`: run one attempt of a job, as the run-directory contract says.

The worker reads `job_spec.json` and `input_manifest.json`, never the broker's database, and publishes
into its attempt's folder. Exit status: 0 a result, 1 an error on record, 2 usage, 3 fenced out or
already claimed, 143 stopped by SIGTERM with nothing published.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any

from agentloop import __version__, egress, tasklist
from agentloop.clock import Clock, SystemClock
from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.jobspec import NOTHING, Execution, JobSpec, Kept
from agentloop.rundir import Attempt, RunDir, RunDirError, to_bytes
from agentloop.seal import seal

HEARTBEAT_SECONDS = 2.0
PREPARING = "index"
SERVICE_SUFFIX = ".service"
EXIT_RESULT, EXIT_ERROR, EXIT_USAGE, EXIT_FENCED, EXIT_TERMINATED = 0, 1, 2, 3, 143


@dataclass(slots=True)
class Pulse:
    """Heartbeats and stage events of one attempt; `stop` ends its thread."""

    attempt: Attempt
    clock: Clock
    stage: str = "starting"
    done: float = 0.0
    metrics: Callable[[], dict[str, Any]] = field(default=dict)
    _events: IO[bytes] | None = None
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def told(self) -> tuple[str, float] | None:
        """The stage and how far it is, None before `start`."""
        return None if self._events is None else (self.stage, self.done)

    def start(self, told: tuple[str, float] | None = None) -> None:
        """Open the event log, beat once, and go on beating in a thread.

        Args:
            told: what another process has told of this attempt, from where this one goes on.
        """
        self._events = (self.attempt.path / "events.jsonl").open("ab", buffering=0)
        if told is None:
            self.event("started")
        else:
            self.stage, self.done = told
        self.beat()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(HEARTBEAT_SECONDS):
            self.beat()

    def beat(self) -> None:
        """Publish where the work stands. Trouble is ignored: a missing beat says enough."""
        value = {
            "ts": self.clock.now().isoformat(),
            "attempt": self.attempt.label,
            "pid": os.getpid(),
            "stage": self.stage,
            "percent": round(self.done * 100, 1),
            "metrics": self.metrics(),
        }
        path = self.attempt.path / ".heartbeat.new"
        try:
            # No fsync: a beat that a crash loses tells nothing that the crash doesn't.
            path.write_bytes(to_bytes(value))
            os.rename(path, self.attempt.path / "heartbeat.json")
        except OSError:
            return

    def event(self, kind: str, **facts: Any) -> None:
        """Append a structured event: stage names, counts and codes, never text of an input."""
        if self._events is None:
            return
        value = {"ts": self.clock.now().isoformat(), "event": kind, "stage": self.stage, **facts}
        try:
            self._events.write(to_bytes(value) + b"\n")
        except OSError:
            return

    def progress(self, stage: Stage, done: float) -> None:
        """The pipeline enters a stage; stages that were made ahead are not told again."""
        if done < self.done:
            return
        self.stage, self.done = str(stage), done
        self.event("stage", percent=round(done * 100, 1))
        self.beat()

    def stop(self) -> None:
        """End the thread and close the event log."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=HEARTBEAT_SECONDS)
        if self._events is not None:
            self._events.close()


def _on_sigterm(signum: int, frame: FrameType | None) -> None:
    """Stop at once. What is not renamed into place yet was never visible; children share our group."""
    os._exit(EXIT_TERMINATED)


def error_json(exc: BaseException, job_id: str) -> dict[str, Any]:
    """What `error.json` holds: the specification's error; an unforeseen one carries only its class."""
    if isinstance(exc, AgentloopError):
        value = exc.to_json()
    elif isinstance(exc, MemoryError):
        value = AgentloopError(
            ErrorCode.INTERNAL,
            "The worker reached its memory limit; narrow the inputs or raise BROKER_WORKER_MEMORY_MB.",
            Stage.DISPATCH,
            {"reason": "memory_limit"},
        ).to_json()
    else:
        value = AgentloopError(
            ErrorCode.INTERNAL,
            "The worker failed in a way that it doesn't know; its stderr.log on the machine has the trace.",
            Stage.DISPATCH,
            {"exception": type(exc).__name__},
        ).to_json()
        value["error"]["retryable"] = True
    value["error"]["details"]["job_id"] = job_id
    return value


def run_attempt(run_dir: RunDir, label: str, clock: Clock | None = None, kept: Kept = NOTHING) -> int:
    """Run an attempt in this process and publish its outcome. Returns the exit status."""
    clock = clock or SystemClock()
    attempt = run_dir.attempt(label)
    spec = JobSpec.load(run_dir)
    if run_dir.fenced() != label:
        return EXIT_FENCED
    started = clock.now().isoformat()
    facts = {"pid": os.getpid(), "host": platform.node(), "started": started, "job_id": spec.job_id}
    try:
        attempt.claim(facts)
    except RunDirError:
        return EXIT_FENCED
    if not spec.connects:
        seal()
    pulse = Pulse(attempt, clock)
    pulse.start(kept.told)
    began = clock.monotonic()
    try:
        with egress.guarded():
            released, artifacts, metadata = _executed(spec, clock, pulse, kept)
        status = EXIT_RESULT
    except Exception as exc:  # noqa: BLE001 - the process boundary: whatever fails becomes error.json
        if not isinstance(exc, AgentloopError):
            traceback.print_exc()
        released, artifacts, metadata = error_json(exc, spec.job_id), {}, {}
        status = EXIT_ERROR
    metadata |= facts | {
        "attempt": label,
        "agentloop": __version__,
        "python": platform.python_version(),
        "ended": clock.now().isoformat(),
        "seconds": round(clock.monotonic() - began, 3),
    }
    if run_dir.fenced() != label:
        pulse.stop()
        return EXIT_FENCED
    attempt.publish_json("run-metadata.json", metadata)
    if status == EXIT_RESULT:
        attempt.write_artifacts(artifacts)
        attempt.publish_json("result.json", released)
    else:
        attempt.publish_json("error.json", released)
    if spec.checkpoint_dir:
        shutil.rmtree(spec.checkpoint_dir, ignore_errors=True)
    pulse.event("finished", ok=status == EXIT_RESULT)
    pulse.stop()
    return status


def prepare_attempt(run_dir: RunDir, label: str, clock: Clock | None = None) -> int:
    """Make the stages before the question and keep them for the job that follows in the chain.

    It publishes an error where that fails, and else nothing. It may run more than once for an attempt, and
    side by side: what it keeps is the same each time. Returns the exit status.
    """
    clock = clock or SystemClock()
    spec = JobSpec.load(run_dir)
    attempt = run_dir.attempt(label)
    if run_dir.fenced().partition(".")[0] != label or not spec.checkpoint_dir:
        return EXIT_FENCED
    seal()  # no model is asked yet
    pulse = Pulse(attempt, clock)
    pulse.start()
    try:
        spec.prepare(clock, pulse.progress, always=True)
        status = EXIT_RESULT
    except Exception as exc:  # noqa: BLE001 - the process boundary: whatever fails becomes error.json
        if not isinstance(exc, AgentloopError):
            traceback.print_exc()
        attempt.publish_json("error.json", error_json(exc, spec.job_id))
        status = EXIT_ERROR
    pulse.stop()
    return status


def _newer(label: str, fenced: str) -> bool:
    """Whether a rerun `N.RESTART` comes after the attempt that counts now; a late old one never does."""
    attempt, _, restart = label.partition(".")
    counts, _, known = fenced.partition(".")
    return attempt == counts and int(restart) > int(known or 0)


def _executed(spec: JobSpec, clock: Clock, pulse: Pulse, kept: Kept) -> Execution:
    """Run the job. The loop's task returns nothing: `asyncio.run` makes a repr of what it returns."""
    made: list[Execution] = []

    async def work() -> None:
        made.append(await spec.execute(clock, pulse.progress, kept))

    asyncio.run(work())
    return made[0]


def _task(file: Path, label: str, index: str) -> tuple[Path, str]:
    """The run directory and attempt of an array's task; the restart in `label` stays with the attempt.

    What the task says from here on goes to its own `slurm.log`.

    Raises:
        RunDirError: the list has no such task.
    """
    tasks = tasklist.read(file)
    if not index.isdecimal() or int(index) >= len(tasks):
        raise RunDirError(f"{file.name} has no task {index!r}")
    task = tasks[int(index)]
    _, dot, restart = label.partition(".")
    log = os.open(f"{task.run_dir}/slurm.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    return Path(task.run_dir), f"{task.label}{dot}{restart}"


def main(argv: list[str]) -> int:
    """`agentloop worker RUN_DIR [ATTEMPT [STAGE]]`; the attempt defaults to the fenced one.

    In a Slurm array RUN_DIR is the list of its tasks, and the task's index is in the environment. In a
    chain STAGE is `index` for the job that prepares. A warm service is started with its order as RUN_DIR.
    """
    if not 1 <= len(argv) <= 3 or (len(argv) == 3 and argv[2] != PREPARING):
        sys.stderr.write("usage: agentloop worker RUN_DIR [ATTEMPT [index]]\n")
        return EXIT_USAGE
    signal.signal(signal.SIGTERM, _on_sigterm)
    place, label = Path(argv[0]), argv[1] if len(argv) > 1 else ""
    try:
        if place.suffix == SERVICE_SUFFIX:
            return _serve(place)
        if place.suffix == tasklist.SUFFIX:
            if not place.exists():
                return EXIT_FENCED  # its runs are over
            place, label = _task(place, label, os.environ.get("SLURM_ARRAY_TASK_ID", ""))
        run_dir = RunDir(place)
        label = label or run_dir.fenced()
        if len(argv) == 3:
            return prepare_attempt(run_dir, label.partition(".")[0])
        if "." in label and _newer(label, run_dir.fenced()):
            run_dir.start_attempt(label)
        return run_attempt(run_dir, label)
    except (RunDirError, FileNotFoundError) as exc:
        sys.stderr.write(f"agentloop worker: {exc}\n")
        return EXIT_USAGE


def _serve(order: Path) -> int:
    """Run a warm service; SIGTERM ends it in order, with its server."""
    from agentloop.loop.services import address_towards, run

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
    try:
        return run(order, address_towards(os.environ.get("SLURM_SUBMIT_HOST", "")))
    except AgentloopError as exc:
        sys.stderr.write(f"agentloop worker: {exc.message}\n")
        return EXIT_ERROR


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
