"""Single compressed files (gzip, xz, bzip2, zstd): their text in runs of lines, within a limit."""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from agentloop.sources.content_file import ContentFile
from agentloop.sources.documents.spans import RUN_LINES, TooMuchError, anchor, item, lines_cut
from agentloop.types import Content, Derived, Memory

EXTRACTOR = "compressed"
VERSION = "1"
_PIECE = 1 << 18
_MAX_MEMORY = 128 << 20  # of an xz decoder: its dictionary
_HEADER = 32  # bytes that stand for the file in refs: magic, flags, time, name
_TAR_MAGIC = slice(257, 262)
MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\0": "xz", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}


def format_of(head: bytes) -> str:
    """The compression of a file by its first bytes, "" for none."""
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), "")


def extract_compressed(data: bytes, limit: int) -> Derived:
    """The decompressed text, in items of 16 lines; each item's span is the header of the file.

    Raises:
        TooMuchError: it grows over `limit` bytes; nothing of it is kept.
        ValueError: it is damaged, or what is inside is no text.
    """
    try:
        plain = _decompress(data, format_of(data), limit)
    except (zlib.error, lzma.LZMAError, OSError, EOFError) as exc:
        raise ValueError(f"damaged: {exc}") from None
    if b"\0" in plain[:8192] or plain[_TAR_MAGIC] == b"ustar" or not plain:
        raise ValueError("no text inside")
    span = anchor(data, 0, min(_HEADER, len(data)))
    text = plain.decode("utf-8", "replace")
    if text.endswith("\n"):
        text = text[:-1]
    return Derived(EXTRACTOR, VERSION, tuple(item(run, span) for run in lines_cut(text, RUN_LINES)))


def _decompress(data: bytes, format_: str, limit: int) -> bytes:
    out = bytearray()
    for piece in unpacked_pieces(Memory(data), format_):
        out += piece
        if len(out) > limit:
            raise TooMuchError(f"over {limit} bytes when it is decompressed")
    return bytes(out)


def unpacked_pieces(content: Content, format_: str) -> Iterator[bytes]:
    """The decompressed bytes in pieces of at most 256 kB; who takes them sets the limit.

    All members count: rotated logs are often several, one behind the other.

    Raises:
        ValueError: it ends early or is damaged; the decoders also raise errors of their own.
    """
    if format_ == "zstd":
        yield from _zstd_pieces(content)
        return
    at = 0
    while format_of(content.read(at, at + 8)) == format_:
        decoder = _DECODERS[format_]()
        while not decoder.eof:
            given = content.read(at, at + _PIECE) if decoder.needs_input else b""
            at += len(given)
            piece = decoder.decompress(given, _PIECE)
            if not (piece or given or decoder.eof):
                raise ValueError("it ends early")
            yield piece
        at -= len(decoder.unused_data)


class _Decoder(Protocol):
    """What the decoders of the standard library share."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes: ...


class _Gzip:
    """gzip with the interface of the other decoders."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(zlib.MAX_WBITS | 16)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


_DECODERS: dict[str, Callable[[], _Decoder]] = {
    "gzip": _Gzip,
    "xz": lambda: lzma.LZMADecompressor(memlimit=_MAX_MEMORY),
    "bzip2": bz2.BZ2Decompressor,
}


def _zstd_pieces(content: Content) -> Iterator[bytes]:
    import zstandard

    try:
        decoder = zstandard.ZstdDecompressor(max_window_size=_MAX_MEMORY)
        with decoder.stream_reader(
            io.BufferedReader(ContentFile(content)), read_across_frames=True
        ) as reader:
            while piece := reader.read(_PIECE):
                yield piece
    except zstandard.ZstdError as exc:
        raise ValueError(f"damaged: {exc}") from None
