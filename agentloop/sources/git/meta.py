"""What a repository says of itself, read as plain files below the input's root: no git process, no config.

A `gitdir:` file or a `commondir` that leads out of the root is not followed.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass

from agentloop.sources.opening import Refused, open_dir, open_file, read_stable

_HEX = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REF = re.compile(r"refs/[A-Za-z0-9_][\w./+@-]*")
MAX_META_BYTES = 1 << 20
MAX_INDEX_BYTES = 256 << 20
_REGULAR_HEADER = 62  # bytes of an index entry before its name: ten 32-bit fields, a SHA-1, flags


def _folder_below(root_fd: int, folders: list[str]) -> int:
    """A descriptor of a folder below `root_fd`, no link followed.

    Raises:
        Refused: there is none.
    """
    fd = os.dup(root_fd)
    for folder in folders:
        try:
            below = open_dir(folder, fd)
        finally:
            os.close(fd)
        fd = below
    return fd


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def open_below(root_fd: int, path: str) -> int | None:
    """A descriptor of the regular file `path` below `root_fd`, no link followed; None where there is none."""
    *folders, name = _parts(path)
    try:
        fd = _folder_below(root_fd, folders)
        try:
            return open_file(name, fd)[0]
        finally:
            os.close(fd)
    except Refused:
        return None


def read_below(root_fd: int, path: str, limit: int) -> bytes | None:
    """The bytes of a file as `open_below` opens it; None where that fails or it is over `limit` bytes."""
    fd = open_below(root_fd, path)
    if fd is None:
        return None
    try:
        status = os.fstat(fd)
        return None if status.st_size > limit else read_stable(fd, status, limit)[0]
    except Refused:
        return None
    finally:
        os.close(fd)


def list_below(root_fd: int, path: str) -> list[str]:
    """The names in a folder below `root_fd`, sorted; none where it can't be listed."""
    try:
        fd = _folder_below(root_fd, _parts(path))
    except Refused:
        return []
    try:
        return sorted(os.listdir(fd))
    except OSError:
        return []
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class GitPaths:
    """Where a repository's data lies, relative to the input's root: its own folder and the shared one."""

    own: str
    common: str


def find_git(root: str, root_fd: int, folder: str) -> GitPaths | None:
    """The git folders of the work tree `folder` (relative, "" for the root).

    None: it is no repository, or its data lies outside of `root`.
    """
    base = f"{folder}/" if folder else ""
    pointer = read_below(root_fd, base + ".git", MAX_META_BYTES)
    if pointer is None:
        own: str | None = base + ".git"
    else:
        own = _inside(root, folder, _after(pointer, b"gitdir:"))
    if own is None or read_below(root_fd, f"{own}/HEAD", MAX_META_BYTES) is None:
        return None
    shared = read_below(root_fd, f"{own}/commondir", MAX_META_BYTES)
    common = own if shared is None else _inside(root, own, _after(shared, b""))
    return None if common is None else GitPaths(own, common)


def find_bare(root_fd: int) -> GitPaths | None:
    """The git folders of a bare repository, whose root is the input itself; None where it is none."""
    head = read_below(root_fd, "HEAD", MAX_META_BYTES) or b""
    named = head.startswith(b"ref: refs/") or _HEX.fullmatch(head.decode("ascii", "replace").strip())
    return GitPaths(".", ".") if named and _is_folder(root_fd, "objects", "refs") else None


def _is_folder(root_fd: int, *names: str) -> bool:
    for name in names:
        try:
            os.close(open_dir(name, root_fd))
        except Refused:
            return False
    return True


def git_outside(root: str, root_fd: int, folder: str) -> bool:
    """Whether `folder` is a work tree whose git data lies outside of the input."""
    base = f"{folder}/" if folder else ""
    pointer = read_below(root_fd, base + ".git", MAX_META_BYTES)
    return bool(pointer and pointer.startswith(b"gitdir:")) and find_git(root, root_fd, folder) is None


def _after(data: bytes, prefix: bytes) -> str:
    line = data.split(b"\n", 1)[0]
    return os.fsdecode(line[len(prefix) :].strip()) if line.startswith(prefix) else ""


def _inside(root: str, folder: str, target: str) -> str | None:
    """`target`, as seen from `folder`, relative to `root`; None when it is elsewhere."""
    if not target or "\0" in target:
        return None
    full = os.path.normpath(os.path.join(root, folder, target))
    return full[len(root) + 1 :] if full.startswith(root.rstrip("/") + "/") else None


def head_commit(root_fd: int, git: GitPaths) -> str:
    """The commit that HEAD names; "" for an unborn branch or a form we don't read (reftable)."""
    head = read_below(root_fd, f"{git.own}/HEAD", MAX_META_BYTES)
    return resolve(root_fd, git, (head or b"").decode("utf-8", "replace").strip())


def resolve(root_fd: int, git: GitPaths, value: str) -> str:
    """The object id that a HEAD-like value or a full ref name stands for, "" if none."""
    for _ in range(5):
        if _HEX.fullmatch(value):
            return value
        ref = value.removeprefix("ref:").strip()
        if not _REF.fullmatch(ref) or ".." in ref or ref.endswith(("/", ".lock")):
            return ""
        loose = None
        for place in dict.fromkeys((git.own, git.common)):
            loose = loose or read_below(root_fd, f"{place}/{ref}", MAX_META_BYTES)
        if loose is None:
            return _packed(root_fd, git, ref)
        value = loose.decode("utf-8", "replace").strip()
    return ""


def _packed(root_fd: int, git: GitPaths, ref: str) -> str:
    data = read_below(root_fd, f"{git.common}/packed-refs", 64 << 20) or b""
    found = re.search(rb"^([0-9a-f]{40,64}) " + re.escape(ref.encode()) + rb"$", data, re.MULTILINE)
    return found[1].decode() if found else ""


def tracked_paths(index: bytes) -> frozenset[bytes]:
    """The paths in a `.git/index` (versions 2 to 4), and all folders above them with a trailing slash.

    A damaged index gives what could be read: it only decides which ignored files git tracks all the same.
    """
    if len(index) < 12 or index[:4] != b"DIRC":
        return frozenset()
    version, count = struct.unpack(">II", index[4:12])
    found: set[bytes] = set()
    at, name = 12, b""
    kept = b""
    for _ in range(count):
        if at + _REGULAR_HEADER > len(index):
            break
        (flags,) = struct.unpack(">H", index[at + 60 : at + 62])
        start = at + _REGULAR_HEADER + (2 if flags & 0x4000 and version >= 3 else 0)
        if version == 4:
            drop, start = _offset(index, start)
            kept = name[: len(name) - drop] if drop <= len(name) else b""
        end = index.find(b"\0", start)
        if end < 0:
            break
        name = kept + index[start:end] if version == 4 else index[start:end]
        at = end + 1 if version == 4 else at + ((end - at) // 8 + 1) * 8
        found.add(name)
        cut = name.rfind(b"/")
        while cut > 0 and name[: cut + 1] not in found:
            found.add(name[: cut + 1])
            cut = name.rfind(b"/", 0, cut)
    return frozenset(found)


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """The variable-width integer of index version 4 at `at`, and the offset behind it."""
    if at >= len(data):
        return 0, at
    value = data[at] & 0x7F
    while data[at] & 0x80 and at + 1 < len(data):
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1
