"""The walk of one folder: regular files in path order, everything else as exclusions.

Folders are opened relative to their parent's descriptor and never through a link, so a folder that is
swapped for a link during the walk is skipped, not followed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from agentloop.config import InputPart
from agentloop.sources.git import meta as git_meta
from agentloop.sources.ignore import MAX_IGNORE_BYTES, IgnoreStack, parse_ignore
from agentloop.sources.languages import VCS_DIRS
from agentloop.sources.opening import Refused, open_dir, open_file, read_stable, refused
from agentloop.types import SkipReason


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file, by name in its folder; `dir_fd` is open only until the next file is asked for."""

    path: str
    folder: str
    name: str
    dir_fd: int


_LISTED = 100_000  # entries of one folder that are sorted before any is looked at

Exclude = Callable[[str, SkipReason, str, bool], None]
"""Called with path, reason, detail and is_dir for everything that is left out."""


@dataclass(slots=True)
class Repository:
    """A work tree met on the walk. The index is read when an ignored path is met, to see what is tracked."""

    root_fd: int
    folder: str
    git: git_meta.GitPaths
    _tracked: frozenset[bytes] | None = None

    def tracks(self, path: bytes) -> bool:
        """Whether git tracks `path`, or with a trailing slash anything below it."""
        if self._tracked is None:
            data = git_meta.read_below(self.root_fd, f"{self.git.own}/index", git_meta.MAX_INDEX_BYTES)
            self._tracked = git_meta.tracked_paths(data or b"")
        return path[len(self.prefix) :] in self._tracked

    @property
    def prefix(self) -> bytes:
        """The work tree's path with a trailing slash, empty for the root."""
        return os.fsencode(self.folder) + b"/" if self.folder else b""


@dataclass(frozen=True, slots=True)
class _Rules:
    """What holds in a folder: git's rules, ours, its work tree. `dropped`: only tracked files count."""

    git: IgnoreStack = field(default_factory=IgnoreStack)
    own: IgnoreStack = field(default_factory=IgnoreStack)
    repository: Repository | None = None
    dropped: bool = False

    @property
    def any(self) -> bool:
        """Whether something may be left out here."""
        return bool(self.git.files or self.own.files or self.dropped)


@dataclass(frozen=True, slots=True)
class _Folder:
    """One open folder of the walk."""

    path: str
    fd: int
    entries: Iterator[os.DirEntry[str]]
    rules: _Rules


@dataclass(slots=True)
class Walk:
    """Walks the open folder `root_fd`, whose absolute path is `root`. `stop()` ends it at a limit."""

    root: str
    root_fd: int
    max_depth: int
    max_entries: int
    exclude: Exclude
    part: InputPart | None = None  # only these paths; what is left out is told by the part that holds it
    repositories: list[Repository] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)  # work trees whose git data isn't in the input
    stopped: SkipReason | None = None
    _seen: int = 0

    def stop(self, reason: SkipReason) -> None:
        """End the walk after the current file; the rest is one exclusion."""
        self.stopped = reason

    def files(self) -> Iterator[Found]:
        """Regular files that no rule excludes, in the order of their paths."""
        stack = [self._enter("", os.dup(self.root_fd), _Rules())]
        try:
            while stack:
                folder = stack[-1]
                if self.stopped:
                    self.exclude(folder.path, self.stopped, "the walk stopped here", True)
                    return
                entry = next(folder.entries, None)
                if entry is None:
                    os.close(stack.pop().fd)
                    continue
                below = self._visit(entry, folder, len(stack))
                if isinstance(below, Found):
                    yield below
                elif below is not None:
                    stack.append(below)
        finally:
            for folder in stack:
                os.close(folder.fd)

    def _visit(self, entry: os.DirEntry[str], folder: _Folder, depth: int) -> Found | _Folder | None:
        name = entry.name
        path = f"{folder.path}/{name}" if folder.path else name
        self._seen += 1
        if self._seen > self.max_entries:
            self.stop(SkipReason.FILE_LIMIT)
            return None
        is_dir, is_file, is_link = _type_of(entry)
        if self.part is not None and not self._mine(path, is_dir):
            return None
        if name in VCS_DIRS and (is_dir or name == ".git"):
            self._leave_out(path, SkipReason.VCS, "", is_dir)
            return None
        ignored = dropped = False
        if folder.rules.any:
            ignored, dropped = self._ignored(folder.rules, os.fsencode(path), os.fsencode(name), is_dir)
        if ignored:
            self._leave_out(path, SkipReason.IGNORED, "", is_dir)
        elif is_link:
            self._leave_out(path, SkipReason.SYMLINK, "", False)
        elif is_file:
            return Found(path, folder.path, name, folder.fd)
        elif not is_dir:
            self._leave_out(path, SkipReason.SPECIAL_FILE, "", False)
        elif depth > self.max_depth:
            self._leave_out(path, SkipReason.DEPTH_LIMIT, f"deeper than {self.max_depth} folders", True)
        else:
            return self._descend(name, path, folder, dropped)
        return None

    def _mine(self, path: str, is_dir: bool) -> bool:
        """Whether the walk's part holds the path, or may hold some below it."""
        assert self.part is not None  # noqa: S101 - asked only where there is one
        return self.part.reaches(f"{path}/") if is_dir else self.part.holds(path)

    def _leave_out(self, path: str, reason: SkipReason, detail: str, is_dir: bool) -> None:
        """Tell an exclusion, unless another part of the folder holds it and tells it."""
        if self.part is None or self.part.holds(f"{path}/" if is_dir and path else path):
            self.exclude(path, reason, detail, is_dir)

    def _ignored(self, rules: _Rules, path: bytes, name: bytes, is_dir: bool) -> tuple[bool, bool]:
        """Whether the entry is left out, and whether only tracked files below it count."""
        own = rules.own.decide(path, name, is_dir)
        if own is not None:
            return own, False
        if not (rules.dropped or rules.git.decide(path, name, is_dir)):
            return False, False
        tracked = rules.repository is not None and rules.repository.tracks(path + b"/" if is_dir else path)
        return not tracked, is_dir and tracked

    def _descend(self, name: str, path: str, folder: _Folder, dropped: bool) -> _Folder | None:
        try:
            fd = open_dir(name, folder.fd)
        except Refused as exc:
            self._leave_out(path, exc.reason, exc.detail, True)
            return None
        return self._enter(path, fd, replace(folder.rules, dropped=dropped))

    def _enter(self, path: str, fd: int, rules: _Rules) -> _Folder:
        """List a folder and add its ignore files; a repository below starts with rules of its own."""
        entries = self._list(path, fd)
        names = {entry.name for entry in entries}
        base = os.fsencode(path) + b"/" if path else b""
        if ".git" in names:
            rules = self._repository_rules(path, base, rules)
        if ".gitignore" in names:
            git = rules.git.push(parse_ignore(_small_file(fd, ".gitignore"), base))
            rules = replace(rules, git=git)
        if ".agentloopignore" in names:
            own = rules.own.push(parse_ignore(_small_file(fd, ".agentloopignore"), base))
            rules = replace(rules, own=own)
        return _Folder(path, fd, iter(entries), rules)

    def _repository_rules(self, path: str, base: bytes, rules: _Rules) -> _Rules:
        found = git_meta.find_git(self.root, self.root_fd, path)
        if found:
            repository = Repository(self.root_fd, path, found)
            self.repositories.append(repository)
            excludes = git_meta.read_below(self.root_fd, f"{found.common}/info/exclude", MAX_IGNORE_BYTES)
            git = IgnoreStack().push(parse_ignore(excludes or b"", base))
            return _Rules(git, rules.own, repository)
        if git_meta.git_outside(self.root, self.root_fd, path):
            self.outside.append(path)
            return _Rules(own=rules.own)
        return rules

    def _list(self, path: str, fd: int) -> list[os.DirEntry[str]]:
        entries: list[os.DirEntry[str]] = []
        try:
            with os.scandir(fd) as listing:
                for entry in listing:
                    entries.append(entry)
                    if len(entries) > max(self.max_entries, _LISTED):
                        break  # `_visit` counts them and stops
        except OSError as exc:
            skip = refused(exc)
            self._leave_out(path, skip.reason, skip.detail, True)
        entries.sort(key=_order)
        return entries


def _order(entry: os.DirEntry[str]) -> str:
    """Folders sort with their slash, so that a walk gives whole paths in order."""
    try:
        return entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name
    except OSError:
        return entry.name


def _type_of(entry: os.DirEntry[str]) -> tuple[bool, bool, bool]:
    """Whether the entry is a folder, a regular file, a symbolic link."""
    try:
        return entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False), entry.is_symlink()
    except OSError:
        return False, True, False  # gone: opening it will say so


def _small_file(fd: int, name: str) -> bytes:
    """An ignore file's bytes; a link, as git has it since 2.32, or anything unreadable has no rules."""
    try:
        file_fd, status = open_file(name, fd)
    except Refused:
        return b""
    try:
        return (
            read_stable(file_fd, status, MAX_IGNORE_BYTES)[0] if status.st_size <= MAX_IGNORE_BYTES else b""
        )
    except Refused:
        return b""
    finally:
        os.close(file_fd)
