"""A worker whose disk fails while it publishes: FAULTS.md A7, through the whole of an attempt."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from agentloop.config import Policy
from agentloop.jobspec import JobSpec
from agentloop.request import CompressRequest, InputRef, InputType
from agentloop.rundir import RunDir
from broker.backends.base import BackendUnavailable
from broker.backends.local import LocalBackend, LocalLimits
from broker.jobs.artifacts import Owner, collect

FAILING = """
import errno, os, sys
from agentloop.worker import main
real, left = os.fsync, int(sys.argv[2])
def fsync(descriptor):
    global left
    left -= 1
    if left < 0:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    real(descriptor)
os.fsync = fsync
status = main([sys.argv[1], sys.argv[3]])
print("ended", status, left)
"""


def run_dir_of(tmp_path: Path) -> RunDir:
    """A run directory as the broker writes it, over one file."""
    data = tmp_path / "fees.md"
    data.write_text("The fee is rounded half up.\n")
    ref = InputRef(type=InputType.FILE, uri=str(data))
    spec = JobSpec("job_1", "local", CompressRequest(query="fee?", input_refs=(ref,)), Policy())
    run_dir = RunDir(tmp_path / "run")
    manifest = {"input_refs": [{"type": "file", "uri": ref.uri}], "roots": [str(tmp_path)]}
    run_dir.create({"job_spec.json": spec.to_json(), "input_manifest.json": manifest})
    return run_dir


def attempt(run_dir: RunDir, label: str, syncs: int) -> subprocess.CompletedProcess[str]:
    """Run an attempt whose fsync fails after `syncs` calls."""
    run_dir.start_attempt(label)
    command = [sys.executable, "-c", FAILING, str(run_dir.path), str(syncs), label]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.req("A7")
@pytest.mark.parametrize("syncs", [0, 1, 3])
def test_an_attempt_whose_fsync_fails_publishes_no_pack_and_the_next_one_does(
    tmp_path: Path, syncs: int
) -> None:
    run_dir, owner = run_dir_of(tmp_path), Owner("job_1", "local", tmp_path, 1.0)
    failed = attempt(run_dir, "1", syncs)
    assert failed.returncode != 0
    assert "Input/output error" in failed.stderr
    assert not (run_dir.attempt("1").path / "result.json").exists()
    published = collect(run_dir.attempt("1"), owner)
    assert published is None or published.pack is None
    again = attempt(run_dir, "2", 1_000)
    assert again.stdout.startswith("ended 0"), again.stderr
    found = collect(run_dir.attempt("2"), owner)
    assert found is not None
    assert found.pack is not None


async def test_a_worker_process_that_can_t_start_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken installation: not a minute of silence, and nothing is started again and again."""
    monkeypatch.setattr("broker.backends.local.sys.executable", "/bin/false")
    monkeypatch.setattr("broker.backends.local.RESPAWN_SECONDS", 0.0)
    backend = LocalBackend(1, LocalLimits(0, 0), 0)
    async with asyncio.timeout(30):
        with pytest.raises(BackendUnavailable, match="ended as it started"):
            await backend.start()
        await backend.close()
