"""`agentloop doctor --slurm`: whether this cluster can run the broker's jobs, and what to mend."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.backends.base import BackendUnavailable
from broker.backends.slurm import tools
from broker.config import Settings

PROBE_SECONDS = 90.0
MAX_SKEW_SECONDS = 5.0
NEEDED = ("sbatch", "squeue", "scontrol", "scancel", "sinfo", "srun")


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: whether it is well, what was found, what to do where it isn't."""

    name: str
    ok: bool
    found: str
    mend: str = ""


async def examine(settings: Settings, environ: Mapping[str, str] | None = None) -> AsyncIterator[Finding]:
    """Every check, the cheap ones first; later ones need the earlier."""
    env = tools.environment(environ)
    absent = [name for name in NEEDED if not shutil.which(name, path=env.get("PATH"))]
    yield Finding(
        "slurm tools",
        not absent,
        f"missing: {', '.join(absent)}" if absent else "found on PATH",
        "install Slurm's client tools on the broker's machine, or put them on its PATH",
    )
    if absent:
        return
    ping = await tools.call(["scontrol", "ping"], env)
    up = "is UP" in ping.out
    yield Finding(
        "slurm controller",
        up,
        (ping.out or ping.err).strip().splitlines()[0] if (ping.out or ping.err).strip() else "no answer",
        "start slurmctld, or set SLURM_CONF for the broker",
    )
    if not up:
        return
    wanted = {
        "BROKER_SLURM_PARTITION_CPU": (settings.slurm_partition_cpu, ""),
        "BROKER_SLURM_PARTITION_P40": (settings.slurm_partition_p40, "gpu:p40"),
        "BROKER_SLURM_PARTITION_A100": (settings.slurm_partition_a100, "gpu:a100"),
    }
    partitions = await _partitions(env)
    for setting, (partition, gres) in wanted.items():
        yield _partition(setting, partition, gres, partitions)
    async for finding in _qos(settings, env):
        yield finding
    first = next((name for name, _ in wanted.values() if name in partitions), "")
    if first:
        async for finding in _node(settings, env, first):
            yield finding


async def _partitions(env: Mapping[str, str]) -> dict[str, tuple[bool, str]]:
    """Whether each partition has an up node, and the GPUs of its nodes."""
    answer = await tools.call(["sinfo", "-h", "-o", "%R|%a|%t|%G"], env)
    found: dict[str, tuple[bool, str]] = {}
    for line in answer.out.splitlines():
        fields = line.split("|")
        if len(fields) == 4:
            name, available, state, gres = fields
            up, known = found.get(name, (False, ""))
            alive = available == "up" and not state.startswith(("down", "drain", "fail", "unk"))
            found[name] = (up or alive, f"{known},{gres}".strip(","))
    return found


def _partition(setting: str, name: str, gres: str, partitions: dict[str, tuple[bool, str]]) -> Finding:
    label = f"partition of {setting}"
    if not name:
        return Finding(label, True, "not set: this tier is not used")
    if name not in partitions:
        known = ", ".join(sorted(partitions)) or "none"
        return Finding(label, False, f"{name!r} does not exist", f"set {setting} to one of: {known}")
    up, have = partitions[name]
    if not up:
        return Finding(label, False, f"{name!r} has no node that is up", "look at `sinfo -R` for the reasons")
    if gres and gres not in have:
        return Finding(label, False, f"{name!r} has no {gres} ({have})", "name the GPUs' Type in gres.conf")
    return Finding(label, True, f"{name!r} is up{f' with {gres}' if gres else ''}")


async def _qos(settings: Settings, env: Mapping[str, str]) -> AsyncIterator[Finding]:
    mapped = {
        "BROKER_SLURM_QOS_PREEMPTIBLE": settings.slurm_qos_preemptible,
        "BROKER_SLURM_QOS_NORMAL": settings.slurm_qos_normal,
        "BROKER_SLURM_QOS_HIGH": settings.slurm_qos_high,
    }
    named = {setting: name for setting, name in mapped.items() if name}
    if not named:
        yield Finding("slurm QoS", True, "none is passed: no BROKER_SLURM_QOS_* is set")
        return
    answer = await tools.call(["sacctmgr", "-n", "-P", "show", "qos", "format=name"], env)
    if answer.status != 0:
        yield Finding(
            "slurm QoS",
            False,
            "the cluster has no accounting, so a QoS would be ignored in silence",
            "leave BROKER_SLURM_QOS_* empty, or set up slurmdbd",
        )
        return
    known = set(answer.out.split())
    for setting, name in named.items():
        yield Finding(
            f"slurm QoS of {setting}",
            name in known,
            f"{name!r} {'exists' if name in known else 'does not exist'}",
            f"set {setting} to one of {', '.join(sorted(known))}, or leave it empty",
        )


async def _node(settings: Settings, env: Mapping[str, str], partition: str) -> AsyncIterator[Finding]:
    """The run directory and Python as a node sees them, and its clock."""
    runs = settings.home_path / "runs"
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker = runs / f".doctor-{secrets.token_hex(4)}"
    marker.write_bytes(b"")
    try:
        async for finding in _probe(env, partition, marker):
            yield finding
    finally:
        marker.unlink(missing_ok=True)


async def _probe(env: Mapping[str, str], partition: str, marker: Path) -> AsyncIterator[Finding]:
    script = 'test -e "$1" && echo seen; "$AGENTLOOP_PYTHON" -c "import agentloop.worker" && echo python; '
    script += "date +%s.%N"
    argv = ["srun", f"--partition={partition}", "--ntasks=1", "--mem=200M", "--time=1", "--export=ALL"]
    try:
        answer = await tools.call([*argv, "sh", "-c", script, "sh", str(marker)], env, PROBE_SECONDS)
    except BackendUnavailable as exc:
        yield Finding("job on a node", False, str(exc), "install srun")
        return
    lines = answer.out.split()
    if answer.status is None or not lines:
        said = " ".join(answer.err.split())[-200:]
        yield Finding("job on a node", False, said or "no output", "look at `squeue` and `sinfo -R`")
        return
    yield Finding(
        "run directory on a node",
        "seen" in lines,
        "seen" if "seen" in lines else f"{marker.parent} is not there",
        "put BROKER_HOME on a file system that the nodes share",
    )
    yield Finding(
        "agentloop on a node",
        "python" in lines,
        "can be imported" if "python" in lines else " ".join(answer.err.split())[-200:],
        "install agentloop where the nodes see it under the same path",
    )
    try:
        skew = abs(time.time() - float(lines[-1]))
    except ValueError:
        skew = float("inf")
    # the stamp was taken while srun ran, so its own duration bounds what can be told
    yield Finding(
        "clock of a node",
        skew <= MAX_SKEW_SECONDS,
        f"within {skew:.1f} s of ours",
        "run NTP on the nodes: submit times are compared",
    )


async def report(settings: Settings, environ: Mapping[str, str] | None = None) -> list[Finding]:
    """All findings as a list."""
    return [finding async for finding in examine(settings, environ)]


def run(settings: Settings) -> list[Finding]:
    """`report` for callers without an event loop."""
    return asyncio.run(report(settings))
