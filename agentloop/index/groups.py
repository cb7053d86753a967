"""Runs of files that are indexed as one segment each, so that a changed file costs its run and no more.

Segments whose documents are all deleted are dropped by tantivy, so an index whose changed runs were
deleted and added anew has exactly the statistics, and gives exactly the scores, of one built afresh.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentloop.chunks import Chunks
from agentloop.types import Corpus, SourceFile

MOST_GROUPS = 6  # tantivy begins to merge at eight segments, and merged runs could not be told apart
SMALL_CHUNKS = 3000  # below, building everything takes less than 0.3 s
_POSITION_BITS = 32


Same = tuple[str, str, str, str, str]


def same(file: SourceFile) -> Same:
    """What two files share whose chunks and index documents are the same."""
    return (file.input_id, file.path, file.content_hash, file.kind, file.language)


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of each file, and the chunks `[starts[g], starts[g + 1])` of each group."""

    of_file: tuple[int, ...]
    starts: tuple[int, ...]

    def __len__(self) -> int:
        """Number of groups."""
        return len(self.starts) - 1

    def chunk(self, key: int) -> int:
        """The number of the chunk behind an index key."""
        return self.starts[key >> _POSITION_BITS] + (key & ((1 << _POSITION_BITS) - 1))

    def keys(self, group: int) -> range:
        """The index keys of a group's chunks, in order."""
        first = group << _POSITION_BITS
        return range(first, first + self.starts[group + 1] - self.starts[group])


def _with_starts(of_file: Sequence[int], chunks: Chunks, count: int) -> Groups:
    sizes = [0] * count
    for file, rows in chunks.runs():
        sizes[of_file[file]] += len(rows)
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + size)
    return Groups(tuple(of_file), tuple(starts))


def grouped(corpus: Corpus, chunks: Chunks, most: int) -> Groups:
    """Files in at most `most` runs of about the same number of bytes."""
    count = most if len(chunks) >= SMALL_CHUNKS else 1
    share = max(1, sum(file.size for file in corpus.files)) / count
    of_file, seen = [], 0
    for file in corpus.files:
        of_file.append(min(count - 1, int(seen / share)))
        seen += file.size
    return _with_starts(of_file, chunks, count)


def regrouped(before: Corpus, groups: Groups, corpus: Corpus, chunks: Chunks) -> tuple[Groups, list[int]]:
    """The groups of a later corpus, and which of them differ. A file that stayed keeps its group.

    A new file joins the group of the file before it, so that groups stay runs in the order of files.
    """
    if len(before.files) == len(
        corpus.files
    ):  # the usual edit: the same names, a few files with other content
        both = zip(before.files, corpus.files, strict=True)
        edited = [now for was, now in both if was is not now and same(was) != same(now)]
        if 2 * len(edited) < len(corpus.files):
            touched = sorted({groups.of_file[file.index] for file in edited})
            return _with_starts(groups.of_file, chunks, len(groups)), touched
    old = {same(file): groups.of_file[file.index] for file in before.files}
    members: list[list[Same]] = [[] for _ in range(len(groups))]
    for file in before.files:
        members[groups.of_file[file.index]].append(same(file))
    of_file: list[int] = []
    now: list[list[Same]] = [[] for _ in range(len(groups))]
    current = 0
    for file in corpus.files:
        current = max(current, old.get(same(file), current))
        of_file.append(current)
        now[current].append(same(file))
    changed = [g for g in range(len(groups)) if members[g] != now[g]]
    return _with_starts(of_file, chunks, len(groups)), changed
