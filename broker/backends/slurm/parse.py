"""What Slurm's tools print, as values. Nothing here starts a process.

Fields were measured with Slurm 22.05, whose JSON output is unusable: `squeue --json` ignores filters and
`sacct --json` says exit code 0 for a job that exited 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from broker.backends.base import RunState, RunUpdate

SQUEUE_FORMAT = "JobArrayID:|,State:|,Reason:|,NodeList:|,Name:|,SubmitTime:|,RestartCnt:|"
"""Fields of `squeue -O`, each as wide as it is. `-o` has no count of restarts."""
SACCT_FIELDS = "jobid,jobidraw,state,exitcode,jobname,submit,nodelist"

_TASK = re.compile(r"(\d+)(?:_(\d+))?")
_ID = re.compile(r"(\d+)(?:;([\w.-]+))?")
_PROSE = re.compile(r"Submitted batch job (\d+)(?: on cluster ([\w.-]+))?")

STATES: dict[str, RunState] = {
    "PENDING": RunState.PENDING,
    "CONFIGURING": RunState.PENDING,
    "RESV_DEL_HOLD": RunState.PENDING,
    "SPECIAL_EXIT": RunState.PENDING,
    "RUNNING": RunState.RUNNING,
    "COMPLETING": RunState.RUNNING,
    "STAGE_OUT": RunState.RUNNING,
    "SIGNALING": RunState.RUNNING,
    "RESIZING": RunState.RUNNING,
    "SUSPENDED": RunState.RUNNING,
    "STOPPED": RunState.RUNNING,
    "REQUEUED": RunState.REQUEUED,
    "REQUEUE_FED": RunState.REQUEUED,
    "REQUEUE_HOLD": RunState.REQUEUED,
    "PREEMPTED": RunState.REQUEUED,
    "COMPLETED": RunState.EXITED,
    "FAILED": RunState.EXITED,
    "TIMEOUT": RunState.TIMED_OUT,
    "DEADLINE": RunState.TIMED_OUT,
    "OUT_OF_MEMORY": RunState.OUT_OF_MEMORY,
    "CANCELLED": RunState.CANCELLED,
    "REVOKED": RunState.CANCELLED,
    "NODE_FAIL": RunState.KILLED,
    "BOOT_FAIL": RunState.KILLED,
}
"""Slurm's states by name: exit codes say 0:0 for TIMEOUT and OUT_OF_MEMORY."""


@dataclass(frozen=True, slots=True)
class Row:
    """One job, or task of an array, as squeue or sacct tells of it."""

    job_id: str  # 7, or 7_3 for a task
    state: str
    name: str
    reason: str = ""
    node: str = ""
    submitted: str = ""  # Slurm's own clock and form
    exit_code: int | None = None
    signal: int = 0
    restart: int = 0

    @property
    def array(self) -> str:
        """The id without the task's index."""
        return self.job_id.partition("_")[0]

    @property
    def index(self) -> int | None:
        """The index of an array's task, None for an ordinary job."""
        _, _, index = self.job_id.partition("_")
        return int(index) if index else None


def submitted_id(text: str) -> str:
    """The id that sbatch printed, `7` or `7;cluster`; empty when none can be found.

    `--parsable` prints it on a line of its own; sites and wrappers may print more around it, or prose.
    """
    lines = [line.strip() for line in text.splitlines()]
    for line in reversed(lines):
        if match := _ID.fullmatch(line):
            return line if match[2] else match[1]
    for line in reversed(lines):
        if match := _PROSE.search(line):
            return f"{match[1]};{match[2]}" if match[2] else match[1]
    return ""


def queue_rows(text: str) -> Iterator[Row]:
    """Rows of `squeue -h -r -O SQUEUE_FORMAT`; a line of another form is passed over."""
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != 8 or not fields[1].isupper() or not _TASK.fullmatch(fields[0]):
            continue
        job_id, state, reason, node, name, submitted, restarts, _ = fields
        restart = int(restarts) if restarts.isdecimal() else 0
        yield Row(job_id, state, name, reason, node, submitted, restart=restart)


def account_rows(text: str) -> Iterator[Row]:
    """Rows of `sacct -X -n -P --duplicates -o SACCT_FIELDS`, oldest first; other lines are passed over."""
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != 7 or not _TASK.fullmatch(fields[0]):
            continue  # 7_[4-9%2] stands for tasks that have not begun
        job_id, _, state, code, name, submitted, node = fields
        status, _, signal = code.partition(":")
        if not status.isdecimal() or not signal.isdecimal():
            continue
        word = state.split(" ", maxsplit=1)[0]  # "CANCELLED by 0"
        yield Row(job_id, word, name, "", node, submitted, int(status), int(signal))


def seconds_of(text: str) -> float:
    """Seconds of Slurm's `[days-]hours:minutes:seconds`; 0 for what has another form."""
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() for part in parts) or (dash and not days.isdecimal()):
        return 0.0
    seconds = 0
    for part in parts:
        seconds = seconds * 60 + int(part)
    return float(seconds + 86_400 * int(days or 0))


def update_of(row: Row, backend_id: str, restart: int) -> RunUpdate:
    """What a row says of a run. A state that is not known here is no information."""
    state = STATES.get(row.state, RunState.UNKNOWN)
    if state is RunState.PENDING and restart:
        state = RunState.REQUEUED
    if state is RunState.EXITED and (row.signal or row.reason == "JobLaunchFailure"):
        state = RunState.KILLED
    exit_code = row.exit_code
    if exit_code is None and row.state in ("COMPLETED", "FAILED"):
        exit_code = 0 if row.state == "COMPLETED" else 1
    if state is RunState.CANCELLED and row.reason == "DependencyNeverSatisfied":
        state = RunState.KILLED  # by Slurm itself: the stage before it failed
    reason = "" if row.reason in ("None", "Resources", "Priority", "JobArrayTaskLimit") else row.reason
    return RunUpdate(state, backend_id, exit_code, reason or row.state.lower(), row.node, restart)
