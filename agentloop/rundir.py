"""The run directory: all that broker and worker share. It may lie on NFS.

In, written by the broker before a worker starts: `job_spec.json`, `execution_plan.json`,
`input_manifest.json`. Out, under `attempts/LABEL/`: `heartbeat.json`, `result.json` or `error.json`,
`artifacts.json` with the files in `artifacts/`, `run-metadata.json`, `events.jsonl`, `stdout.log`,
`stderr.log`. A file is published by write, fsync, rename, fsync of the folder. An attempt is claimed by
creating `claim.json` exclusively. `fence.json` names the attempt that counts; a worker that finds
another label there publishes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LABEL = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
ARTIFACT_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")
SYNCING = 8  # files that wait for the disk at once: one journal commit serves several
MAX_JSON_BYTES = 64 << 20  # of a file that is read back whole; packs are a few kB, manifests some MB


class RunDirError(Exception):
    """A run directory is not what the contract says: a link, a foreign file, a claim already made."""


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """One local artifact of an attempt, by name and full hash."""

    name: str
    sha256: str
    size: int


def publish(path: Path, data: bytes) -> None:
    """Write `data` beside `path`, fsync, rename over it, fsync the folder.

    Raises:
        OSError: the disk is full or failed; `path` still holds what it held before.
    """
    publish_all(path.parent, {path.name: data})


def publish_all(folder: Path, files: Mapping[str, bytes]) -> None:
    """Publish files of one folder, in order. They wait for the disk together, before any is renamed.

    Raises:
        OSError: the disk is full or failed; each file is there as it was, or whole.
    """
    if not files:
        return
    pending = {name: folder / f".{name}.{os.getpid()}.new" for name in files}
    try:
        if len(files) == 1:
            for name, data in files.items():
                _write(pending[name], data)
        else:
            with ThreadPoolExecutor(min(len(files), SYNCING)) as pool:
                for _ in pool.map(_write, pending.values(), files.values()):
                    pass
        for name, temporary in pending.items():
            os.rename(temporary, folder / name)
    except BaseException:
        for temporary in pending.values():
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise
    sync_folder(folder)


def _write(temporary: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bytes(path: Path, limit: int = MAX_JSON_BYTES) -> bytes:
    """The bytes of a regular file that is no link.

    Raises:
        FileNotFoundError: there is no such file.
        RunDirError: it is a link, no regular file, or larger than `limit`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise RunDirError(f"{path.name} can't be opened as a plain file") from exc
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise RunDirError(f"{path.name} is not a plain file")
        if found.st_size > limit:
            raise RunDirError(f"{path.name} has {found.st_size} bytes, more than {limit}")
        return file.read(limit + 1)


def read_json(path: Path) -> Any:
    """A published JSON file.

    Raises:
        FileNotFoundError: it was not published.
        RunDirError: it is a link, too large, or no JSON.
    """
    try:
        return json.loads(read_bytes(path))
    except ValueError as exc:
        raise RunDirError(f"{path.name} is not JSON") from exc


def to_bytes(value: Any) -> bytes:
    """JSON bytes; lone surrogates (file names that are not UTF-8) as escapes."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt's folder. The label is the attempt's number, with `.RESTART` after a requeue."""

    path: Path
    label: str

    def publish_json(self, name: str, value: Any) -> None:
        """Publish a JSON file of this attempt.

        Raises:
            OSError: see `publish`.
        """
        publish(self.path / name, to_bytes(value))

    def read_json(self, name: str) -> Any:
        """Read a published file; errors as in the module's `read_json`."""
        return read_json(self.path / name)

    def claim(self, facts: Mapping[str, Any]) -> None:
        """Take this attempt; only one process ever can.

        Raises:
            RunDirError: another process has it.
        """
        try:
            descriptor = os.open(
                self.path / "claim.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
            )
        except FileExistsError:
            raise RunDirError(f"attempt {self.label} is already claimed") from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(to_bytes(dict(facts)))
            file.flush()
            os.fsync(file.fileno())

    def write_artifacts(self, artifacts: Mapping[str, bytes]) -> list[ArtifactFile]:
        """Publish each artifact, then the list of them.

        Raises:
            OSError: see `publish`.
        """
        folder = self.path / "artifacts"
        folder.mkdir(mode=0o700, exist_ok=True)
        if not all(ARTIFACT_NAME.fullmatch(name) for name in artifacts):
            raise RunDirError("an artifact's name holds characters that are not allowed")
        publish_all(folder, artifacts)
        listed = [
            ArtifactFile(name, hashlib.sha256(data).hexdigest(), len(data))
            for name, data in artifacts.items()
        ]
        self.publish_json(
            "artifacts.json", [{"name": a.name, "sha256": a.sha256, "size": a.size} for a in listed]
        )
        return listed


@dataclass(frozen=True, slots=True)
class RunDir:
    """The run directory of one job."""

    path: Path

    def create(self, documents: Mapping[str, Any]) -> None:
        """Make the folder (private) and publish its input documents by file name.

        Raises:
            OSError: see `publish`.
        """
        (self.path / "attempts").mkdir(mode=0o700, parents=True, exist_ok=True)
        publish_all(self.path, {name: to_bytes(value) for name, value in documents.items()})

    def attempt(self, label: str) -> Attempt:
        """The folder of an attempt, which may not exist yet.

        Raises:
            RunDirError: `label` is not `N` or `N.RESTART`.
        """
        if not LABEL.fullmatch(label):
            raise RunDirError("an attempt's label is a number, or two joined with a dot")
        return Attempt(self.path / "attempts" / label, label)

    def start_attempt(self, label: str) -> Attempt:
        """Make an attempt's folder and fence all others out.

        Raises:
            OSError: see `publish`.
        """
        attempt = self.attempt(label)
        attempt.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        publish(self.path / "fence.json", to_bytes({"attempt": label}))
        return attempt

    def fenced(self) -> str:
        """The label of the attempt that counts, empty when none was started."""
        try:
            return str(read_json(self.path / "fence.json")["attempt"])
        except (FileNotFoundError, RunDirError, KeyError, TypeError):
            return ""
