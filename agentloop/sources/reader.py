"""One file: opened once, read once, hashed from those bytes, and recognised."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from hashlib import sha256

from agentloop.config import Caps
from agentloop.request import Classification, InputType
from agentloop.sources import extractors, utf16
from agentloop.sources.classify import (
    SNIFF_BYTES,
    Class,
    NameGuess,
    classify,
    guess,
    looks_binary,
    looks_like_log,
)
from agentloop.sources.labels import Labels
from agentloop.sources.opening import Refused, open_file, read_stable
from agentloop.sources.streams import FileContent, hash_stream
from agentloop.types import Content, Derived, FileKind, Memory, SkipReason, SourceFile

MAX_STREAMS = 128  # logs that stay open at once; far below the usual limit of 1024 descriptors


@dataclass(slots=True)
class Allowance:
    """What a request may still read, over all its inputs."""

    files: int
    bytes: int
    streams: int = MAX_STREAMS
    next_index: int = 0


@dataclass(slots=True)
class Reader:
    """Reads the files of one input."""

    input_id: str
    type: InputType
    root: str
    caps: Caps
    labels: Labels
    allowance: Allowance
    named: bool = False  # the caller named this very file
    links: dict[tuple[int, int], int] = field(default_factory=dict)  # (device, inode) -> names met

    def read(self, folder: str, name: str, dir_fd: int, *, all_links: bool = False) -> SourceFile:
        """The file `name` of the open folder `dir_fd`; `folder` is its path in the input.

        Raises:
            Refused: it is left out, and why.
            LaterError: it has other names; whether they all lie in the input shows at the end of the walk.
        """
        guessed = guess(folder, name)
        if guessed.binary:
            raise Refused(SkipReason.BINARY, "by its name")
        fd, status = open_file(name, dir_fd)
        keep = False
        try:
            if status.st_nlink > 1 and not (all_links or self.caps.follow_hard_links):
                self._count_link(status)
                raise LaterError(status.st_dev, status.st_ino, status.st_nlink)
            if status.st_size == 0:
                raise Refused(SkipReason.EMPTY)
            limit = self._limit(guessed, fd, status.st_size)
            if status.st_size > limit:
                raise Refused(SkipReason.TOO_LARGE, f"{status.st_size} bytes, over {limit}")
            if limit > self.caps.max_file_bytes and status.st_size > self.caps.stream_log_bytes:
                file, keep = self._stream(folder, name, fd, status), True
                return file
            data, status = self._bytes(fd, status, limit)
            return self.held(folder, name, guessed, data, status.st_mtime_ns)
        finally:
            if not keep:
                os.close(fd)

    def _count_link(self, status: os.stat_result) -> None:
        key = (status.st_dev, status.st_ino)
        self.links[key] = self.links.get(key, 0) + 1

    def _limit(self, guessed: NameGuess, fd: int, size: int) -> int:
        """How large this file may be: logs have a cap of their own, also logs without a name for it."""
        if guessed.kind is FileKind.LOG or self.type is InputType.LOG:
            return self.caps.max_log_bytes
        unsure = size > self.caps.max_file_bytes and not guessed.sure
        if unsure and looks_like_log(os.pread(fd, SNIFF_BYTES, 0)):
            return self.caps.max_log_bytes
        return self.caps.max_file_bytes

    def _stream(self, folder: str, name: str, fd: int, status: os.stat_result) -> SourceFile:
        if self.allowance.streams <= 0:
            raise Refused(SkipReason.FILE_LIMIT, f"more than {MAX_STREAMS} large logs in one request")
        if looks_binary(os.pread(fd, SNIFF_BYTES, 0)):
            raise Refused(SkipReason.BINARY)
        digest = hash_stream(fd, status)
        self.allowance.streams -= 1
        return self.streamed(folder, name, FileContent(fd, status.st_size), status.st_mtime_ns, digest)

    def streamed(self, folder: str, name: str, content: Content, mtime_ns: int, digest: str) -> SourceFile:
        """A large log whose bytes stay where they are."""
        found = Class(FileKind.LOG, "log", "text/x-log", frozenset())
        path = f"{folder}/{name}" if folder else name
        return self._file(path, found, content, mtime_ns=mtime_ns, digest=digest)

    def _bytes(self, fd: int, status: os.stat_result, limit: int) -> tuple[bytes, os.stat_result]:
        if status.st_size > self.allowance.bytes:
            raise Refused(SkipReason.BYTE_LIMIT)
        if status.st_size > 16 * SNIFF_BYTES:
            head = os.pread(fd, SNIFF_BYTES, 0)
            if looks_binary(head) and not utf16.wide_encoding(head):
                raise Refused(SkipReason.BINARY)
        return read_stable(fd, status, limit)

    def held(self, folder: str, name: str, guessed: NameGuess, data: bytes, mtime_ns: int) -> SourceFile:
        """A file whose bytes are in memory.

        Raises:
            Refused: it is binary.
        """
        found = classify(guessed, data)
        derived: Derived | None = None
        if found.binary:
            if not utf16.wide_encoding(data):
                raise Refused(SkipReason.BINARY)
            derived = extractors.extract(utf16.EXTRACTOR, utf16.VERSION, data)
            text = "\n".join(item.text for item in derived.items[:200]).encode("utf-8", "replace")
            found = classify(guessed, text)
        self.allowance.bytes -= len(data)
        digest = "sha256:" + sha256(data).hexdigest()
        found = self._hinted(found, guessed)
        path = f"{folder}/{name}" if folder else name
        return self._file(path, found, Memory(data), mtime_ns=mtime_ns, digest=digest, derived=derived)

    def _hinted(self, found: Class, guessed: NameGuess) -> Class:
        """What the caller's `type` adds where the name leaves it open."""
        if self.type is InputType.LOG and (self.named or not guessed.sure):
            return Class(FileKind.LOG, "log", "text/x-log", found.traits)
        return found

    def _file(
        self,
        path: str,
        found: Class,
        content: Content,
        *,
        mtime_ns: int,
        digest: str,
        derived: Derived | None = None,
    ) -> SourceFile:
        self.allowance.files -= 1
        index = self.allowance.next_index
        self.allowance.next_index += 1
        return SourceFile(
            index=index,
            input_id=self.input_id,
            path=path,
            kind=found.kind,
            language=found.language,
            mime=found.mime,
            size=content.size,
            content_hash=digest,
            classification=self.label(path),
            content=content,
            traits=found.traits,
            derived=derived,
            modified_ns=mtime_ns,
        )

    def label(self, path: str) -> Classification:
        """The classification of a path of this input."""
        return self.labels.of(path, self.root if self.named else f"{self.root}/{path}")


class LaterError(Exception):
    """A file with several names (hard links) that has to wait for the end of the walk."""

    def __init__(self, device: int, inode: int, names: int) -> None:
        super().__init__(device, inode, names)
        self.device = device
        self.inode = inode
        self.names = names
