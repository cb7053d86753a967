"""What was searched and what was left out: exact counts in the pack, the whole list in an artifact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentloop.config import Policy
from agentloop.pack import Coverage, SkippedExamples
from agentloop.redact_patterns import known_form
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
MAX_EXPECTED_EXAMPLES = 4  # of what nobody expects to be searched


def coverage(corpus: Corpus, policy: Policy, examples: int) -> Coverage:
    """Counts of the corpus, with at most `examples` paths a reason: folders first, then shallow paths."""
    by_reason: dict[SkipReason, list[Exclusion]] = {}
    for gone in corpus.excluded:
        by_reason.setdefault(gone.reason, []).append(gone)
    skipped = {
        str(reason): SkippedExamples(
            count=len(by_reason[reason]),
            examples=_examples(
                by_reason[reason], min(examples, MAX_EXPECTED_EXAMPLES) if reason in _EXPECTED else examples
            )
            if policy.allow_paths
            else (),
        )
        for reason in sorted(by_reason, key=_ORDER.index)
    }
    return Coverage(
        files_seen=len(corpus.files) + sum(not gone.is_dir for gone in corpus.excluded),
        files_indexed=len(corpus.files),
        bytes_indexed=sum(file.size for file in corpus.files),
        skipped=skipped,
        truncated=corpus.notes,
    )


def _examples(gone: Sequence[Exclusion], most: int) -> tuple[str, ...]:
    ordered = sorted(gone, key=lambda e: (not e.is_dir, e.path.count("/"), e.input_id, e.path))
    shown = [_name(e) for e in ordered if not known_form(e.path)]
    return tuple(shown[:most])


def _name(gone: Exclusion) -> str:
    path = gone.path or "."
    return f"{path.rstrip('/')}/" if gone.is_dir else path


def most_examples(corpus: Corpus) -> int:
    """How many exclusions the reason with the most has."""
    counts: dict[SkipReason, int] = {}
    for gone in corpus.excluded:
        counts[gone.reason] = counts.get(gone.reason, 0) + 1
    return max(counts.values(), default=0)


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
