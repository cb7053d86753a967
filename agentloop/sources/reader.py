"""One file: opened once, read once, hashed from those bytes, and recognised."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256

from agentloop.config import Caps
from agentloop.request import Classification, InputType
from agentloop.sources.archives import Opened, Room, archive_kind, may_be_archive, read_archive
from agentloop.sources.classify import (
    SNIFF_BYTES,
    Class,
    NameGuess,
    classify,
    guess,
    looks_binary,
    looks_like_log,
)
from agentloop.sources.derive import (
    RECORD_BYTES_PER_CHAR,
    Given,
    derive,
    has_binary_extractor,
    may_be_streamed,
)
from agentloop.sources.labels import Labels
from agentloop.sources.opening import Refused, open_file, read_stable
from agentloop.sources.report import shown
from agentloop.sources.streams import FileContent, hash_stream
from agentloop.types import Content, Derived, FileKind, Memory, SkipReason, SourceFile, Trait

Known = Callable[[str, str, os.stat_result], SourceFile | None]
"""A file that needs no reading, by its input, its path in it, and the status of its open descriptor."""

MAX_STREAMS = 128  # logs that stay open at once; far below the usual limit of 1024 descriptors


@dataclass(slots=True)
class Allowance:
    """What a request may still read, over all its inputs."""

    files: int
    bytes: int
    record_chars: int
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
    known: Known | None = None
    links: dict[tuple[int, int], int] = field(default_factory=dict)  # (device, inode) -> names met
    notes: list[str] = field(default_factory=list)  # what a model must know of text that is left out
    members_left: list[tuple[str, SkipReason, str]] = field(default_factory=list)  # of archives

    def read_all(self, folder: str, name: str, dir_fd: int, *, all_links: bool = False) -> list[SourceFile]:
        """As `read`; of an archive every member that holds text. `members_left` tells of the others.

        Raises:
            Refused, LaterError: as `read`.
        """
        if not (self.named or may_be_archive(name)):
            return [self.read(folder, name, dir_fd, all_links=all_links)]
        fd, status = open_file(name, dir_fd)
        try:
            head = os.pread(fd, SNIFF_BYTES, 0)
            kind = archive_kind(name, head, named=self.named)
            if not kind:
                return [self.read(folder, name, dir_fd, all_links=all_links)]
            if status.st_nlink > 1 and not (all_links or self.caps.follow_hard_links):
                self._count_link(status)
                raise LaterError(status.st_dev, status.st_ino, status.st_nlink)
            if not self.named and guess(folder, name).traits & {Trait.TEST, Trait.VENDORED}:
                raise Refused(SkipReason.BINARY, "a fixture, by its folder")
            return self._archive(f"{folder}/{name}" if folder else name, kind, fd, status)
        finally:
            os.close(fd)

    def _archive(self, path: str, kind: str, fd: int, status: os.stat_result) -> list[SourceFile]:
        """The members of an archive, read through its descriptor.

        Raises:
            Refused: none holds text, or the file changed meanwhile.
        """
        content: Content
        if status.st_size <= self.caps.max_extracted_bytes:
            data, status = read_stable(fd, status, self.caps.max_extracted_bytes)
            content, digest = Memory(data), "sha256:" + sha256(data).hexdigest()
        elif self.allowance.streams > 0 and status.st_size <= self.caps.max_total_bytes:
            content, digest = FileContent(os.dup(fd), status.st_size), hash_stream(fd, status)
            self.allowance.streams -= 1
        else:
            raise Refused(SkipReason.TOO_LARGE, f"{status.st_size} bytes")
        room = Room(self.allowance.files, self.allowance.bytes, self.allowance.record_chars)
        archive = Opened(self.input_id, path, content, digest, self.type, self.named, status.st_mtime_ns)
        before = len(self.members_left)
        found = read_archive(
            archive,
            kind,
            self.caps,
            room,
            self.label,
            lambda *left: self.members_left.append(left),
            lambda where, told: self.notes.append(f"{shown(where)}: {told}."),
        )
        if not found and len(self.members_left) == before:
            raise Refused(SkipReason.EMPTY)
        self.allowance.files, self.allowance.bytes = room.files, room.bytes
        self.allowance.record_chars = room.record_chars
        first = self.allowance.next_index
        self.allowance.next_index += len(found)
        return [replace(file, index=first + n) for n, file in enumerate(found)]

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
            if (file := self._recognised(folder, name, status)) is not None:
                return file
            limit, streamed = self._limit(guessed, fd, status.st_size)
            if status.st_size > limit:
                raise Refused(SkipReason.TOO_LARGE, f"{status.st_size} bytes, over {limit}")
            if streamed:
                file = self._stream(folder, name, guessed, fd, status)
                keep = True
                return file
            data, status = self._bytes(guessed, fd, status, limit)
            return self.held(folder, name, guessed, data, status.st_mtime_ns)
        finally:
            if not keep:
                os.close(fd)

    def _recognised(self, folder: str, name: str, status: os.stat_result) -> SourceFile | None:
        """The file as an earlier request read it, when it surely is the same and there is room for it."""
        path = f"{folder}/{name}" if folder else name
        file = None if self.known is None else self.known(self.input_id, path, status)
        if file is None or file.size > self.allowance.bytes:
            return None
        self.allowance.bytes -= file.size
        self.allowance.files -= 1
        self.allowance.next_index += 1
        return replace(file, index=self.allowance.next_index - 1)

    def _count_link(self, status: os.stat_result) -> None:
        key = (status.st_dev, status.st_ino)
        self.links[key] = self.links.get(key, 0) + 1

    def _limit(self, guessed: NameGuess, fd: int, size: int) -> tuple[int, bool]:
        """How large this file may be, and whether it is read where it lies instead of being held.

        Logs have a cap of their own, also logs without a name for it; so have sets of records.
        """
        caps = self.caps
        if guessed.kind is FileKind.LOG or self.type is InputType.LOG:
            return caps.max_log_bytes, size > caps.stream_log_bytes
        if size <= caps.max_file_bytes:
            return caps.max_file_bytes, False
        head = os.pread(fd, SNIFF_BYTES, 0)
        if not guessed.sure and looks_like_log(head):
            return caps.max_log_bytes, size > caps.stream_log_bytes
        if not looks_binary(head) and may_be_streamed(guessed, self.type, head[:64]):
            return caps.max_record_chars * RECORD_BYTES_PER_CHAR, True
        return caps.max_file_bytes, False

    def _stream(
        self, folder: str, name: str, guessed: NameGuess, fd: int, status: os.stat_result
    ) -> SourceFile:
        if self.allowance.streams <= 0:
            raise Refused(SkipReason.FILE_LIMIT, f"more than {MAX_STREAMS} large files in one request")
        head = os.pread(fd, SNIFF_BYTES, 0)
        if looks_binary(head):
            raise Refused(SkipReason.BINARY)
        content = FileContent(os.dup(fd), status.st_size)
        if may_be_streamed(guessed, self.type, head[:64]):
            found, derived = self._derived(folder, name, guessed, classify(guessed, head), content)
            if derived is None:
                over = self.caps.max_file_bytes
                raise Refused(SkipReason.TOO_LARGE, f"{status.st_size} bytes, over {over}, and no records")
        else:
            found, derived = Class(FileKind.LOG, "log", "text/x-log", frozenset()), None
        digest = hash_stream(fd, status)
        self.allowance.streams -= 1
        path = f"{folder}/{name}" if folder else name
        return self._file(path, found, content, mtime_ns=status.st_mtime_ns, digest=digest, derived=derived)

    def streamed_log(self, name: str, content: Content, digest: str) -> SourceFile:
        """A large log from standard input, whose bytes lie in a file without a name."""
        found = Class(FileKind.LOG, "log", "text/x-log", frozenset())
        return self._file(name, found, content, mtime_ns=0, digest=digest)

    def _derived(
        self, folder: str, name: str, guessed: NameGuess, found: Class, content: Content
    ) -> tuple[Class, Derived | None]:
        """As `derive`, with the notes of the extractor and the request's allowance of record text."""
        given = Given(folder, name, guessed, found, content, self.type, self.named)
        found, derived = derive(given, self.allowance.record_chars, self.caps.max_extracted_bytes)
        if derived is not None:
            if found.kind is FileKind.RECORDS:
                self.allowance.record_chars -= sum(map(derived.size, range(len(derived.items))))
            path = f"{folder}/{name}" if folder else name
            self.notes += [f"{shown(path)}: {note}." for note in derived.notes]
        return found, derived

    def _bytes(
        self, guessed: NameGuess, fd: int, status: os.stat_result, limit: int
    ) -> tuple[bytes, os.stat_result]:
        if status.st_size > self.allowance.bytes:
            raise Refused(SkipReason.BYTE_LIMIT)
        if status.st_size > 16 * SNIFF_BYTES:
            head = os.pread(fd, SNIFF_BYTES, 0)
            if looks_binary(head) and not has_binary_extractor(guessed, head):
                raise Refused(SkipReason.BINARY)
        return read_stable(fd, status, limit)

    def held(self, folder: str, name: str, guessed: NameGuess, data: bytes, mtime_ns: int) -> SourceFile:
        """A file whose bytes are in memory.

        Raises:
            Refused: it is binary.
        """
        found = classify(guessed, data)
        content = Memory(data)
        found, derived = self._derived(folder, name, guessed, found, content)
        self.allowance.bytes -= len(data)
        digest = "sha256:" + sha256(data).hexdigest()
        path = f"{folder}/{name}" if folder else name
        if derived is None:
            found = self._hinted(found, guessed)
        return self._file(path, found, content, mtime_ns=mtime_ns, digest=digest, derived=derived)

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
