"""What the loop's tools call, and what they get: searches and reads within one job's index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Passage:
    """One result of `search_data`: what a model sees of a chunk."""

    ref: str  # c12: short, stable in a job
    scope: str
    path: str
    line_start: int
    line_end: int
    score: float
    snippet: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Results of one search. `near` says how they were found when nothing matched as asked."""

    passages: Sequence[Passage]
    near: str = ""  # "", "case-folded", "stemmed", "fragment"


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Text of one ref with its line numbers, and the refs next to it."""

    ref: str
    scope: str
    path: str
    line_start: int
    line_end: int
    text: str
    truncated: bool
    before: str = ""
    after: str = ""


class Searcher(Protocol):
    """What the loop's tools call: one job's index and nothing else."""

    def search(self, query: str) -> SearchResult:
        """The top passages for a query."""
        ...

    def read(self, ref: str) -> ReadResult:
        """The text of a ref that this job knows.

        Raises:
            KeyError: the ref is not one of this job's.
        """
        ...
