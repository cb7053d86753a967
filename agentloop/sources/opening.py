"""Opening files without being led astray: every component by `openat` with `O_NOFOLLOW`.

A descriptor is checked after it is open, so what was checked is what is read. `O_NONBLOCK` keeps a FIFO
from blocking the open; it has no effect on regular files.
"""

from __future__ import annotations

import errno
import os
import stat

from agentloop.types import SkipReason

FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
DIR_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
READ_SIZE = 1 << 20


class Refused(Exception):
    """Something that is not read, with the reason that coverage shows."""

    def __init__(self, reason: SkipReason, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def refused(exc: OSError) -> Refused:
    """The skip reason of a failed open, list or read."""
    if exc.errno in (errno.ELOOP, errno.EMLINK):
        return Refused(SkipReason.SYMLINK)
    if exc.errno in (errno.ENOENT, errno.ESTALE):
        return Refused(SkipReason.VANISHED)
    if exc.errno in (errno.ENXIO, errno.ENODEV):
        return Refused(SkipReason.SPECIAL_FILE)
    return Refused(SkipReason.UNREADABLE, (os.strerror(exc.errno) if exc.errno else "read error").lower())


def open_file(name: str, dir_fd: int) -> tuple[int, os.stat_result]:
    """A descriptor of the regular file `name` in the folder `dir_fd`, and its status.

    Raises:
        Refused: it is a symbolic link, not a regular file, unreadable or gone.
    """
    try:
        fd = os.open(name, FILE_FLAGS, dir_fd=dir_fd)
    except OSError as exc:
        raise refused(exc) from None
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise Refused(SkipReason.SPECIAL_FILE)
    return fd, status


def open_dir(name: str, dir_fd: int | None = None) -> int:
    """A descriptor of the folder `name`.

    Raises:
        Refused: as `open_file`; a symbolic link to a folder is a symbolic link.
    """
    try:
        return os.open(name, DIR_FLAGS, dir_fd=dir_fd)
    except NotADirectoryError:
        link = _is_link(name, dir_fd)
        raise Refused(SkipReason.SYMLINK if link else SkipReason.SPECIAL_FILE) from None
    except OSError as exc:
        raise refused(exc) from None


def _is_link(name: str, dir_fd: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode)
    except OSError:
        return False


def open_parent(path: str, trusted: str = "/") -> int:
    """A descriptor of the folder that holds the absolute `path`, opened component by component.

    `trusted` is a leading part of `path` that the operator named (an allowed root): links in it are
    followed. Elsewhere only a link that root made for everybody is (`/home` on many clusters): one owned
    by root while we are not root, or one that lies directly in `/`.

    Raises:
        Refused: a component is a symbolic link, no folder, unreadable or gone.
    """
    parent = os.path.dirname(path)
    start = trusted if parent == trusted or parent.startswith(trusted.rstrip("/") + "/") else "/"
    try:
        fd = os.open(start, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as exc:
        raise refused(exc) from None
    below_slash = start == "/"
    for part in [p for p in parent[len(start) :].split("/") if p]:
        try:
            below = _open_component(part, fd, below_slash)
        except Refused as exc:
            raise Refused(exc.reason, exc.detail or f"`{part}` in its path") from None
        finally:
            os.close(fd)
        fd, below_slash = below, False
    return fd


def _open_component(name: str, fd: int, below_slash: bool) -> int:
    try:
        return open_dir(name, fd)
    except Refused as exc:
        if exc.reason is not SkipReason.SYMLINK:
            raise
        link = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if link.st_uid != 0 or not (below_slash or os.geteuid() != 0):
            raise
        try:
            return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
        except OSError as failed:
            raise refused(failed) from None


def read_stable(fd: int, status: os.stat_result, limit: int) -> tuple[bytes, os.stat_result]:
    """The bytes of `fd`, read while nobody changed it: once, and once more when somebody did.

    Raises:
        Refused: `changed_while_read`, `too_large` (it grew over `limit` bytes), or a failed read.
    """
    for _ in range(2):
        data = _read_bounded(fd, status.st_size, limit)
        after = os.fstat(fd)
        same = (after.st_size, after.st_mtime_ns) == (status.st_size, status.st_mtime_ns)
        if same and len(data) == status.st_size:
            return data, after
        if same:
            raise Refused(SkipReason.SPECIAL_FILE, "its size is not that of its content")
        status = after
        os.lseek(fd, 0, os.SEEK_SET)
    raise Refused(SkipReason.CHANGED)


def _read_bounded(fd: int, size: int, limit: int) -> bytes:
    """The bytes up to the end; a file that grows while it is read stops at `limit`."""
    try:
        data = os.read(fd, min(size, limit) + 1)
        if len(data) == size:
            return data
        parts, total = [data], len(data)
        while part := os.read(fd, READ_SIZE):
            total += len(part)
            if total > limit:
                raise Refused(SkipReason.TOO_LARGE, f"over {limit} bytes while it was read")
            parts.append(part)
        return b"".join(parts)
    except OSError as exc:
        raise refused(exc) from None
