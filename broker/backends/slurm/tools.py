"""Slurm's tools as processes: fixed arguments, a clean environment, bounded time, errors by meaning."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.backends.base import BackendRejected, BackendUnavailable, SubmitUnknown

CALL_SECONDS = 20.0
"""A client of a dead controller gives up after 9 s, of a hung one after 10 s: longer than both."""
KEPT = ("SLURM_CONF", "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LD_LIBRARY_PATH")
"""What of the broker's environment the tools and the jobs see; `SBATCH_*` would override arguments."""

_FINAL = re.compile(
    r"invalid (?:partition|qos|account|generic resource|feature|node name|job array)|"
    r"Requested node configuration is not available|Invalid account|Invalid qos|"
    r"More processors requested than permitted|exceed\w* .*limit|AssocMax|QOSMax|violates accounting"
    r"|Memory specification can not be satisfied|User's group not permitted|Unable to open file"
    r"|Invalid \w+ specification|Access/permission denied|unrecognized option|Invalid user",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(r"Socket timed out|Transport endpoint|Zero Bytes were transmitted", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """How a tool ended. `status` is None when it was stopped because it took too long."""

    status: int | None
    out: str
    err: str


def environment(source: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of every tool and job: what is needed to find Slurm and Python, nothing else."""
    have = os.environ if source is None else source
    clean = {name: have[name] for name in KEPT if name in have}
    return {**clean, "LANG": "C.UTF-8", "SLURM_TIME_FORMAT": "standard", "AGENTLOOP_PYTHON": sys.executable}


async def call(argv: Sequence[str], env: Mapping[str, str], seconds: float = CALL_SECONDS) -> Answer:
    """Run a tool.

    Raises:
        BackendUnavailable: it can't be started.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as exc:
        raise BackendUnavailable(f"{argv[0]} can't be started: {exc.strerror}") from exc
    try:
        out, err = await asyncio.wait_for(process.communicate(), seconds)
    except (TimeoutError, asyncio.CancelledError) as exc:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if isinstance(exc, asyncio.CancelledError):
            raise
        return Answer(None, "", f"no answer within {seconds:g} s")
    return Answer(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def refused(answer: Answer) -> Exception:
    """What a failed sbatch means: final, not taken, or not known."""
    said = " ".join(line for line in answer.err.splitlines() if line.strip())[-400:]
    if answer.status is None or _UNKNOWN.search(said):
        return SubmitUnknown(said)
    if _FINAL.search(said):
        return BackendRejected(said)
    return BackendUnavailable(said or f"sbatch ended with status {answer.status}")
