"""The list of an array's tasks: which run directory and attempt each index stands for.

One line a task, in order of the index: a token, the attempt's label, the run directory. It is written
before the array is submitted, read by its tasks and by a broker that looks for runs of an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentloop.rundir import LABEL, RunDirError, publish, read_bytes

SUFFIX = ".tasks"


@dataclass(frozen=True, slots=True)
class Task:
    """One task of an array. No part holds a line break, the first two no space."""

    token: str
    label: str
    run_dir: str


def write(file: Path, tasks: Iterable[Task]) -> None:
    """Publish a list; it is durable afterwards.

    Raises:
        OSError: see `rundir.publish`.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = [f"{task.token} {task.label} {task.run_dir}\n" for task in tasks]
    publish(file, "".join(lines).encode("utf-8", "surrogateescape"))


def read(file: Path) -> list[Task]:
    """The tasks of a list.

    Raises:
        FileNotFoundError: the list is gone: its runs are over.
        RunDirError: it is no list of tasks.
    """
    tasks = []
    for line in read_bytes(file).decode("utf-8", "surrogateescape").split("\n")[:-1]:
        fields = line.split(" ", 2)
        if len(fields) != 3 or not LABEL.fullmatch(fields[1]):
            raise RunDirError(f"{file.name} is not a list of tasks")
        tasks.append(Task(*fields))
    return tasks
