"""The stages that don't depend on the question (discovery, chunks, index), kept for the next request.

`build` makes them, or makes them anew from an earlier build: a file whose identity is the same is not
read again, and only changed files are chunked again. The outcome is the same as without an earlier
build, byte for byte. What is kept lives in memory, in a process of its own namespace and inputs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agentloop.ahead import Ahead
from agentloop.budget import Ledger
from agentloop.chunking import chunk_corpus
from agentloop.chunks import Chunks
from agentloop.clock import Clock
from agentloop.config import Caps, Policy
from agentloop.errors import Stage, WarningCode
from agentloop.index.build import known_text
from agentloop.index.groups import Same, same
from agentloop.index.lexical import LexicalIndex
from agentloop.request import CompressRequest, InputRole, InputType
from agentloop.sources import discover
from agentloop.sources.renew import renewed
from agentloop.sources.report import check_declared
from agentloop.sources.snapshot import Snapshot, content_hash, identity, take
from agentloop.sources.uri import absolute_path
from agentloop.types import Corpus, FileKind, Memory, SourceFile

if TYPE_CHECKING:
    from agentloop.retrieval.tables import Tables

MOST_EDITED = 500
"""Files that are read again by themselves; after more (another branch) discovery looks at everything."""

Progress = Callable[[Stage, float], None]


@dataclass(frozen=True, slots=True)
class Warm:
    """Corpus, chunks (those that may become evidence) and their index, with what making them told.

    `layers` names what was taken over from the earlier build: `file_hash`, `chunks`, `index`.
    """

    corpus: Corpus
    chunks: Chunks
    index: LexicalIndex
    warnings: tuple[tuple[WarningCode, str, Stage], ...]
    counters: dict[str, dict[str, int]]
    snapshot: Snapshot | None
    layers: tuple[str, ...] = ()
    tables: Tables | None = None  # over the other three

    def tell(self, ledger: Ledger) -> None:
        """Put the warnings and counters of the kept stages into a request's ledger."""
        for warning in self.warnings:
            ledger.warn(*warning)
        for stage, counters in self.counters.items():
            ledger.add(Stage(stage), **counters)

    def check_declared(self, request: CompressRequest) -> None:
        """Compare the hashes that a request declares.

        Raises:
            AgentloopError: INPUT_HASH_MISMATCH.
        """
        for ref, info in zip(request.input_refs, self.corpus.inputs, strict=True):
            check_declared(ref, info.input_id, info.content_hash)

    def keepable(self, policy: Policy) -> bool:
        """Whether it may outlive its request in memory: held whole, and no input is a set of records.

        Records inside a folder (a mail among a repository's test data) don't make the folder one.
        """
        return self.snapshot is not None and keepable(self.corpus, policy)


def places(corpus: Corpus) -> Iterator[tuple[str, SourceFile]]:
    """Each file with its absolute path; members of an archive with that of the archive."""
    roots = {info.input_id: (info.root, info.is_dir) for info in corpus.inputs}
    for file in corpus.files:
        root, is_dir = roots[file.input_id]
        yield (f"{root}/{file.ref_path}" if is_dir else root), file


def keepable(corpus: Corpus, policy: Policy) -> bool:
    """Whether what was made of a corpus may be kept: it is held whole, and no input is a set of records."""
    named = {info.input_id for info in corpus.inputs if not info.is_dir}
    return all(
        isinstance(file.content, Memory)
        and (file.kind is not FileKind.RECORDS or policy.cache_records or file.input_id not in named)
        for file in corpus.files
    )


def cites_records(corpus: Corpus, released: Mapping[str, Any]) -> bool:
    """Whether the evidence of a pack over a corpus points into records."""
    records = {(f.input_id, f.ref_path) for f in corpus.files if f.kind is FileKind.RECORDS}
    refs = [ref for item in released["payload"]["evidence"] for ref in item["source_refs"]]
    # Where policy withholds paths, any record in the input counts.
    inputs = {input_id for input_id, _ in records}
    return any(
        (ref["input_id"], ref["path"]) in records if "path" in ref else ref["input_id"] in inputs
        for ref in refs
    )


def baselines(corpus: Corpus) -> frozenset[str]:
    """The inputs that others are compared with."""
    return frozenset(i.input_id for i in corpus.inputs if i.role is InputRole.BASELINE)


def primary(corpus: Corpus, chunks: Chunks) -> Chunks:
    """The chunks that may become evidence: baselines are compared with, never cited."""
    left_out = baselines(corpus)
    if not left_out:
        return chunks
    return chunks.without(lambda file: corpus.files[file].input_id in left_out)


def looked(kept: Warm, request: CompressRequest, caps: Caps) -> Snapshot | None:
    """The inputs of a kept corpus as they are now; None where that can't be told."""
    return snapshot_of(request, skipped(kept.corpus), caps.max_entries)


def current(kept: Warm, found: Snapshot | None) -> Warm | None:
    """`kept` with a new snapshot (`looked`), when the inputs are what they were; else None.

    Identities decide; a file that changed just before the earlier snapshot is read and hashed again.
    """
    if kept.snapshot is None or found is None or found.entries != kept.snapshot.entries:
        return None
    # the names in a folder are entries themselves, and they are the same
    racy = [path for path in kept.snapshot.racy() if not os.path.isdir(path)]
    files = dict(places(kept.corpus)) if racy else {}
    for path in racy:
        file = files.get(path)
        if file is None or content_hash(path) != file.ref_hash:
            return None
    return replace(kept, snapshot=found)


def build(
    request: CompressRequest,
    caps: Caps,
    policy: Policy,
    clock: Clock,
    *,
    kept: Warm | None = None,
    found: Snapshot | None = None,
    lasting: bool = False,
    progress: Progress = lambda stage, done: None,
    ahead: Ahead | None = None,
) -> Warm:
    """Discover, chunk and index the inputs of a request, reusing what an earlier build still has right.

    `found`: what `looked` saw just now. `lasting`: it is to be kept for later requests, so the index is made
    to be updated. `ahead`: a process that makes chunks of a first build.

    Declared hashes are not compared here: see `Warm.check_declared`.

    Raises:
        AgentloopError: as discovery and indexing.
    """
    ledger = Ledger(clock)
    progress(Stage.DISCOVERY, 0.0)
    # Before reading: what changes while we read differs from this, and is seen next time.
    skip = skipped(kept.corpus) if kept else frozenset[str]()
    snapshot = found or snapshot_of(request, skip, caps.max_entries)
    undeclared = request.model_copy(
        update={
            "input_refs": tuple(ref.model_copy(update={"content_hash": None}) for ref in request.input_refs)
        }
    )
    corpus = _edited(kept, snapshot, request, caps, policy, ledger) if kept and snapshot else None
    if corpus is None:
        corpus = discover(
            undeclared,
            caps,
            policy,
            ledger,
            known=_Known(kept) if kept else None,
            read=None if ahead is None else ahead.offer,
        )
        if ahead is not None:
            ahead.flush()
    layers = ["file_hash"] if kept else []
    progress(Stage.CHUNKING, 0.2)
    chunks, reused = _chunks(corpus, ledger, caps, kept, ahead)
    layers += ["chunks"] if reused else []
    progress(Stage.INDEXING, 0.3)
    chosen = primary(corpus, chunks)
    known = None if ahead is None else known_text(corpus, chosen, ahead.text)
    index = (
        kept.index.updated(kept.corpus, corpus, chosen)
        if kept is not None and reused
        else LexicalIndex(corpus, chosen, updatable=lasting, known=known)
    )
    tables: Tables | None = None
    if lasting:
        from agentloop.retrieval.tables import Tables

        tables = Tables(corpus, chosen, index)
        if kept is not None and kept.tables is not None and kept.tables.prepared:
            tables.prepare(kept.tables)  # of a first build whoever keeps it does that when there is time
    return Warm(
        corpus=corpus,
        chunks=chosen,
        index=index,
        warnings=tuple(ledger.warnings),
        counters=ledger.counters,
        snapshot=None if snapshot is None else snapshot.without(skipped(corpus)),
        layers=tuple(layers),
        tables=tables,
    )


def snapshot_of(request: CompressRequest, skip: frozenset[str], most: int) -> Snapshot | None:
    """The state of a request's inputs, without the folders in `skip`; None where it can't be told."""
    if any(ref.type is InputType.STDIN or ref.uri == "-" for ref in request.input_refs):
        return None
    return take([absolute_path(ref.uri, "input") for ref in request.input_refs], skip, most)


def skipped(corpus: Corpus) -> frozenset[str]:
    """Absolute paths of the folders that discovery did not enter; git's own folder is looked at apart."""
    roots = {info.input_id: info.root for info in corpus.inputs}
    return frozenset(
        f"{roots[left.input_id]}/{left.path}"
        for left in corpus.excluded
        if left.is_dir and os.path.basename(left.path) != ".git"
    )


def _edited(
    kept: Warm, now: Snapshot, request: CompressRequest, caps: Caps, policy: Policy, ledger: Ledger
) -> Corpus | None:
    """The kept corpus with its edited files read again, told as discovery tells it.

    None where names came or went, or anything but files of the corpus changed: git's state, what was left
    out, the rules of what is ignored.
    """
    if kept.snapshot is None:
        return None
    before, found = kept.snapshot.entries, now.without(skipped(kept.corpus)).entries
    if before.keys() != found.keys():
        return None
    files = dict(places(kept.corpus))
    edited: dict[str, list[str]] = {}
    for path in sorted({*kept.snapshot.racy(), *(p for p in found if found[p] != before[p])}):
        if path in files:
            edited.setdefault(files[path].input_id, []).append(files[path].path)
        elif not os.path.isdir(path) or "/.git/" in path:
            return None
    if sum(map(len, edited.values())) > MOST_EDITED:
        return None
    corpus = renewed(kept.corpus, edited, request, caps, policy)
    if corpus is not None:
        for warning in kept.warnings:
            if warning[2] is Stage.DISCOVERY:
                ledger.warn(*warning)
        size = sum(file.size for file in corpus.files)
        ledger.add(Stage.DISCOVERY, files=len(corpus.files), bytes=size, skipped=len(corpus.excluded))
    return corpus


class _Known:
    """Files of an earlier build, by absolute path and identity."""

    def __init__(self, kept: Warm) -> None:
        self._snapshot = kept.snapshot
        # Records, and text whose extractor had something to tell, are made again: notes and the
        # allowance of record text belong to one request.
        self._files = {
            (file.input_id, file.path): (place, file)
            for place, file in places(kept.corpus)
            if file.kind is not FileKind.RECORDS and not (file.derived and file.derived.notes)
        }

    def __call__(self, input_id: str, path: str, status: os.stat_result) -> SourceFile | None:
        """The file as it was read earlier, when its identity says that it is the same."""
        found = self._files.get((input_id, path))
        if found is None or self._snapshot is None:
            return None
        place, file = found
        return file if self._snapshot.steady(place, identity(status)) else None


def _chunks(
    corpus: Corpus, ledger: Ledger, caps: Caps, kept: Warm | None, ahead: Ahead | None
) -> tuple[Chunks, bool]:
    """Chunks of all files, and whether some were taken over. A build that warned is chunked anew, whole."""
    warned = kept is not None and any(stage is Stage.CHUNKING for _, _, stage in kept.warnings)
    if kept is None or warned or any(info.role is InputRole.BASELINE for info in corpus.inputs):
        known = None if ahead is None else ahead.chunks
        return chunk_corpus(corpus, ledger, caps, known=known), False
    if len(corpus.files) == len(kept.corpus.files):
        both = zip(corpus.files, kept.corpus.files, strict=True)
        other = [file for file, before in both if file is not before and same(file) != same(before)]
        if len(other) <= MOST_EDITED:  # the others are the same in the same places
            anew = {f.index: chunk_corpus(replace(corpus, files=(f,)), ledger, caps) for f in other}
            return kept.chunks.replaced(anew), True
    old = {same(file): file.index for file in kept.corpus.files}
    rows = dict(kept.chunks.runs())
    found = Chunks()
    for file, before in _with_earlier(corpus, old):
        if before is None:
            again = chunk_corpus(replace(corpus, files=(file,)), ledger, caps)
            found.extend(again, range(len(again)), file.index)
        elif before in rows:
            found.extend(kept.chunks, rows[before], file.index)
    return found, True


def _with_earlier(corpus: Corpus, old: dict[Same, int]) -> Iterator[tuple[SourceFile, int | None]]:
    """Each file with its index in the earlier build, None when it was read anew."""
    for file in corpus.files:
        yield file, old.get(same(file))
