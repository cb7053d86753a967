"""From an archive to source files: one a member, its text derived, its spans those of its header."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256

from agentloop.config import Caps
from agentloop.items import PackedItems
from agentloop.request import Classification, InputType
from agentloop.sources.archives.members import (
    Entry,
    archive_kind,
    entries,
    member_bytes,
)
from agentloop.sources.classify import SNIFF_BYTES, Class, NameGuess, classify, guess, looks_like_log
from agentloop.sources.derive import Given, derive, has_binary_extractor
from agentloop.sources.documents.spans import RUN_LINES, TooMuchError, lines_cut
from agentloop.sources.extractors import extract
from agentloop.sources.languages import VCS_DIRS
from agentloop.sources.opening import Refused
from agentloop.types import (
    Archive,
    Content,
    Derived,
    FileKind,
    Item,
    Memory,
    SkipReason,
    SourceFile,
    Trait,
)

PLAIN = "text"  # the extractor of a member that is text already
PLAIN_VERSION = "1"
_FIXTURES = frozenset({Trait.TEST, Trait.VENDORED})
_RECORD_BYTES = 640_000_000  # of an export's JSON: 20 million characters of text, as for plain files
_RECORD_RATIO = 30  # JSON of conversations packs to a quarter or a tenth; what packs better is no text
_PASSED_PER_KEPT = 4  # bytes passed over for each byte that may be kept: pictures beside texts


@dataclass(frozen=True, slots=True)
class Opened:
    """An archive that is open: where it lies, its bytes and their hash, the caller's hints."""

    input_id: str
    path: str  # of the archive in its input
    content: Content
    content_hash: str
    hint: InputType
    named: bool  # the caller named this very file
    modified_ns: int


@dataclass(slots=True)
class Room:
    """What members may still take of the request."""

    files: int
    bytes: int
    record_chars: int


LeaveOut = Callable[[str, SkipReason, str], None]
"""Called with path, reason and detail of each member that is left out."""


def read_archive(
    opened: Opened,
    kind: str,
    caps: Caps,
    room: Room,
    label: Callable[[str], Classification],
    leave_out: LeaveOut,
    note: Callable[[str, str], None],
) -> list[SourceFile]:
    """A file for each member that holds text, in the order of their names. Indexes are left at 0.

    Args:
        opened: the archive.
        kind: `zip` or `tar`.
        caps: limits of a member are those of a file; all members together may take `max_extracted_bytes`,
            records that the caller named as such their own cap.
        room: what is left of the request's limits; it is spent.
        label: the classification of a path of the input.
        leave_out: is told of each member that gives no file.
        note: is given path and text of what an extractor has to tell.
    """
    found: list[SourceFile] = []
    budget = _Budget(caps, opened, room)
    try:
        for entry in entries(opened.content, kind, most_unpacked(caps)):
            path = f"{opened.path}/{entry.name}"
            try:
                file = _member(opened, entry, path, caps, budget, note)
            except Refused as exc:
                leave_out(path, exc.reason, exc.detail)
                continue
            found.append(replace(file, classification=label(path)))
    except TooMuchError as exc:
        leave_out(opened.path, SkipReason.BOMB, f"{exc}; {len(found)} members were read before")
    except ValueError as exc:
        leave_out(opened.path, SkipReason.MALFORMED, str(exc))
    return sorted(found, key=lambda file: file.path.encode("utf-8", "surrogateescape"))


def most_unpacked(caps: Caps) -> int:
    """Bytes that are unpacked of one archive, also of members that are left out."""
    return _RECORD_BYTES + _PASSED_PER_KEPT * caps.max_extracted_bytes


class _Budget:
    """Bytes that members may take: in all, and each of its kind."""

    def __init__(self, caps: Caps, opened: Opened, room: Room) -> None:
        self.room = room
        self._export = opened.named or opened.hint is InputType.RECORDS
        self._caps = caps
        self._left = min(caps.max_extracted_bytes, room.bytes)
        self._records = min(_RECORD_BYTES, room.bytes)

    def limit(self, guessed: NameGuess, entry: Entry) -> int:
        """How large this member may be."""
        if self._export and guessed.language in ("json", "jsonl"):
            return max(self._left, min(self._records, _RECORD_RATIO * entry.packed))
        document = guessed.sure and guessed.kind is not FileKind.LOG
        return min(self._left, self._caps.max_file_bytes) if document else self._left

    def spend(self, size: int, *, records: bool) -> None:
        """Count a member that was read."""
        self._records -= size
        if not records:
            self._left -= size
        self.room.bytes -= size
        self.room.files -= 1


def _member(
    opened: Opened, entry: Entry, path: str, caps: Caps, budget: _Budget, note: Callable[[str, str], None]
) -> SourceFile:
    """The member as a file.

    Raises:
        Refused: it gives none, and why.
        TooMuchError: the archive is over its limit.
    """
    folder, _, name = path.rpartition("/")
    if entry.reason is not None:
        raise Refused(entry.reason, entry.detail)
    if not VCS_DIRS.isdisjoint(entry.name.split("/")[:-1]):
        raise Refused(SkipReason.VCS)
    guessed = guess(entry.name.rpartition("/")[0], name)
    if budget.room.files <= 0:
        raise Refused(SkipReason.FILE_LIMIT)
    if guessed.binary:
        raise Refused(SkipReason.BINARY, "by its name")
    data = entry.read(max(0, budget.limit(guessed, entry)))
    if not data:
        raise Refused(SkipReason.EMPTY)
    if archive_kind(name, data[:512], named=True):
        raise Refused(SkipReason.BINARY, "an archive inside an archive")
    found, derived = _derived(opened, folder, name, guessed, data, caps, budget.room)
    if found.kind is FileKind.CODE and not opened.named:
        raise Refused(SkipReason.FILTERED, "code in an archive that was not named itself")
    budget.spend(len(data), records=found.kind is FileKind.RECORDS)
    for told in derived.notes:
        note(path, told)
    return SourceFile(
        index=0,
        input_id=opened.input_id,
        path=path,
        kind=found.kind,
        language=found.language,
        mime=found.mime,
        size=len(data),
        content_hash="sha256:" + sha256(data).hexdigest(),
        classification=Classification.PUBLIC,
        content=opened.content,
        traits=found.traits,
        derived=_placed(derived, opened.content, entry),
        modified_ns=opened.modified_ns,
        archive=Archive(opened.path, opened.content_hash, opened.content.size),
    )


def _derived(
    opened: Opened, folder: str, name: str, guessed: NameGuess, data: bytes, caps: Caps, room: Room
) -> tuple[Class, Derived]:
    found = classify(guessed, data)
    if found.binary and not has_binary_extractor(guessed, data[:SNIFF_BYTES]):
        raise Refused(SkipReason.BINARY)
    given = Given(folder, name, guessed, found, Memory(data), opened.hint, opened.named)
    found, derived = derive(given, room.record_chars, caps.max_extracted_bytes)
    if derived is None:
        derived = plain_text(data)
        if opened.hint is InputType.LOG and (not guessed.sure or looks_like_log(data[:SNIFF_BYTES])):
            found = Class(FileKind.LOG, "log", "text/x-log", found.traits)
    elif found.kind is FileKind.RECORDS:
        room.record_chars -= sum(len(item.text) for item in derived.items)
    return found, derived


def plain_text(data: bytes) -> Derived:
    """The text of a member in runs of 16 lines."""
    text = data.decode("utf-8", "replace")
    runs = lines_cut(text[:-1] if text.endswith("\n") else text, RUN_LINES)
    return Derived(PLAIN, PLAIN_VERSION, tuple(Item(run, 0, 0, 0, 0) for run in runs))


def _placed(derived: Derived, content: Content, entry: Entry) -> Derived:
    """All items at the header of the member: compressed text has no lines that a reader could look at."""
    line = _lines_before(content, entry.start) + 1
    last = line + content.read(entry.start, max(entry.start, entry.end - 1)).count(b"\n")
    items = PackedItems(
        replace(item, byte_start=entry.start, byte_end=entry.end, line_start=line, line_end=last)
        for item in derived.items
    )
    return replace(derived, items=items)


def _lines_before(content: Content, end: int) -> int:
    block = 1 << 20
    return sum(content.read(at, min(at + block, end)).count(b"\n") for at in range(0, end, block))


def member_text(data: bytes, member: str, extractor: str, version: str, caps: Caps) -> Derived:
    """The text of a member as discovery made it, for verification.

    Raises:
        KeyError: no such member, or no such extractor in this version.
        ValueError: the archive is damaged, or the member over its limits.
    """
    inner = member_bytes(data, member, most_unpacked(caps))
    if extractor == PLAIN:
        if version != PLAIN_VERSION:
            raise KeyError(f"{extractor} {version}")
        return plain_text(inner)
    return extract(extractor, version, inner)
