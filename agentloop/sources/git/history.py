"""Commits of a repository, newest first, with the lines that they changed."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from agentloop.sources.git.diff import FileChange, changed_files, file_change
from agentloop.sources.git.meta import find_bare, find_git, head_commit
from agentloop.sources.git.packs import DamagedError, TooLargeError
from agentloop.sources.git.revisions import resolve_commit, since_time
from agentloop.sources.git.store import Commit, GitStore
from agentloop.sources.opening import Refused, open_dir, open_parent


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """How much of a history is read. What is cut off is told by `History.truncated`."""

    max_commits: int = 1000  # looked at, touching or not
    max_changes: int = 2000  # files compared line by line
    max_blob_bytes: int = 1_000_000
    max_files_per_commit: int = 200  # a commit that touches more is an import or a reformatting


@dataclass(frozen=True, slots=True)
class CommitChange:
    """One commit and the files that it changed against its first parent. `time` is ISO 8601 in UTC."""

    commit: str
    parent: str
    time: str
    seconds: int
    author: str
    subject: str
    files: tuple[FileChange, ...]


@dataclass(frozen=True, slots=True)
class History:
    """Commits newest first; `head` is where the walk began, "" where there is no readable history."""

    head: str
    commits: tuple[CommitChange, ...]
    truncated: bool = False
    note: str = ""  # why there is no or only a part of the history


def history(
    root: str,
    *,
    since: str = "",
    paths: Sequence[str] = (),
    limits: HistoryLimits = HistoryLimits(),
    now: datetime | None = None,
) -> History:
    """The commits that HEAD holds since a date, an age or a commit, that touch `paths` (all where empty).

    Only objects below `root` are read; no process is started, no configuration is obeyed. Merges are
    walked through and not compared, as `git log -p` does. A missing object ends the history there.

    Raises:
        AgentloopError: REQUEST_INVALID; `since` names no commit of the repository.
    """
    with open_store(root) as store:
        if isinstance(store, str):
            return History("", (), note=store)
        return read_history(store, since, paths, limits, now or datetime.now(UTC))


def read_history(
    store: GitStore, since: str, paths: Sequence[str], limits: HistoryLimits, now: datetime
) -> History:
    """As `history`, from an open store."""
    head = head_commit(store.root_fd, store.git)
    if not head:
        return History("", (), note="HEAD names no commit")
    after = since_time(since, now) if since else None
    oid = resolve_commit(store, since) if since and after is None else ""
    stop = _ancestors(store, oid, limits) if oid else set()
    return _walk(store, head, after, stop, [os.fsencode(path.strip("/")) for path in paths], limits)


@contextmanager
def open_store(root: str) -> Iterator[GitStore | str]:
    """The objects of the work tree or bare repository at the absolute path `root`, or why there are none."""
    try:
        parent = open_parent(root)
        try:
            fd = open_dir(os.path.basename(root) or ".", parent)
        finally:
            os.close(parent)
    except Refused as exc:
        yield f"the folder can't be opened ({exc.reason})"
        return
    try:
        git = find_git(root, fd, "") or find_bare(fd)
        store = GitStore.open(root, fd, git) if git else None
        yield store or "it is no repository, or its git data lies outside of the input"
    except Refused as exc:
        yield exc.detail or str(exc.reason)
    finally:
        os.close(fd)


def _ancestors(store: GitStore, oid: str, limits: HistoryLimits) -> set[str]:
    """`oid` and its ancestors, as many as the walk could meet."""
    return {commit.oid for commit in _by_time(store, oid, limits.max_commits * 2)} | {oid}


def _by_time(store: GitStore, head: str, limit: int) -> Iterator[Commit]:
    """Commits from `head` on, newest first; missing ones end their line."""
    seen = {head}
    heap: list[tuple[int, str, Commit]] = []
    _push(store, head, heap)
    while heap and limit > 0:
        commit = heapq.heappop(heap)[2]
        limit -= 1
        yield commit
        for parent in () if commit.oid in store.shallow else commit.parents:
            if parent not in seen:
                seen.add(parent)
                _push(store, parent, heap)


def _push(store: GitStore, oid: str, heap: list[tuple[int, str, Commit]]) -> None:
    try:
        commit = store.commit(oid)
    except (KeyError, ValueError):
        return
    heapq.heappush(heap, (-commit.time, oid, commit))


def _walk(
    store: GitStore,
    head: str,
    after: int | None,
    stop: set[str],
    paths: list[bytes],
    limits: HistoryLimits,
) -> History:
    found: list[CommitChange] = []
    left = limits.max_changes
    seen = 0
    missing = False
    for commit in _by_time(store, head, limits.max_commits):
        seen += 1
        if after is not None and commit.time < after:
            break
        if commit.oid in stop or len(commit.parents) > 1:
            continue
        try:
            files = _files(store, commit, paths, min(left, limits.max_files_per_commit), limits)
        except (KeyError, TooLargeError, DamagedError):
            missing = True
            continue
        if not files:
            continue
        left -= len(files)
        parent = commit.parents[0] if commit.parents and commit.oid not in store.shallow else ""
        stamp = datetime.fromtimestamp(commit.time, UTC).isoformat()[:19] + "Z"
        found.append(
            CommitChange(commit.oid, parent, stamp, commit.time, commit.author, commit.subject, files)
        )
        if left <= 0:
            break
    note = "objects are missing (a partial clone)" if missing else "a shallow clone" if store.shallow else ""
    return History(head, tuple(found), left <= 0 or seen >= limits.max_commits, note)


def _files(
    store: GitStore, commit: Commit, paths: list[bytes], most: int, limits: HistoryLimits
) -> tuple[FileChange, ...]:
    """The changed files of a commit; none for one that touches very many, or for a shallow boundary."""
    if commit.oid in store.shallow:
        return ()
    old = store.commit(commit.parents[0]).tree if commit.parents else ""
    changed = []
    for change in changed_files(store, old, commit.tree, paths):
        changed.append(change)
        if len(changed) > most:
            return ()
    return tuple(
        file_change(store, os.fsdecode(path), was, now, limits.max_blob_bytes) for path, was, now in changed
    )


def blob_at(store: GitStore, commit: str, path: str, limit: int) -> bytes:
    """A file as a commit has it.

    Raises:
        KeyError: the commit, a folder or the file isn't there, or it is no regular file.
        TooLargeError: it is over `limit` bytes.
    """
    oid = store.commit(commit).tree
    *folders, name = os.fsencode(path).split(b"/")
    for folder in folders:
        oid = next((entry.oid for entry in store.tree(oid) if entry.name == folder and entry.is_tree), "")
        if not oid:
            raise KeyError(path)
    entry = next((entry for entry in store.tree(oid) if entry.name == name and entry.is_file), None)
    if entry is None:
        raise KeyError(path)
    return store.blob(entry.oid, limit)
