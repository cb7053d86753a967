"""What a task gives: drafts of evidence, best first, and the fields of its own that refer to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentloop.compress import Details
from agentloop.types import Draft


@dataclass(frozen=True, slots=True)
class TaskEvidence:
    """Drafts in the order of the evidence, and what makes `payload.details`."""

    drafts: Sequence[Draft]
    details: Details | None = None
    answer: Sequence[tuple[str, Sequence[Draft]]] = ()  # sentences, each with the drafts it rests on
    artifacts: Mapping[str, bytes] = field(default_factory=dict)  # further local artifacts by file name
