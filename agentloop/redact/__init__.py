"""What text loses before it leaves: secrets, patient data, control characters; and what it is flagged for.

Three layers. A cheap prefilter of regular expressions decides whether text may hold a secret at all. Our own
patterns cover what logs and prose carry (connection strings, assignments, bearer tokens, PEM blocks and
their base64 lines); detect-secrets' detectors, loaded only when the prefilter fires, cover the rest.
Secrets seen in a source are remembered, so that a copy that was split by blanks, line ends or invisible
characters is found as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from agentloop.redact.controls import INVISIBLE, neutralise, one_line, visible
from agentloop.redact.injection import instruction_like
from agentloop.redact.patterns import phi_spans, secret_spans

__all__ = ["MASK", "Cleaned", "Redactor", "instruction_like", "neutralise", "one_line", "redact", "visible"]

MASK = "[redacted]"
MIN_REMEMBERED = 8  # shorter values are words: remembering them would mask ordinary text
MOST_SEEN = 2_000  # texts whose secrets are remembered by their places
PIECE = 8  # so many characters of a remembered secret are a leak


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Text that may leave, how many secrets were masked, and the flags of what was in it.

    Flags: `control_chars` (ANSI, C0, C1), `bidi`, `invisible` (zero width), `instruction_like`.
    """

    text: str
    secrets: int = 0
    flags: tuple[str, ...] = ()


@dataclass(slots=True)
class Redactor:
    """Cleans texts of one request and remembers the secrets that its sources hold."""

    phi: bool = False
    _known: dict[str, None] = field(default_factory=dict)
    _pieces: set[str] = field(default_factory=set)
    _seen: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def learn(self, text: str) -> int:
        """Remember the secrets of a source text; their number."""
        spans = self._spans(text)
        for start, end in spans:
            value = "".join(c for c in text[start:end] if not _separates(c))
            if len(value) < MIN_REMEMBERED or not _telling(value):
                continue
            self._known.setdefault(value)
            grams = (value[n : n + PIECE] for n in range(len(value) - PIECE + 1))
            self._pieces.update(gram for gram in grams if _telling(gram))
        return len(spans)

    def clean(self, text: str) -> Cleaned:
        """`text` without secrets and control characters. Lone surrogates stay: they are file names."""
        masked, count = _mask(text, self._spans(text) + self._copies(text))
        shown, flags = visible(masked)
        if instruction_like(text):
            flags = (*flags, "instruction_like")
        again, more = _mask(shown, self._spans(shown)) if shown != masked else (shown, 0)
        return Cleaned(again, count + more, flags)

    def mask(self, text: str) -> str:
        """`text` with its secrets masked and everything else as it is."""
        return _mask(text, self._spans(text) + self._copies(text))[0]

    def mask_json(self, value: Any) -> Any:
        """JSON values with the secrets of every string masked, keys as they are."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {key: self.mask_json(member) for key, member in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.mask_json(member) for member in value]
        return value

    def leaks(self, text: str) -> bool:
        """Whether a text still holds a secret by any pattern, or one of the remembered ones."""
        return bool(self._spans(text) or self._copies(text))

    def _spans(self, text: str) -> list[tuple[int, int]]:
        known = self._seen.get(
            text
        )  # a source is learnt and then cleaned, a claim is cleaned and then verified
        if known is None:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            known = self._seen[text] = tuple(self._look(text))
        return list(known)

    def _look(self, text: str) -> list[tuple[int, int]]:
        found = _seen_through(text, secret_spans)
        if self.phi:
            found += _seen_through(text, phi_spans)
        return [(start, end) for start, end in found if text[start:end].strip(_AROUND_MASK) != _BARE_MASK]

    def _copies(self, text: str) -> list[tuple[int, int]]:
        """Places of remembered secrets: whole, split by blanks or invisible characters, or pieces of them."""
        if not self._known or len(text) < MIN_REMEMBERED:
            return []
        places = [n for n, c in enumerate(text) if not _separates(c)]
        squeezed = "".join(text[n] for n in places)
        found = []
        for value in self._known:
            start = squeezed.find(value)
            while start >= 0:
                found.append((places[start], places[start + len(value) - 1] + 1))
                start = squeezed.find(value, start + 1)
        for start in range(len(squeezed) - PIECE + 1):
            if squeezed[start : start + PIECE] in self._pieces:
                found.append((places[start], places[start + PIECE - 1] + 1))
        return found


def redact(text: str, *, phi: bool = False) -> Cleaned:
    """Clean one text on its own, for error messages and logs."""
    return Redactor(phi).clean(text)


_HIDDEN = re.compile(f"[{INVISIBLE}]")
_BARE_MASK = MASK.strip("[]")
_AROUND_MASK = "[]()<>'\"`.,;: \n"


def _seen_through(text: str, spans: Callable[[str], list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Spans in a text as it is, and as it reads without its invisible characters."""
    found = spans(text)
    if not text.isascii() and _HIDDEN.search(text):
        places = [n for n, c in enumerate(text) if not _HIDDEN.match(c)]
        bare = "".join(text[n] for n in places)
        found += [(places[start], places[end - 1] + 1) for start, end in spans(bare)]
    return found


def _separates(char: str) -> bool:
    """Whether a character may split a secret without changing how it reads."""
    return char.isspace() or (not char.isascii() and _HIDDEN.match(char) is not None)


def _telling(value: str) -> bool:
    """Whether a value is so unlike a word that finding it again means that it was copied."""
    digits = sum(c.isdigit() for c in value)
    kinds = (any(c.islower() for c in value), any(c.isupper() for c in value), digits > 0)
    return sum(kinds) >= 2 and 0 < digits < len(value) and not value.isspace()


def _mask(text: str, spans: Iterable[tuple[int, int]]) -> tuple[str, int]:
    """Text with each span, overlapping ones as one, replaced by the mask; the number of masks."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    parts, at = [], 0
    for start, end in merged:
        parts += [text[at:start], MASK]
        at = end
    return "".join([*parts, text[at:]]), len(merged)
