"""Single compressed files (gzip, xz, bzip2, zstd): their text in runs of lines, within a limit."""

from __future__ import annotations

import bz2
import lzma
import zlib

from agentloop.sources.documents.spans import TooMuchError, anchor, item, lines_cut
from agentloop.types import Derived

EXTRACTOR = "compressed"
VERSION = "1"
ITEM_LINES = 16
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
    return Derived(EXTRACTOR, VERSION, tuple(item(run, span) for run in lines_cut(text, ITEM_LINES)))


def _decompress(data: bytes, format_: str, limit: int) -> bytes:
    if format_ == "gzip":
        return _gzip(data, limit)
    if format_ == "zstd":
        return _zstd(data, limit)
    out = bytearray()
    while data:
        decoder = lzma.LZMADecompressor(memlimit=_MAX_MEMORY) if format_ == "xz" else bz2.BZ2Decompressor()
        at = 0
        while not decoder.eof:
            piece = data[at : at + _PIECE] if decoder.needs_input else b""
            at += len(piece)
            if not piece and decoder.needs_input:
                raise ValueError("it ends early")
            out += decoder.decompress(piece, _PIECE)
            _check(out, limit)
        data = decoder.unused_data + data[at:]
        if format_of(data) != format_:
            break
    return bytes(out)


def _gzip(data: bytes, limit: int) -> bytes:
    """All members: rotated logs are often several, one behind the other."""
    out = bytearray()
    while data.startswith(b"\x1f\x8b"):
        decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
        out += decoder.decompress(data, limit + 1 - len(out))
        _check(out, limit)
        if not decoder.eof:
            raise ValueError("it ends early")
        data = decoder.unused_data
    return bytes(out)


def _zstd(data: bytes, limit: int) -> bytes:
    import zstandard

    out = bytearray()
    try:
        decoder = zstandard.ZstdDecompressor(max_window_size=_MAX_MEMORY)
        with decoder.stream_reader(data, read_across_frames=True) as reader:
            while piece := reader.read(_PIECE):
                out += piece
                _check(out, limit)
    except zstandard.ZstdError as exc:
        raise ValueError(f"damaged: {exc}") from None
    return bytes(out)


def _check(out: bytearray, limit: int) -> None:
    if len(out) > limit:
        raise TooMuchError(f"over {limit} bytes when it is decompressed")
