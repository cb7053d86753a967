"""What a task gives: drafts of evidence, best first, and the fields of its own that refer to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentloop.compress import Details
from agentloop.types import Corpus, Draft, SourceFile


@dataclass(frozen=True, slots=True)
class TaskEvidence:
    """Drafts in the order of the evidence, and what makes `payload.details`."""

    drafts: Sequence[Draft]
    details: Details | None = None
    answer: Sequence[tuple[str, Sequence[Draft]]] = ()  # sentences, each with the drafts it rests on
    artifacts: Mapping[str, bytes] = field(default_factory=dict)  # further local artifacts by file name
    history: tuple[SourceFile, ...] = ()  # earlier versions that drafts cite, behind the corpus's own files


def with_history(corpus: Corpus, history: Sequence[SourceFile]) -> Corpus:
    """The corpus that the places of drafts refer to: its own files, then the earlier versions."""
    return replace(corpus, files=(*corpus.files, *history)) if history else corpus
