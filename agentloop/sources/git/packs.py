"""One git pack: objects found by their index and read by `pread`, with sizes known before content.

Follows gitformat-pack (index version 2, pack version 2). Descriptors are opened by the caller without
following links; nothing is mapped, so a pack that is cut while we read gives an error, not a signal.
"""

from __future__ import annotations

import os
import struct
import weakref
import zlib
from dataclasses import dataclass, field

_FANOUT = 8  # bytes before the fan-out table: magic and version
_NAMES = _FANOUT + 256 * 4
_TYPES = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_OFS_DELTA, _REF_DELTA = 6, 7
_MAX_CHAIN = 200  # git's own default is 50
_PIECE = 4096


class DamagedError(ValueError):
    """A pack that doesn't follow its format."""


class TooLargeError(ValueError):
    """An object over the limit; its content was not read."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry's header: type, size after inflation, where its data starts, and its delta base."""

    type: int
    size: int
    data_at: int
    base_offset: int = 0
    base_id: bytes = b""


@dataclass(slots=True, weakref_slot=True)
class Pack:
    """An open pack and its index; both descriptors close with the object."""

    index_fd: int
    pack_fd: int
    count: int = 0
    _closers: list[weakref.finalize] = field(default_factory=list)  # type: ignore[type-arg]

    def __post_init__(self) -> None:
        self._closers += [weakref.finalize(self, os.close, fd) for fd in (self.index_fd, self.pack_fd)]
        head = os.pread(self.index_fd, _FANOUT, 0)
        if head != b"\xfftOc\0\0\0\2":
            raise DamagedError("an index of another version")
        self.count = self._number(self.index_fd, _NAMES - 4)

    @staticmethod
    def _number(fd: int, at: int) -> int:
        data = os.pread(fd, 4, at)
        if len(data) != 4:
            raise DamagedError("an index that ends early")
        return int(struct.unpack(">I", data)[0])

    def find(self, oid: bytes) -> int | None:
        """The offset of an object in the pack, None where it isn't in it."""
        first = oid[0]
        low = self._number(self.index_fd, _FANOUT + (first - 1) * 4) if first else 0
        high = self._number(self.index_fd, _FANOUT + first * 4)
        while low < high:
            middle = (low + high) // 2
            name = os.pread(self.index_fd, 20, _NAMES + middle * 20)
            if name == oid:
                return self._offset(middle)
            if name < oid:
                low = middle + 1
            else:
                high = middle
        return None

    def with_prefix(self, start: str) -> set[str]:
        """The ids of up to two objects that begin with `start`, at least two hex digits."""
        first = int(start[:2], 16)
        low = self._number(self.index_fd, _FANOUT + (first - 1) * 4) if first else 0
        high = self._number(self.index_fd, _FANOUT + first * 4)
        least = bytes.fromhex(start.ljust(40, "0"))
        while low < high:
            middle = (low + high) // 2
            if os.pread(self.index_fd, 20, _NAMES + middle * 20) < least:
                low = middle + 1
            else:
                high = middle
        ids = (os.pread(self.index_fd, 20, _NAMES + number * 20).hex() for number in range(low, low + 2))
        return {oid for oid in ids if len(oid) == 40 and oid.startswith(start)}

    def _offset(self, number: int) -> int:
        small = _NAMES + self.count * 24
        offset = self._number(self.index_fd, small + number * 4)
        if not offset & 0x80000000:
            return offset
        large = os.pread(self.index_fd, 8, small + self.count * 4 + (offset & 0x7FFFFFFF) * 8)
        if len(large) != 8:
            raise DamagedError("an index that ends early")
        return int(struct.unpack(">Q", large)[0])

    def read(self, offset: int, limit: int) -> tuple[bytes, bytes]:
        """Type and content of the object at `offset`.

        Raises:
            TooLargeError: it, a base of it or a delta is over `limit` bytes; found before it is inflated.
            DamagedError: the pack doesn't follow its format.
        """
        deltas: list[bytes] = []
        entry = self._entry(offset)
        while entry.type in (_OFS_DELTA, _REF_DELTA):
            if len(deltas) >= _MAX_CHAIN:
                raise DamagedError("a delta chain without end")
            deltas.append(self._inflate(entry, limit))
            base = self.find(entry.base_id) if entry.type == _REF_DELTA else offset - entry.base_offset
            if base is None or base <= 0 or (entry.type == _OFS_DELTA and base >= offset):
                raise DamagedError("a delta without its base")
            offset = base
            entry = self._entry(offset)
        if entry.type not in _TYPES:
            raise DamagedError("an entry of unknown type")
        content = self._inflate(entry, limit)
        for delta in reversed(deltas):
            content = apply_delta(content, delta, limit)
        return _TYPES[entry.type], content

    def _entry(self, offset: int) -> _Entry:
        head = os.pread(self.pack_fd, 64, offset)
        try:
            byte = head[0]
            kind, size, shift, at = (byte >> 4) & 7, byte & 15, 4, 1
            while byte & 0x80:
                byte = head[at]
                size |= (byte & 0x7F) << shift
                shift, at = shift + 7, at + 1
            if kind == _REF_DELTA:
                return _Entry(kind, size, offset + at + 20, base_id=head[at : at + 20])
            if kind != _OFS_DELTA:
                return _Entry(kind, size, offset + at)
            byte = head[at]
            back, at = byte & 0x7F, at + 1
            while byte & 0x80:
                byte = head[at]
                back, at = ((back + 1) << 7) | (byte & 0x7F), at + 1
            return _Entry(kind, size, offset + at, base_offset=back)
        except IndexError:
            raise DamagedError("an entry that ends early") from None

    def _inflate(self, entry: _Entry, limit: int) -> bytes:
        if entry.size > limit:
            raise TooLargeError(f"{entry.size} bytes")
        inflater = zlib.decompressobj()
        found = bytearray()
        at = entry.data_at
        try:
            while len(found) < entry.size and not inflater.eof:
                piece = os.pread(self.pack_fd, max(_PIECE, min(entry.size, 1 << 20)), at)
                if not piece:
                    break
                at += len(piece)
                found += inflater.decompress(piece, entry.size + 1 - len(found))
        except zlib.error as exc:
            raise DamagedError(str(exc)) from None
        if len(found) != entry.size:
            raise DamagedError("an entry whose size is not that of its content")
        return bytes(found)


def _varint(delta: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = delta[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def apply_delta(base: bytes, delta: bytes, limit: int) -> bytes:
    """The object that `delta` makes of `base`.

    Raises:
        TooLargeError: its size, told first in the delta, is over `limit`.
        DamagedError: the delta doesn't fit its base.
    """
    try:
        base_size, at = _varint(delta, 0)
        size, at = _varint(delta, at)
        if size > limit:
            raise TooLargeError(f"{size} bytes")
        out = bytearray()
        while at < len(delta):
            command = delta[at]
            at += 1
            if command & 0x80:
                start, length = 0, 0
                for bit in range(4):
                    if command >> bit & 1:
                        start, at = start | delta[at] << (8 * bit), at + 1
                for bit in range(3):
                    if command >> (4 + bit) & 1:
                        length, at = length | delta[at] << (8 * bit), at + 1
                out += base[start : start + (length or 0x10000)]
            else:
                out += delta[at : at + command]
                at += command
            if len(out) > size:
                raise DamagedError("a delta that makes more than it says")
    except IndexError:
        raise DamagedError("a delta that ends early") from None
    if base_size != len(base) or len(out) != size:
        raise DamagedError("a delta that doesn't fit its base")
    return bytes(out)
