"""The members of a zip or tar archive, one after another, without writing anything anywhere.

A name in an archive is a label only: nothing is ever opened by it. Links, devices, encrypted members and
names that would leave the archive are reported with a reason and have no bytes. What is unpacked is
counted as it comes, so that an archive can't grow over its limit whatever its headers declare.
"""

from __future__ import annotations

import io
import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import IO

from agentloop.sources.content_file import ContentFile, PieceFile
from agentloop.sources.documents.compressed import format_of, unpacked_pieces
from agentloop.sources.documents.spans import LIBRARY_ERRORS, TooMuchError
from agentloop.sources.opening import Refused
from agentloop.types import Content, Memory, SkipReason

_TAR_NAME = re.compile(r"\.(?:tar(?:\.(?:gz|bz2|xz|zst|zstd))?|tgz|tbz2?|txz|tzst)$", re.IGNORECASE)
_ZIP_LIKE = re.compile(r"\.(?:zip|whl|jar|war|ear|egg|nupkg)$|^[^.]+$", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:")
_TAR_MAGIC = slice(257, 262)
_TAR_BLOCK = 512
_LOCAL_HEADER = 30  # bytes of a zip member's local header before its name
_COMPRESSED_HEADER = 32  # bytes that stand for a compressed tar, as for other compressed files
MAX_MEMBERS = 100_000
MAX_NAME = 1024
_ERRORS = (*LIBRARY_ERRORS, zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error)


@dataclass(frozen=True, slots=True)
class Entry:
    """One regular member. `reason` tells why it has no bytes, None where it has.

    `start:end` is the header of the member in the archive's bytes, for a compressed tar that of the
    archive. `size` is what its header declares, `packed` what it takes in a zip (0 in a tar). `stream` is
    readable until the next entry is asked for.
    """

    name: str  # normalised: no leading `./`, no empty parts
    size: int
    start: int
    end: int
    reason: SkipReason | None = None
    detail: str = ""
    stream: IO[bytes] | None = None
    packed: int = 0

    def read(self, limit: int) -> bytes:
        """The member's bytes.

        Raises:
            Refused: over `limit` bytes, encrypted, damaged, or no regular member.
            TooMuchError: the whole archive is over its limit.
        """
        if self.reason is not None or self.stream is None:
            raise Refused(self.reason or SkipReason.UNREADABLE, self.detail)
        if self.size > limit:
            raise Refused(SkipReason.BOMB, f"{self.size} bytes, over {limit}")
        try:
            data = self.stream.read(limit + 1)
        except (TooMuchError, MemoryError):
            raise
        except _ERRORS:
            raise Refused(SkipReason.MALFORMED, "it is damaged in the archive") from None
        if len(data) > limit:
            raise Refused(SkipReason.BOMB, f"over {limit} bytes")
        return data


def archive_kind(name: str, head: bytes, *, named: bool) -> str:
    """`zip` or `tar` where a file is an archive to look into, "" otherwise.

    Args:
        name: the base name.
        head: its first bytes, at least 262 for a tar.
        named: the caller named this very file; then packages (`.whl`, `.jar`) are looked into as well.
    """
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip" if name.lower().endswith(".zip") or (named and _ZIP_LIKE.search(name)) else ""
    if _TAR_NAME.search(name) and format_of(head):
        return "tar"
    return "tar" if head[_TAR_MAGIC] == b"ustar" and (named or _TAR_NAME.search(name)) else ""


def may_be_archive(name: str) -> bool:
    """Whether a name is that of an archive that is looked into wherever it lies."""
    return name.lower().endswith(".zip") or _TAR_NAME.search(name) is not None


def entries(content: Content, kind: str, limit: int) -> Iterator[Entry]:
    """The members in the order of the archive, folders left out, the first of each name.

    Args:
        content: the archive.
        kind: as `archive_kind` gives it.
        limit: bytes that may be unpacked in all.

    Raises:
        ValueError: it is damaged.
        TooMuchError: over `limit` bytes, or over 100,000 members.
    """
    members = _zip(content, limit) if kind == "zip" else _tar(content, limit)
    seen: set[str] = set()
    try:
        for number, entry in enumerate(members):
            if number >= MAX_MEMBERS:
                raise TooMuchError(f"over {MAX_MEMBERS} members")
            checked = _named(entry, seen)
            seen.add(checked.name)
            yield checked
    except TooMuchError:
        raise
    except _ERRORS:
        raise ValueError("it is damaged or cut off") from None


def member_bytes(data: bytes, member: str, limit: int) -> bytes:
    """The bytes of one member, for verification; at most `limit` bytes are unpacked to come to its end.

    Raises:
        KeyError: there is none of this name.
        ValueError: the archive is damaged or the member is over `limit` bytes.
    """
    kind = "zip" if data.startswith(b"PK") else "tar"
    for entry in entries(Memory(data), kind, limit):
        if entry.name == member and entry.reason is None:
            try:
                return entry.read(limit)
            except Refused as exc:
                raise ValueError(exc.detail) from None
    raise KeyError(member)


def _named(entry: Entry, seen: set[str]) -> Entry:
    """The entry with its name as a label; a name that no folder could hold has no bytes."""
    raw = entry.name
    parts = raw.split("/")
    bad = raw.startswith("/") or ".." in parts or "\\" in raw or "\0" in raw or _DRIVE.match(raw)
    name = "/".join(part for part in parts if part not in ("", "."))
    if bad or not name or len(name) > MAX_NAME:
        shown = name.replace("..", "__").replace("\\", "_").replace("\0", "_")[:MAX_NAME] or "member"
        return _without(entry, shown, SkipReason.MALFORMED, "its name leaves the archive")
    if name in seen:
        return _without(entry, name, SkipReason.MALFORMED, "an earlier member has the same name")
    return replace(entry, name=name)


def _without(entry: Entry, name: str, reason: SkipReason, detail: str) -> Entry:
    return replace(entry, name=name, reason=reason, detail=detail, stream=None)


def _zip(content: Content, limit: int) -> Iterator[Entry]:
    left = limit
    with zipfile.ZipFile(io.BufferedReader(ContentFile(content))) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            start = max(0, info.header_offset)
            end = min(
                content.size, start + _LOCAL_HEADER + len(info.orig_filename.encode("utf-8", "replace"))
            )
            reason, detail = _zip_fault(info)
            entry = Entry(
                info.filename, info.file_size, start, end, reason, detail, packed=info.compress_size
            )
            if reason is not None:
                yield entry
                continue
            try:
                opened = archive.open(info)
            except _ERRORS:
                yield replace(entry, reason=SkipReason.MALFORMED, detail="it is damaged in the archive")
                continue
            with opened:
                counted = _Counted(opened, left)
                yield replace(entry, stream=io.BufferedReader(counted))
                left -= counted.passed


def _zip_fault(info: zipfile.ZipInfo) -> tuple[SkipReason | None, str]:
    mode = info.external_attr >> 16
    if stat.S_ISLNK(mode):
        return SkipReason.SYMLINK, "a link in the archive"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return SkipReason.SPECIAL_FILE, ""
    if info.flag_bits & 0x1:
        return SkipReason.UNREADABLE, "encrypted"
    known = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    if info.compress_type not in known:
        return SkipReason.UNREADABLE, f"compression method {info.compress_type}"
    return None, ""


class _Counted(io.RawIOBase):
    """A member's stream that ends the archive when the bytes that it may still give are spent."""

    def __init__(self, stream: IO[bytes], left: int) -> None:
        self._stream = stream
        self._left = left
        self.passed = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill `buffer` from the member."""
        data = self._stream.read(len(buffer))
        self.passed += len(data)
        if self.passed > self._left:
            raise TooMuchError("over the limit of bytes unpacked from one archive")
        buffer[: len(data)] = data
        return len(data)


def _tar(content: Content, limit: int) -> Iterator[Entry]:
    format_ = format_of(content.read(0, 8))
    source: IO[bytes]
    if format_:
        source = io.BufferedReader(PieceFile(unpacked_pieces(content, format_), limit))
    else:
        source = io.BufferedReader(ContentFile(content))
    end = min(_COMPRESSED_HEADER, content.size)
    with tarfile.open(fileobj=source, mode="r|" if format_ else "r:", errorlevel=1) as archive:
        for info in archive:
            if info.isdir():
                continue
            span = (0, end) if format_ else (info.offset, min(info.offset + _TAR_BLOCK, content.size))
            reason = _tar_fault(info)
            stream = None if reason is not None else archive.extractfile(info)
            detail = "a link in the archive" if reason in _LINKS else ""
            yield Entry(info.name, info.size, *span, reason, detail, stream)


_LINKS = (SkipReason.SYMLINK, SkipReason.HARD_LINK)


def _tar_fault(info: tarfile.TarInfo) -> SkipReason | None:
    if info.issym():
        return SkipReason.SYMLINK
    if info.islnk():
        return SkipReason.HARD_LINK
    return None if info.isreg() else SkipReason.SPECIAL_FILE
