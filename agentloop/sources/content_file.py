"""File objects over content and over pieces of bytes, as the libraries for archives want them."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator

from agentloop.sources.documents.spans import TooMuchError
from agentloop.types import Content


class ContentFile(io.RawIOBase):
    """A `Content` as a seekable binary file."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move, as files do.

        Raises:
            OSError: a place before the beginning; `zipfile` counts on that one.
        """
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._content.size}[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill `buffer`."""
        data = self._content.read(self._at, self._at + len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class PieceFile(io.RawIOBase):
    """Pieces of bytes as a file that only goes forward, and no further than `limit` bytes."""

    def __init__(self, pieces: Iterator[bytes], limit: int) -> None:
        self._pieces = pieces
        self._limit = limit
        self._passed = 0
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill `buffer`.

        Raises:
            TooMuchError: more than `limit` bytes came.
        """
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._passed += len(piece)
            if self._passed > self._limit:
                raise TooMuchError(f"over {self._limit} bytes when it is unpacked")
            self._rest = memoryview(piece)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
