"""Which lines of a huge log say something new, at the speed of `bytes.translate` and `set`.

A line's key is the line without digits. Where that leaves too many distinct lines (random hex ids), the
letters a to f go too: keys are never shown, so that a coarse one costs nothing but rare collisions.
"""

from __future__ import annotations

import re

_DIGITS = b"0123456789"
_HEX = b"0123456789abcdefABCDEF"
MAX_KEYS = 200_000  # about 30 MB of keys
MANY_NEW = 2000  # new keys in a block, and more than a fifth of its lines: ids stand in the lines
ERROR_LOOK = 400  # bytes of a line in which an error word is sought
EXAMPLES = 3  # lines told of one error template before it counts as known
_ERROR = re.compile(
    rb"(?i:error|exception|fatal|panic|fail|critical|severe|abort|killed|refused|denied|timed? ?out)"
)


class Novelty:
    """Keys of the lines seen so far, and how often each kind of error was told."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._errors: dict[bytes, int] = {}
        self._drop = _DIGITS

    def offsets(self, data: bytes) -> list[int]:
        """Offsets of the lines in `data` with a template that is new, or an error not yet well known."""
        keys = data.translate(None, self._drop).split(b"\n")
        new = set(keys) - self._seen
        if self._drop is _DIGITS and len(new) > max(MANY_NEW, len(keys) // 5):
            self._drop = _HEX
            self._seen = {key.translate(None, _HEX) for key in self._seen}
            self._errors = {}
            return self.offsets(data)
        lines = data.split(b"\n")
        shown = dict(zip(keys, lines, strict=True))  # one line of each kind
        errors = {key for key, line in shown.items() if _ERROR.search(line[:ERROR_LOOK])}
        watched = new | {key for key in errors if self._errors.get(key, 0) < EXAMPLES}
        if not watched:
            return []
        if len(self._seen) < MAX_KEYS:
            self._seen |= new
        return self._found(keys, lines, watched, errors)

    def _found(
        self, keys: list[bytes], lines: list[bytes], watched: set[bytes], errors: set[bytes]
    ) -> list[int]:
        """Offsets of the first few lines of each watched key."""
        found: list[int] = []
        at = 0
        left = dict.fromkeys(watched, EXAMPLES)
        for key, line in zip(keys, lines, strict=True):
            if left.get(key, 0):
                left[key] -= 1
                found.append(at)
            at += len(line) + 1
        for key in errors & watched:
            self._errors[key] = self._errors.get(key, 0) + EXAMPLES - left[key]
        return found
