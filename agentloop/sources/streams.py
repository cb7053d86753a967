"""Content that is read when it is asked for: a large log over an open descriptor."""

from __future__ import annotations

import os
import weakref
from hashlib import sha256

from agentloop.sources.opening import READ_SIZE, Refused, refused
from agentloop.types import SkipReason


class FileContent:
    """The bytes of an open regular file, by `pread`. The descriptor closes with the object.

    A log may grow while it is read: only its first `size` bytes, those that were hashed, exist here.
    """

    __slots__ = ("__weakref__", "_close", "_fd", "_size")

    def __init__(self, fd: int, size: int) -> None:
        self._fd = fd
        self._size = size
        self._close = weakref.finalize(self, os.close, fd)

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._size

    def read(self, start: int, end: int) -> bytes:
        """The bytes `[start, end)`; fewer where the file was cut since."""
        end = min(end, self._size)
        parts: list[bytes] = []
        while start < end:
            part = os.pread(self._fd, end - start, start)
            if not part:
                break
            parts.append(part)
            start += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Close the descriptor now."""
        self._close()


def hash_stream(fd: int, status: os.stat_result) -> str:
    """`sha256:…` of the first `st_size` bytes, read in pieces. What was appended since is not looked at.

    Raises:
        Refused: the file was cut or rewritten meanwhile, or a read failed.
    """
    digest = sha256()
    left, at = status.st_size, 0
    try:
        while left:
            part = os.pread(fd, min(READ_SIZE, left), at)
            if not part:
                raise Refused(SkipReason.CHANGED, "it became shorter while it was read")
            digest.update(part)
            at += len(part)
            left -= len(part)
        after = os.fstat(fd)
    except OSError as exc:
        raise refused(exc) from None
    if after.st_size == status.st_size and after.st_mtime_ns != status.st_mtime_ns:
        raise Refused(SkipReason.CHANGED, "it was rewritten while it was read")
    return "sha256:" + digest.hexdigest()
