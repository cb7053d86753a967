"""Limits and policy of the engine, as values. The composition root fills them from settings."""

from __future__ import annotations

from dataclasses import dataclass

from agentloop.request import Classification

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class InputPart:
    """A part of one folder, for a shard: its paths from `first` on, up to but without `before`.

    Paths are compared as text, relative to the folder, a folder's own with a slash at its end: the order of
    a walk. Empty bounds are open, so that the parts of a folder hold whatever it holds when it is read.
    """

    input: int  # number of the input, from 0
    first: str = ""
    before: str = ""

    def holds(self, path: str) -> bool:
        """Whether a path belongs to this part."""
        return self.first <= path and (not self.before or path < self.before)

    def reaches(self, folder: str) -> bool:
        """Whether a path below `folder` (which ends with a slash) may belong to this part."""
        below = not self.first.startswith(folder) and folder < self.first
        return not below and (not self.before or folder < self.before)


@dataclass(frozen=True, slots=True)
class Caps:
    """How much of an input is read. Whatever a cap cuts off is named in the pack's coverage.

    Defaults are those of DESIGN: 10 MB a code or document file, 2 GiB and 200,000 files a request,
    20 million characters of records (the specification's cap), 8 GiB a log.
    """

    max_file_bytes: int = 10_000_000
    max_total_bytes: int = 2 * GIB
    max_files: int = 200_000
    max_depth: int = 200
    max_record_chars: int = 20_000_000
    max_log_bytes: int = 8 * GIB
    max_extracted_bytes: int = 64 * MIB
    stream_log_bytes: int = 16 * MIB  # a log above this is streamed, not held
    parse_seconds: float = 1.0  # tree-sitter, a file
    follow_hard_links: bool = False
    parts: tuple[InputPart, ...] = ()  # of a shard: the folders of which it reads a part only

    @property
    def max_entries(self) -> int:
        """Names in folders that are looked at before a walk gives up: five for each file it may read."""
        return self.max_files * 5

    def part(self, number: int) -> InputPart | None:
        """The part of an input (from 0) that is read; None: all of it."""
        return next((part for part in self.parts if part.input == number), None)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Bounds of one validation command, which runs on a throw-away copy without a network.

    `memory_mb` holds for the command's processes together, and for the copy and what it writes.
    """

    seconds: int = 120
    memory_mb: int = 2048
    processes: int = 256
    path: str = ""  # PATH of the commands; empty: the system's own folders


@dataclass(frozen=True, slots=True)
class Policy:
    """What may be read and what may leave. `mode` is named in packs and cache keys."""

    mode: str = "local_default"
    allowed_roots: tuple[str, ...] | None = None  # None: whatever the caller names (command line, library)
    default_classification: Classification = Classification.INTERNAL
    classification_rules: tuple[tuple[str, Classification], ...] = ()  # path glob -> at least this
    allow_excerpts: bool = True  # still needs include_inline_excerpts and an unprotected classification
    allow_diffs: bool = True  # a proposed diff in the pack; it is a local artifact in any case
    allow_paths: bool = True  # False: refs carry ids and hashes only
    cache_records: bool = False
    namespace: str = "local"
    sandbox: Sandbox | None = None  # None: validation commands are listed, never run
