"""What was searched and what was left out: exact counts in the pack, the whole list in an artifact."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from agentloop.config import Policy
from agentloop.pack import Coverage, SkippedExamples
from agentloop.redact.patterns import known_form
from agentloop.types import Corpus, Exclusion, SkipReason

# What a reader most needs to know comes first: trouble, then limits, then what was left out on purpose.
_ORDER = (
    SkipReason.UNREADABLE,
    SkipReason.CHANGED,
    SkipReason.VANISHED,
    SkipReason.MALFORMED,
    SkipReason.BOMB,
    SkipReason.TOO_LARGE,
    SkipReason.FILE_LIMIT,
    SkipReason.BYTE_LIMIT,
    SkipReason.DEPTH_LIMIT,
    SkipReason.SYMLINK,
    SkipReason.HARD_LINK,
    SkipReason.SPECIAL_FILE,
    SkipReason.IGNORED,
    SkipReason.BINARY,
    SkipReason.FILTERED,
    SkipReason.EMPTY,
    SkipReason.VCS,
)


_EXPECTED = frozenset(_ORDER[_ORDER.index(SkipReason.IGNORED) :])
MAX_EXAMPLES = 12
MAX_EXPECTED_EXAMPLES = 4  # of what nobody expects to be searched


class CoverageAccount:
    """Counts of a corpus, made once; `shown` gives them with as many examples as there is room for."""

    def __init__(self, corpus: Corpus, policy: Policy) -> None:
        by_reason: dict[SkipReason, list[Exclusion]] = {}
        for gone in corpus.excluded:
            by_reason.setdefault(gone.reason, []).append(gone)
        self._counts = {reason: len(by_reason[reason]) for reason in sorted(by_reason, key=_ORDER.index)}
        self._examples = {
            reason: _examples(gone, MAX_EXPECTED_EXAMPLES if reason in _EXPECTED else MAX_EXAMPLES)
            if policy.allow_paths
            else ()
            for reason, gone in by_reason.items()
        }
        searched = [file for file in corpus.files if not file.historic]
        self._files_seen = len(searched) + sum(not gone.is_dir for gone in corpus.excluded)
        self._files_indexed = len(searched)
        self._bytes_indexed = sum(file.size for file in searched)
        self._truncated = corpus.notes

    @property
    def most_examples(self) -> int:
        """How many examples the reason with the most could show."""
        return max(map(len, self._examples.values()), default=0)

    def shown(self, examples: int) -> Coverage:
        """Exact counts, with at most `examples` paths a reason: folders first, then shallow paths."""
        return Coverage(
            files_seen=self._files_seen,
            files_indexed=self._files_indexed,
            bytes_indexed=self._bytes_indexed,
            skipped={
                str(reason): SkippedExamples(count=count, examples=self._examples[reason][:examples])
                for reason, count in self._counts.items()
            },
            truncated=self._truncated,
        )


def _examples(gone: Sequence[Exclusion], most: int) -> tuple[str, ...]:
    first = heapq.nsmallest(
        most * 2, gone, key=lambda e: (not e.is_dir, e.path.count("/"), e.input_id, e.path)
    )
    return tuple(_name(e) for e in first if not known_form(e.path))[:most]


def _name(gone: Exclusion) -> str:
    path = gone.path or "."
    return f"{path.rstrip('/')}/" if gone.is_dir else path


def coverage_artifact(corpus: Corpus) -> dict[str, Any]:
    """Every file that was searched and everything that was left out, with its reason."""
    return {
        "indexed": [
            {
                "input_id": file.input_id,
                "path": file.path,
                "size": file.size,
                "content_hash": file.content_hash,
                "kind": str(file.kind),
                "language": file.language,
            }
            for file in corpus.files
            if not file.historic
        ],
        "excluded": [
            {
                "input_id": gone.input_id,
                "path": gone.path,
                "reason": str(gone.reason),
                **({"detail": gone.detail} if gone.detail else {}),
                **({"is_dir": True} if gone.is_dir else {}),
            }
            for gone in corpus.excluded
        ],
        "notes": list(corpus.notes),
    }
