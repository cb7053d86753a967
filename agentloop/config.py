"""Limits and policy of the engine, as values. The composition root fills them from settings."""

from __future__ import annotations

from dataclasses import dataclass

from agentloop.request import Classification

MIB = 1 << 20
GIB = 1 << 30


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
