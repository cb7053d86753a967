"""What `agentloop doctor` says of the broker: its settings, folders, database, address."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from broker.config import Settings
from broker.jobs.database import StoreError, check


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: whether it is well, what was found, and what to do where it isn't."""

    name: str
    ok: bool
    found: str
    mend: str = ""


def findings(settings: Settings) -> Iterator[Finding]:
    """All checks of the broker, one by one; nothing is changed."""
    yield from _roots(settings)
    yield _private(settings.home_path)
    yield _database(settings.home_path)
    yield _address(settings)
    yield _room(settings.home_path)
    for name, file in (("model profiles", settings.model_profiles_file),):
        if file:
            there = Path(file).is_file()
            yield Finding(name, there, file, "BROKER_MODEL_PROFILES_FILE names no file")


def _roots(settings: Settings) -> Iterator[Finding]:
    named = [("BROKER_ALLOWED_ROOTS", settings.allowed_roots)]
    named += [(f"[namespaces.{name}] roots", rules.roots) for name, rules in settings.namespaces]
    for where, roots in named:
        missing = [root for root in roots if not os.path.isdir(root)]
        if missing:
            yield Finding(where, False, f"no folder at {', '.join(missing)}", "correct or make these folders")
        elif roots:
            yield Finding(where, True, f"{len(roots)} folders")
        elif where == "BROKER_ALLOWED_ROOTS" and not any(rules.roots for _, rules in settings.namespaces):
            yield Finding(where, False, "none: every input is refused", "name the folders that jobs may read")


def _private(home: Path) -> Finding:
    if not home.exists():
        return Finding("privacy of BROKER_HOME", True, "made with mode 0700 at the first start")
    mode = stat.S_IMODE(home.stat().st_mode)
    return Finding(
        "privacy of BROKER_HOME",
        not mode & 0o077,
        f"mode {mode:04o}",
        f"others can look into it: chmod 700 {home}",
    )


def _database(home: Path) -> Finding:
    path = home / "broker.db"
    try:
        version = check(path)
    except StoreError as exc:
        return Finding("database", False, str(exc), "restore a backup, or start the release that made it")
    return Finding("database", True, f"schema {version}" if version else "made at the first start")


def _address(settings: Settings) -> Finding:
    """Free, or held by the broker that announced itself there."""
    host, port = settings.host_port
    running = settings.home_path / "broker.json"
    if running.exists():
        return Finding("address", True, f"a broker runs: {running.read_text('utf-8')}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as exc:
            return Finding("address", False, f"{settings.listen}: {exc.strerror}", "change BROKER_LISTEN")
    return Finding("address", True, f"{settings.listen} is free")


LEAST_ROOM = 1 << 30


def _room(home: Path) -> Finding:
    place = home
    while not place.exists():
        place = place.parent
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize
    return Finding(
        "room", free > LEAST_ROOM, f"{free >> 20} MiB free", "jobs are refused when the disk is full"
    )
