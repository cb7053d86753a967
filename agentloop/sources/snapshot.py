"""What the file system says of inputs without reading them: enough to see that nothing changed.

A snapshot maps each path to its identity. Two equal identities mean the same bytes, as in git's index,
unless the file changed within the clock's grain of the snapshot: such entries are racy, and their
files are read again whatever their identity says.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

RACY_NS = 2_000_000_000  # coarser than any file system's time stamps that are in use (FAT: 2 s)
_GIT_STATE = ("HEAD", "index", "logs/HEAD", "packed-refs", "refs/heads", "config", "info/exclude")

Identity = tuple[int, int, int, int, int]
"""Device, inode, size, mtime and ctime in nanoseconds. A changed mode or content changes the ctime."""


def identity(status: os.stat_result) -> Identity:
    """The identity that a status shows. A folder's size means nothing."""
    size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
    return (status.st_dev, status.st_ino, size, status.st_mtime_ns, status.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Identities by absolute path, taken from `taken_ns` (wall clock) on."""

    entries: dict[str, Identity]
    taken_ns: int

    def steady(self, path: str, status_identity: Identity) -> bool:
        """Whether a path had this identity already, long enough before the snapshot to trust it."""
        found = self.entries.get(path)
        return found == status_identity and max(found[3], found[4]) < self.taken_ns - RACY_NS

    def racy(self) -> list[str]:
        """Paths that changed so shortly before the snapshot that they may have changed again unseen."""
        limit = self.taken_ns - RACY_NS
        return [path for path, found in self.entries.items() if found[3] >= limit or found[4] >= limit]

    def without(self, folders: Iterable[str]) -> Snapshot:
        """The snapshot without what lies below `folders`; the folders themselves stay."""
        left_out = tuple(f"{folder}/" for folder in folders)
        if not left_out:
            return self
        kept = {path: found for path, found in self.entries.items() if not path.startswith(left_out)}
        return Snapshot(kept, self.taken_ns)


def content_hash(path: str) -> str:
    """The hash of a file that is no link; empty where it can't be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def take(roots: Sequence[str], skip: frozenset[str], limit: int) -> Snapshot | None:
    """A snapshot of files and folders, no link followed; None above `limit` entries, or if one is unreadable.

    Also None for a work tree whose git data lies elsewhere (`.git` is a file): its commits would go unseen.

    Args:
        roots: absolute paths.
        skip: absolute paths of folders that are not entered (ignored ones).
    """
    taken = time.time_ns()
    entries: dict[str, Identity] = {}
    try:
        for root in roots:
            status = os.lstat(root)
            entries[root] = identity(status)
            if stat.S_ISDIR(status.st_mode) and (
                os.path.isfile(f"{root}/.git") or not _walk(root, skip, entries, limit)
            ):
                return None
    except OSError:
        return None
    return Snapshot(entries, taken)


def _walk(root: str, skip: frozenset[str], entries: dict[str, Identity], limit: int) -> bool:
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        with os.scandir(folder) as found:
            for entry in found:
                path = entry.path
                entries[path] = identity(entry.stat(follow_symlinks=False))
                if not entry.is_dir(follow_symlinks=False) or path in skip:
                    continue
                if entry.name == ".git":
                    _git_state(path, entries)
                else:
                    waiting.append(path)
        if len(entries) > limit:
            return False
    return True


def _git_state(folder: str, entries: dict[str, Identity]) -> None:
    """What changes with a commit, a checkout, or the rules of what is ignored; not every object."""
    del entries[folder]  # git touches its folder while it only looks (index.lock)
    for name in _GIT_STATE:
        path = f"{folder}/{name}"
        try:
            entries[path] = identity(os.lstat(path))
        except OSError:
            continue
    _branch(folder, entries)


def _branch(folder: str, entries: dict[str, Identity]) -> None:
    """The file of the branch that is checked out: a commit on it, as identical as its files may be."""
    try:
        with open(f"{folder}/HEAD", "rb") as file:
            head = file.read(4096)
        if head.startswith(b"ref: refs/") and b".." not in head:
            path = f"{folder}/{os.fsdecode(head[len('ref: ') :].strip())}"
            entries[path] = identity(os.lstat(path))
    except (OSError, ValueError):
        return
