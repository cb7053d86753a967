"""Standard input as one file with the path `-`: held, or spooled to an unlinked file if it is a large log."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from typing import BinaryIO

from agentloop.request import InputType
from agentloop.sources.classify import SNIFF_BYTES, guess, looks_like_log
from agentloop.sources.opening import READ_SIZE, Refused
from agentloop.sources.reader import Reader
from agentloop.sources.streams import FileContent
from agentloop.types import SkipReason, SourceFile


def read_stdin(reader: Reader, stdin: BinaryIO) -> SourceFile:
    """All of standard input.

    Raises:
        Refused: it is empty, binary or over its cap.
    """
    caps = reader.caps
    pieces = _pieces(stdin)
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > caps.stream_log_bytes:
            break
    if not data:
        raise Refused(SkipReason.EMPTY)
    log = reader.type is InputType.LOG or looks_like_log(bytes(data[:SNIFF_BYTES]))
    limit = caps.max_log_bytes if log else caps.max_file_bytes
    if len(data) > limit:
        raise Refused(SkipReason.TOO_LARGE, f"over {limit} bytes")
    if len(data) <= caps.stream_log_bytes:
        return reader.held("", "-", guess("", "-"), bytes(data), 0)
    return _spool(reader, bytes(data), pieces, limit)


def _pieces(stdin: BinaryIO) -> Iterator[bytes]:
    while piece := stdin.read(READ_SIZE):
        yield piece


def _spool(reader: Reader, start: bytes, pieces: Iterator[bytes], limit: int) -> SourceFile:
    digest = sha256(start)
    with tempfile.TemporaryFile() as spool:
        spool.write(start)
        size = len(start)
        for piece in pieces:
            size += len(piece)
            if size > limit:
                raise Refused(SkipReason.TOO_LARGE, f"over {limit} bytes")
            digest.update(piece)
            spool.write(piece)
        spool.flush()
        content = FileContent(os.dup(spool.fileno()), size)
    return reader.streamed_log("-", content, "sha256:" + digest.hexdigest())
