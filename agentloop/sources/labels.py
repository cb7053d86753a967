"""Classifications of paths: the caller's, the policy's default and its rules, whichever is highest."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from agentloop.request import Classification
from agentloop.sources.ignore import IgnoreFile, parse_ignore


@dataclass(frozen=True, slots=True)
class Labels:
    """The classification of each path of one input."""

    least: Classification
    rules: tuple[tuple[bool, IgnoreFile, Classification], ...]

    def of(self, path: str, absolute: str) -> Classification:
        """The highest of the input's own and of all rules that match the path or a folder above it."""
        found = self.least
        for rooted, rule, classification in self.rules:
            if classification.rank > found.rank and _matches(rule, absolute[1:] if rooted else path):
                found = classification
        return found


def make_labels(least: Classification, rules: Sequence[tuple[str, Classification]]) -> Labels:
    """Rules are globs in the syntax of `.gitignore`. One that begins with a slash is matched from the root
    of the file system, any other within each input."""
    parsed = [(glob.startswith("/"), parse_ignore(os.fsencode(glob), b""), level) for glob, level in rules]
    return Labels(least, tuple(parsed))


def _matches(rule: IgnoreFile, path: str) -> bool:
    parts = os.fsencode(path).split(b"/")
    return any(
        rule.decide(b"/".join(parts[: n + 1]), parts[n], n + 1 < len(parts)) is True
        for n in range(len(parts))
    )
