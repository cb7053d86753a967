"""What was searched and what was left out: exact counts in the pack, the whole list in an artifact."""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from json.encoder import encode_basestring_ascii as _string

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


def coverage_artifact(corpus: Corpus) -> bytes:
    """Every file that was searched and everything that was left out, with its reason, as JSON.

    Written by hand: there may be 200,000 files, and the encoder takes seven times as long.
    """
    indexed = ",".join(
        f'{{"input_id":{_string(file.input_id)},"path":{_string(file.path)},"size":{file.size},'
        f'"content_hash":{_string(file.content_hash)},"kind":"{file.kind.value}",'
        f'"language":{_string(file.language)}}}'
        for file in corpus.files
        if not file.historic
    )
    rest = {
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
    tail = json.dumps(rest, ensure_ascii=True, separators=(",", ":"))
    return f'{{"indexed":[{indexed}],{tail[1:]}\n'.encode("ascii")
