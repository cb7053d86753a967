"""The files of a bare repository: those of the commit that HEAD names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from agentloop.sources.classify import guess
from agentloop.sources.git.packs import DamagedError, TooLargeError
from agentloop.sources.git.store import Commit, GitStore, TreeEntry
from agentloop.sources.opening import Refused
from agentloop.sources.reader import Reader
from agentloop.sources.walk import Exclude
from agentloop.types import SkipReason, SourceFile


def commit_files(store: GitStore, commit: Commit, reader: Reader, exclude: Exclude) -> list[SourceFile]:
    """The regular files of a commit, in order, each with its `commit`; limits are those of a work tree."""
    found: list[SourceFile] = []
    for path, entry in _entries(store, commit.tree, "", reader.caps.max_depth, exclude):
        if not entry.is_file:
            link = entry.mode == b"120000"
            exclude(
                path, SkipReason.SYMLINK if link else SkipReason.VCS, "" if link else "a submodule", False
            )
            continue
        if reader.allowance.files <= 0:
            exclude(path, SkipReason.FILE_LIMIT, "the walk stopped here", False)
            break
        try:
            found.append(_file(store, path, entry, reader, commit))
        except Refused as exc:
            exclude(path, exc.reason, exc.detail, False)
    return found


def _entries(
    store: GitStore, tree: str, prefix: str, depth: int, exclude: Exclude
) -> Iterator[tuple[str, TreeEntry]]:
    try:
        entries = store.tree(tree)
    except KeyError:
        exclude(prefix or ".", SkipReason.UNREADABLE, "its tree is not in the repository", True)
        return
    for entry in entries:
        path = prefix + os.fsdecode(entry.name)
        if not entry.is_tree:
            yield path, entry
        elif depth:
            yield from _entries(store, entry.oid, path + "/", depth - 1, exclude)
        else:
            exclude(path, SkipReason.DEPTH_LIMIT, "", True)


def _file(store: GitStore, path: str, entry: TreeEntry, reader: Reader, commit: Commit) -> SourceFile:
    folder, _, name = path.rpartition("/")
    guessed = guess(folder, name)
    if guessed.binary:
        raise Refused(SkipReason.BINARY, "by its name")
    limit = reader.caps.max_file_bytes
    try:
        data = store.blob(entry.oid, limit)
    except TooLargeError as exc:
        raise Refused(SkipReason.TOO_LARGE, f"{exc}, over {limit}") from None
    except (KeyError, DamagedError):
        raise Refused(SkipReason.UNREADABLE, "its object is not in the repository") from None
    if not data:
        raise Refused(SkipReason.EMPTY)
    if len(data) > reader.allowance.bytes:
        raise Refused(SkipReason.BYTE_LIMIT)
    file = reader.held(folder, name, guessed, data, commit.time * 1_000_000_000)
    return replace(file, commit=commit.oid)
