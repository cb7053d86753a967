"""Stage 1: from the inputs of a request to a corpus of files with hashes, and a list of what was left out."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from agentloop.budget import Ledger
from agentloop.config import Caps, Policy
from agentloop.errors import Stage
from agentloop.request import Classification, CompressRequest, InputRef, InputType
from agentloop.sources.git import meta as git_meta
from agentloop.sources.git.bare import commit_files
from agentloop.sources.git.store import GitStore
from agentloop.sources.labels import make_labels
from agentloop.sources.manifest import corpus_hash
from agentloop.sources.opening import Refused, open_dir, open_parent
from agentloop.sources.reader import Allowance, Known, LaterError, Reader
from agentloop.sources.records.slack import with_names
from agentloop.sources.report import check_declared, nothing_left, refusal, warn_of, warn_of_notes
from agentloop.sources.stdin import read_stdin
from agentloop.sources.uri import absolute_path, path_error
from agentloop.sources.walk import Exclude, Found, Walk
from agentloop.types import Corpus, Exclusion, InputInfo, SkipReason, SourceFile


def discover(
    request: CompressRequest,
    caps: Caps,
    policy: Policy,
    ledger: Ledger,
    *,
    stdin: BinaryIO | None = None,
    known: Known | None = None,
    read: Callable[[SourceFile], None] | None = None,
) -> Corpus:
    """Everything that the request's inputs hold, in the order of inputs and then of paths.

    Each file is opened once and read once. Links and special files are never followed. What is left out
    is an exclusion with its reason. A file that `known` recognises by its open descriptor is not read again.
    `read` is given each file of a folder as soon as it was read; a few of them may be told otherwise later.

    Raises:
        AgentloopError: INPUT_DISCOVERY_FAILED (a path that is not allowed, missing or unreadable, or
            nothing left to index), INPUT_HASH_MISMATCH (a declared hash is not that of the input).
    """
    # all paths are judged before the first one is opened
    targets = [target_of(ref, f"in{n}", policy) for n, ref in enumerate(request.input_refs, 1)]
    allowance = Allowance(caps.max_files, caps.max_total_bytes, caps.max_record_chars)
    job = _Discovery(caps, policy, allowance, known=known, read=read)
    for number, (ref, target) in enumerate(zip(request.input_refs, targets, strict=True), 1):
        if target is None:
            job.add_stdin(ref, f"in{number}", stdin)
        else:
            job.add_path(ref, f"in{number}", *target)
    files = tuple(file if file.index == n else replace(file, index=n) for n, file in enumerate(job.files))
    ledger.add(
        Stage.DISCOVERY,
        files=len(files),
        bytes=sum(file.size for file in files),
        skipped=len(job.excluded),
    )
    if not files:
        raise nothing_left(job.inputs, job.excluded)
    for code, message in [*warn_of(job.excluded), *warn_of_notes(job.notes)]:
        ledger.warn(code, message, Stage.DISCOVERY)
    return Corpus(tuple(job.inputs), files, tuple(job.excluded), tuple(dict.fromkeys(job.notes)))


def target_of(ref: InputRef, input_id: str, policy: Policy) -> tuple[str, str] | None:
    """The input's absolute path and the allowed root that it lies in ("/" without policy); None: stdin."""
    if ref.type is InputType.STDIN or ref.uri == "-":
        return None
    path = absolute_path(ref.uri, input_id)
    if policy.allowed_roots is None:
        return path, "/"
    for root in policy.allowed_roots:
        for form in dict.fromkeys((os.path.normpath(root), os.path.realpath(root))):
            if path == form or path.startswith(form.rstrip("/") + "/"):
                return path, form
    raise path_error(
        input_id, "path_not_allowed", "the path lies outside of the folders that the operator allows."
    )


@dataclass(slots=True)
class _Discovery:
    """What has been found so far."""

    caps: Caps
    policy: Policy
    allowance: Allowance
    known: Known | None = None
    read: Callable[[SourceFile], None] | None = None
    inputs: list[InputInfo] = field(default_factory=list)
    files: list[SourceFile] = field(default_factory=list)
    excluded: list[Exclusion] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add_stdin(self, ref: InputRef, input_id: str, stdin: BinaryIO | None) -> None:
        """Read standard input to its end or its cap."""
        if stdin is None:
            raise path_error(input_id, "no_stdin", "there is no standard input to read here.")
        reader = self._reader(ref, input_id, "-", named=True)
        found: list[SourceFile] = []
        try:
            found = [read_stdin(reader, stdin)]
        except Refused as exc:
            self._exclude(input_id, "-", exc.reason, exc.detail, False)
        self.notes += reader.notes
        self._finish(ref, input_id, "-", found, is_dir=False)

    def add_path(self, ref: InputRef, input_id: str, path: str, trusted: str) -> None:
        """Read the file or walk the folder at `path`."""
        name = os.path.basename(path)
        try:
            parent = open_parent(path, trusted)
        except Refused as exc:
            raise refusal(input_id, path, exc) from None
        try:
            fd = try_dir(path, name, parent, trusted)
            if fd is not None:
                self._walk(ref, input_id, path, fd)
                return
            reader = self._reader(ref, input_id, path, named=True)
            found: list[SourceFile] = []
            try:
                # the caller named this file: under a policy another name of it may lie outside the roots
                found = reader.read_all("", name, parent, all_links=self.policy.allowed_roots is None)
            except LaterError:
                self._exclude(input_id, name, SkipReason.HARD_LINK, "it has other names", False)
            except Refused as exc:
                if exc.reason in (SkipReason.VANISHED, SkipReason.SYMLINK, SkipReason.SPECIAL_FILE):
                    raise refusal(input_id, path, exc) from None
                self._exclude(input_id, name, exc.reason, exc.detail, False)
            self._members_left(reader)
            self.notes += reader.notes
            self._finish(ref, input_id, path, found, is_dir=False)
        finally:
            os.close(parent)

    def _reader(self, ref: InputRef, input_id: str, root: str, *, named: bool) -> Reader:
        least = ref.classification or self.policy.default_classification
        labels = make_labels(least, self.policy.classification_rules)
        return Reader(input_id, ref.type, root, self.caps, labels, self.allowance, named, self.known)

    def _exclude(self, input_id: str, path: str, reason: SkipReason, detail: str, is_dir: bool) -> None:
        self.excluded.append(Exclusion(input_id, path, reason, detail, is_dir))

    def _walk(self, ref: InputRef, input_id: str, path: str, fd: int) -> None:
        def exclude(where: str, reason: SkipReason, detail: str, is_dir: bool) -> None:
            self._exclude(input_id, where or ".", reason, detail, is_dir)

        reader = self._reader(ref, input_id, path, named=False)
        bare = git_meta.find_bare(fd)
        if bare:
            try:
                self._commit(ref, reader, GitStore.open(path, fd, bare), exclude)
            finally:
                os.close(fd)
            return
        part = self.caps.part(len(self.inputs))
        walk = Walk(path, fd, self.caps.max_depth, self.caps.max_entries, exclude, part)
        try:
            found = self._read(walk, reader)
            commit, tree = _repository_state(walk)
        finally:
            os.close(fd)
        self.notes += reader.notes
        for outside in walk.outside:
            self.notes.append(
                f"{input_id}: the git data of `{outside or '.'}` lies outside of the input and is not read."
            )
        self._finish(ref, input_id, path, found, is_dir=True, commit=commit, tree=tree)

    def _commit(self, ref: InputRef, reader: Reader, store: GitStore, exclude: Exclude) -> None:
        """Read a bare repository: the files of the commit that HEAD names.

        Raises:
            AgentloopError: INPUT_DISCOVERY_FAILED; HEAD names no commit that it holds.
        """
        head = git_meta.head_commit(store.root_fd, store.git)
        try:
            commit = store.commit(head) if head else None
        except KeyError:
            commit = None
        if commit is None:
            raise path_error(reader.input_id, "no_commit", "the bare repository holds no commit at its HEAD.")
        found = commit_files(store, commit, reader, exclude)
        self.notes += reader.notes
        self._finish(
            ref, reader.input_id, store.root, found, is_dir=True, commit=commit.oid, tree=commit.tree
        )

    def _read(self, walk: Walk, reader: Reader) -> list[SourceFile]:
        """Read what the walk finds, then the files with several names whose names all lie in the input."""
        later: list[tuple[Found, LaterError]] = []
        found: list[SourceFile] = []
        for place in walk.files():
            if self.allowance.files <= 0:
                walk.exclude(place.path, SkipReason.FILE_LIMIT, "", False)
                walk.stop(SkipReason.FILE_LIMIT)
                continue
            try:
                files = reader.read_all(place.folder, place.name, place.dir_fd)
                found += files
                if self.read is not None:
                    for file in files:
                        self.read(file)
            except LaterError as exc:
                later.append((place, exc))
            except Refused as exc:
                walk.exclude(place.path, exc.reason, exc.detail, False)
        for place, link in later:
            if reader.links[link.device, link.inode] < link.names:
                walk.exclude(place.path, SkipReason.HARD_LINK, "it has names outside of the input", False)
                continue
            try:
                found += _read_again(walk.root_fd, place, reader)
            except Refused as exc:
                walk.exclude(place.path, exc.reason, exc.detail, False)
        self._members_left(reader)
        return sorted(found, key=lambda file: os.fsencode(file.path)) if later else found

    def _members_left(self, reader: Reader) -> None:
        for path, reason, detail in reader.members_left:
            self._exclude(reader.input_id, path, reason, detail, False)

    def _finish(
        self,
        ref: InputRef,
        input_id: str,
        root: str,
        found: list[SourceFile],
        *,
        is_dir: bool,
        commit: str = "",
        tree: str = "",
    ) -> None:
        """Hash the input, compare with what the caller declared, and keep it."""
        digest = found[0].ref_hash if found and not is_dir else corpus_hash(found)
        if found:
            check_declared(ref, input_id, digest)
        least = ref.classification or self.policy.default_classification
        classification: Classification = max(
            [least, *(f.classification for f in found)], key=lambda c: c.rank
        )
        self.inputs.append(
            InputInfo(input_id, ref.type, ref.role, root, is_dir, digest, classification, commit, tree)
        )
        self.files += with_names(found) if is_dir or len(found) > 1 else found


def try_dir(path: str, name: str, parent: int, trusted: str) -> int | None:
    """A descriptor of the input when it is a folder, None when it is anything else but a link."""
    if path == trusted:  # the operator named it: it may be a link
        try:
            return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None
    try:
        return open_dir(name, parent)
    except Refused:
        return None  # reading it as a file tells the reason


def _read_again(root_fd: int, place: Found, reader: Reader) -> list[SourceFile]:
    """Read a file of the walk after the walk, every folder opened anew without following links."""
    fd = os.dup(root_fd)
    try:
        for part in place.folder.split("/") if place.folder else []:
            below = open_dir(part, fd)
            os.close(fd)
            fd = below
        return reader.read_all(place.folder, place.name, fd, all_links=True)
    finally:
        os.close(fd)


def _repository_state(walk: Walk) -> tuple[str, str]:
    """Commit and tree of the work tree at the root, "" where there is none or it isn't readable."""
    for repository in walk.repositories:
        if not repository.folder:
            commit = git_meta.head_commit(walk.root_fd, repository.git)
            try:
                store = GitStore.open(walk.root, walk.root_fd, repository.git)
                return commit, store.commit(commit).tree if commit else ""
            except (KeyError, Refused):
                return commit, ""
    return "", ""
