"""The objects of a repository, read below the input's root: loose, packed, and from alternates within it."""

from __future__ import annotations

import os
import zlib
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field

from agentloop.sources.git.meta import MAX_META_BYTES, GitPaths, list_below, open_below, read_below
from agentloop.sources.git.packs import DamagedError, Pack, TooLargeError
from agentloop.sources.opening import Refused
from agentloop.types import SkipReason

MAX_PACKS = 500  # names in the folder of packs: three or four files a pack
_MAX_ALTERNATES = 5
_CACHED_TREES = 4096
_MAX_TREE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit object says. `time` is the committer's, in seconds since 1970."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    time: int
    author: str
    subject: str


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A name in a tree. `mode` is octal as git writes it, as `100644`."""

    name: bytes
    mode: bytes
    oid: str

    @property
    def is_tree(self) -> bool:
        """Whether it is a folder."""
        return self.mode in (b"40000", b"040000")

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file: no link, no submodule."""
        return self.mode.startswith(b"100")


@dataclass(slots=True)
class GitStore:
    """Reads objects by id. A missing object is a KeyError, as in partial and shallow clones."""

    root: str
    root_fd: int
    git: GitPaths
    shallow: frozenset[str] = frozenset()
    _folders: list[str] = field(default_factory=list)
    _packs: list[Pack] = field(default_factory=list)
    _trees: OrderedDict[str, tuple[TreeEntry, ...]] = field(default_factory=OrderedDict)

    @classmethod
    def open(cls, root: str, root_fd: int, git: GitPaths) -> GitStore:
        """Open the packs of a repository.

        Raises:
            Refused: its alternates lie outside of the input.
        """
        cut = read_below(root_fd, f"{git.common}/shallow", MAX_META_BYTES) or b""
        store = cls(root, root_fd, git, frozenset(cut.decode("ascii", "replace").split()))
        store._add_folder(f"{git.common}/objects")
        return store

    def _add_folder(self, folder: str) -> None:
        if folder in self._folders:
            return
        self._folders.append(folder)
        alternates = read_below(self.root_fd, f"{folder}/info/alternates", MAX_META_BYTES) or b""
        for line in alternates.split(b"\n"):
            if not line.strip() or line.startswith(b"#"):
                continue
            target = os.path.normpath(os.path.join(self.root, folder, os.fsdecode(line)))
            inside = target.startswith(self.root.rstrip("/") + "/")
            if not inside or len(self._folders) > _MAX_ALTERNATES:
                raise Refused(SkipReason.VCS, "its object alternates lie outside of the input")
            self._add_folder(target[len(self.root.rstrip("/")) + 1 :])
        self._add_packs(f"{folder}/pack")

    def _add_packs(self, folder: str) -> None:
        for name in list_below(self.root_fd, folder)[:MAX_PACKS]:
            if name.startswith("pack-") and name.endswith(".idx"):
                self._add_pack(f"{folder}/{name}")

    def _add_pack(self, path: str) -> None:
        index_fd = open_below(self.root_fd, path)
        if index_fd is None:
            return
        pack_fd = open_below(self.root_fd, path.removesuffix(".idx") + ".pack")
        if pack_fd is None:
            os.close(index_fd)
            return
        with suppress(DamagedError):  # the other packs may hold what is asked for
            self._packs.append(Pack(index_fd, pack_fd))

    def read(self, oid: str, limit: int) -> tuple[bytes, bytes]:
        """Type and content of an object of at most `limit` bytes; its size is looked at first.

        Raises:
            KeyError: the repository doesn't hold it.
            TooLargeError, DamagedError: it can't be read.
        """
        raw = bytes.fromhex(oid)
        if len(raw) != 20:
            raise KeyError(oid)
        for pack in self._packs:
            offset = pack.find(raw)
            if offset is not None:
                return pack.read(offset, limit)
        for folder in self._folders:
            packed = read_below(self.root_fd, f"{folder}/{oid[:2]}/{oid[2:]}", limit + (limit >> 4) + 4096)
            if packed is not None:
                return _loose(packed, limit)
        raise KeyError(oid)

    def commit(self, oid: str) -> Commit:
        """A commit by its id.

        Raises:
            KeyError: it isn't there or is no commit.
        """
        kind, content = self._checked(oid, MAX_META_BYTES)
        if kind == b"tag":
            target = content.split(b"\n", 1)[0].removeprefix(b"object ").decode("ascii", "replace")
            kind, content = self._checked(target, MAX_META_BYTES)
            oid = target
        if kind != b"commit":
            raise KeyError(oid)
        return _parse_commit(oid, content)

    def tree(self, oid: str) -> tuple[TreeEntry, ...]:
        """The entries of a tree.

        Raises:
            KeyError: it isn't there or is no tree.
        """
        if oid in self._trees:
            self._trees.move_to_end(oid)
            return self._trees[oid]
        kind, content = self._checked(oid, _MAX_TREE_BYTES)
        if kind != b"tree":
            raise KeyError(oid)
        entries = tuple(_parse_tree(content))
        self._trees[oid] = entries
        if len(self._trees) > _CACHED_TREES:
            self._trees.popitem(last=False)
        return entries

    def blob(self, oid: str, limit: int) -> bytes:
        """A file's bytes.

        Raises:
            KeyError: it isn't there. TooLargeError: it is over `limit`.
        """
        kind, content = self.read(oid, limit)
        if kind != b"blob":
            raise KeyError(oid)
        return content

    def with_prefix(self, start: str) -> set[str]:
        """The ids of up to two objects that begin with `start` (4 to 39 hex digits)."""
        found: set[str] = set()
        for pack in self._packs:
            found |= pack.with_prefix(start)
        for folder in self._folders:
            names = list_below(self.root_fd, f"{folder}/{start[:2]}")
            found |= {start[:2] + name for name in names if name.startswith(start[2:]) and len(name) == 38}
        return set(sorted(found)[:2])

    def _checked(self, oid: str, limit: int) -> tuple[bytes, bytes]:
        try:
            return self.read(oid, limit)
        except (ValueError, OSError):
            raise KeyError(oid) from None


def _loose(packed: bytes, limit: int) -> tuple[bytes, bytes]:
    inflater = zlib.decompressobj()
    try:
        head = inflater.decompress(packed, 64)
        kind, _, size = head[: head.find(b"\0")].partition(b" ")
        length = int(size)
        if length > limit:
            raise TooLargeError(f"{length} bytes")
        start = head.find(b"\0") + 1
        content = head[start:] + inflater.decompress(inflater.unconsumed_tail, length + 1)
    except zlib.error as exc:
        raise DamagedError(str(exc)) from None
    if len(content) != length:
        raise DamagedError("an object whose size is not that of its content")
    return kind, content


def _parse_commit(oid: str, content: bytes) -> Commit:
    head, _, message = content.partition(b"\n\n")
    tree, parents, time, author = "", [], 0, ""
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key == b"tree":
            tree = value.decode("ascii", "replace")
        elif key == b"parent":
            parents.append(value.decode("ascii", "replace"))
        elif key == b"author":
            author = value[: value.find(b" <")].decode("utf-8", "replace")
        elif key == b"committer":
            stamp = value[value.rfind(b">") + 1 :].split()
            time = int(stamp[0]) if stamp and stamp[0].isdigit() and len(stamp[0]) < 12 else 0
    subject = message.strip().split(b"\n", 1)[0].decode("utf-8", "replace")[:200]
    return Commit(oid, tree, tuple(parents), time, author, subject)


def _parse_tree(content: bytes) -> list[TreeEntry]:
    entries = []
    at = 0
    while at < len(content):
        space, end = content.find(b" ", at), content.find(b"\0", at)
        if not at < space < end or end + 21 > len(content):
            break
        name = content[space + 1 : end]
        if name not in (b"", b".", b"..", b".git") and b"/" not in name:
            entries.append(TreeEntry(name, content[at:space], content[end + 1 : end + 21].hex()))
        at = end + 21
    return entries
