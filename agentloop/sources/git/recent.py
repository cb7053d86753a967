"""Recent changes of a corpus in the lines of its files as they were read: commits and uncommitted edits."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha1

from agentloop.request import InputRole
from agentloop.sources.git.diff import FileChange, hunks, lines_of
from agentloop.sources.git.history import CommitChange, History, HistoryLimits, open_store, read_history
from agentloop.sources.git.store import GitStore
from agentloop.sources.git.touched import Touched, after_change, touched_lines
from agentloop.types import Corpus, FileKind, InputInfo, SourceFile

UNCOMMITTED = "uncommitted"
"""The subject of the change that stands for the work tree against HEAD; its `commit` is empty."""

_MAX_UNTRACKED = 200  # more new files than that are no change but a folder that git doesn't hold


@dataclass(frozen=True, slots=True)
class RecentChanges:
    """For each file index: lines that were changed since the time asked for, in order, by the newest change.

    `commits` are all commits looked at, newest first. `notes` say what of the history can't be read.
    """

    files: Mapping[int, tuple[Touched, ...]]
    commits: tuple[CommitChange, ...] = ()
    truncated: bool = False
    notes: tuple[str, ...] = ()


def recent_changes(
    corpus: Corpus,
    *,
    since: str = "",
    limits: HistoryLimits | None = None,
    now: datetime | None = None,
) -> RecentChanges:
    """The recent changes of all primary inputs that are work trees; `since` as in `history`.

    Raises:
        AgentloopError: REQUEST_INVALID; `since` names no commit of a repository.
    """
    limits = limits or HistoryLimits()
    now = now or datetime.now(UTC)
    files: dict[int, tuple[Touched, ...]] = {}
    commits: list[CommitChange] = []
    notes: list[str] = []
    truncated = False
    for info in corpus.inputs:
        if not info.commit or info.role is not InputRole.PRIMARY:
            continue
        with open_store(info.root) as store:
            if isinstance(store, str):
                notes.append(f"{info.input_id}: {store}")
                continue
            found = read_history(store, since, (), limits, now)
            files.update(_of_input(store, info, corpus, found, limits, now))
        commits += found.commits
        truncated = truncated or found.truncated
        if found.note:
            notes.append(f"{info.input_id}: {found.note}")
    commits.sort(key=lambda change: -change.seconds)  # of one second: as the walk met them, newest first
    return RecentChanges(files, tuple(commits), truncated, tuple(notes))


def _of_input(
    store: GitStore,
    info: InputInfo,
    corpus: Corpus,
    found: History,
    limits: HistoryLimits,
    now: datetime,
) -> Iterator[tuple[int, tuple[Touched, ...]]]:
    touched = touched_lines(found)
    tracked = dict(_tracked(store, found.head)) if found.head else {}
    own = [file for file in corpus.files if file.input_id == info.input_id and not file.commit]
    new = [file for file in own if os.fsencode(file.path) not in tracked]
    untracked = {file.index for file in new} if len(new) <= _MAX_UNTRACKED else set()
    uncommitted = CommitChange(
        "", found.head, now.isoformat()[:19] + "Z", int(now.timestamp()), "", UNCOMMITTED, ()
    )
    for file in own:
        spans = touched.get(file.path, ())
        if file.kind is not FileKind.LOG and file.size <= limits.max_blob_bytes and tracked:
            if file.index in untracked:
                lines = len(lines_of(file.content.read(0, file.size)))
                spans = (Touched(1, max(lines, 1), uncommitted),)
            else:
                spans = _with_edits(store, file, tracked.get(os.fsencode(file.path), ""), spans, uncommitted)
        if spans:
            yield file.index, spans


def _tracked(store: GitStore, head: str) -> Iterator[tuple[bytes, str]]:
    """Path and blob of each regular file of a commit; trees that are missing end there."""
    try:
        todo = [(b"", store.commit(head).tree)]
    except KeyError:
        return
    while todo:
        prefix, oid = todo.pop()
        try:
            entries = store.tree(oid)
        except KeyError:
            continue
        for entry in entries:
            if entry.is_tree:
                todo.append((prefix + entry.name + b"/", entry.oid))
            elif entry.is_file:
                yield prefix + entry.name, entry.oid


def _with_edits(
    store: GitStore, file: SourceFile, oid: str, spans: tuple[Touched, ...], uncommitted: CommitChange
) -> tuple[Touched, ...]:
    """The spans moved to the lines of the work tree, with what differs from HEAD."""
    data = file.content.read(0, file.size)
    if not oid or sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() == oid:
        return spans
    try:
        committed = store.blob(oid, len(data) * 8 + (1 << 20))
    except (KeyError, ValueError):
        return spans
    before, after = lines_of(committed), lines_of(data)
    if [line.rstrip(b"\r") for line in before] == [line.rstrip(b"\r") for line in after]:
        return spans  # line ends that git converts on checkout
    change = FileChange(file.path, oid, "work tree", tuple(hunks(before, after)))
    return tuple(after_change(spans, change, uncommitted))
