"""Running the caller's own commands on a throw-away copy, where the operator allows it.

The copy never is the user's tree: it is made of the bytes that discovery read. What a command prints stays
on this machine; a pack carries its exit status, its seconds and the hash of the output.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from agentloop.clock import Clock
from agentloop.config import Sandbox

OUTPUT_BYTES = 1 << 20  # kept of what a command prints; the hash is of what is kept
_GRACE = 10.0  # seconds beside a command's own: making the copy, putting up the walls
_PATH = "/usr/local/bin:/usr/bin:/bin"
_CHILD = Path(__file__).with_name("child.py")


class SandboxError(Exception):
    """The machine can't shut a command off; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a command. `exit_status` is negative for a signal, None where it was stopped.

    `stopped` is `time`, `memory` or `processes` where it passed a bound. `output` holds both streams.
    """

    command: str
    exit_status: int | None
    stopped: str
    seconds: float
    output: bytes
    truncated: bool

    @property
    def output_hash(self) -> str:
        """`sha256:` of the output as it is kept."""
        return "sha256:" + sha256(self.output).hexdigest()


def run_commands(
    files: Mapping[str, bytes], commands: Sequence[str], bounds: Sandbox, clock: Clock, deadline: float
) -> list[Ran]:
    """Run each command by `/bin/sh` on a copy of `files` of its own, one after another.

    Args:
        files: contents by relative path.
        bounds: the operator's limits, for each command.
        deadline: monotonic; no command starts after it, and none runs longer.

    Raises:
        SandboxError: namespaces, mounts or the system are not there.
    """
    if sys.platform != "linux":
        raise SandboxError("it needs Linux namespaces")
    ran = []
    with tempfile.TemporaryDirectory(prefix="agentloop-") as folder:
        tree = Path(folder) / "tree"
        _write(tree, files)
        for command in commands:
            left = min(float(bounds.seconds), deadline - clock.monotonic())
            if left <= 0:
                break
            ran.append(_run(tree, command, bounds, left, clock))
    return ran


def _write(tree: Path, files: Mapping[str, bytes]) -> None:
    tree.mkdir()
    for path, data in sorted(files.items()):
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(0o755 if data.startswith(b"#!") else 0o644)


def _run(tree: Path, command: str, bounds: Sandbox, seconds: float, clock: Clock) -> Ran:
    status_read, status_write = os.pipe()
    spec = {
        "tree": str(tree),
        "argv": ["/bin/sh", "-c", command],
        "path": bounds.path or _PATH,
        "seconds": seconds,
        "memory_mb": bounds.memory_mb,
        "processes": bounds.processes,
        "status_fd": status_write,
    }
    with os.fdopen(status_read, "rb") as status:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_CHILD), json.dumps(spec)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(status_write,),
                env={"PATH": _PATH, "LANG": "C.UTF-8"},
                start_new_session=True,
            )
        finally:
            os.close(status_write)
        with process:
            output, truncated, late = _collect(process, clock.monotonic() + seconds + _GRACE, clock)
            process.kill()
        told: dict[str, Any] = json.loads(status.read() or b"{}")
    if "refused" in told:
        raise SandboxError(told["refused"])
    if not told and not late:
        raise SandboxError("its first process ended early")
    return Ran(
        command,
        told.get("exit_status"),
        told.get("stopped", "time"),
        told.get("seconds", seconds),
        output,
        truncated,
    )


def _collect(process: subprocess.Popen[bytes], deadline: float, clock: Clock) -> tuple[bytes, bool, bool]:
    """What the process prints until it ends: kept up to a bound, read on and dropped behind it."""
    kept = bytearray()
    truncated = False
    stream = process.stdout
    assert stream is not None  # noqa: S101 - it was asked for
    with selectors.DefaultSelector() as waiting:
        waiting.register(stream, selectors.EVENT_READ)
        while (left := deadline - clock.monotonic()) > 0:
            if not waiting.select(left):
                continue
            data = os.read(stream.fileno(), 1 << 16)
            if not data:
                return bytes(kept), truncated, False
            room = OUTPUT_BYTES - len(kept)
            kept += data[:room]
            truncated = truncated or len(data) > room
    return bytes(kept), truncated, True
