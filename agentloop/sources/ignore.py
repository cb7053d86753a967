"""Which paths ignore files exclude: one `IgnoreFile` per folder, and the stack of them during a walk."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from agentloop.sources.ignore_patterns import Pattern, parse_line

IGNORE_FILES = frozenset({".gitignore", ".agentloopignore"})
MAX_IGNORE_BYTES = 4 << 20
MAX_PATTERNS = 50_000  # of one file; a hostile one must not make each path cost a second
_BATCH = 500  # alternatives in one expression


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The patterns of one file that apply below the folder `base` (`b""` or ending in a slash)."""

    base: bytes
    names: dict[bytes, list[int]]  # literal base name -> pattern numbers
    paths: dict[bytes, list[int]]  # literal path -> pattern numbers
    globs: tuple[tuple[int, re.Pattern[bytes], bool], ...]  # number, expression, on the base name
    any_name: tuple[re.Pattern[bytes], ...]
    any_path: tuple[re.Pattern[bytes], ...]
    patterns: tuple[Pattern, ...]

    def decide(self, path: bytes, name: bytes, is_dir: bool) -> bool | None:
        """True: ignored. False: a `!` pattern keeps it. None: no pattern matches. The last match wins."""
        below = path[len(self.base) :]
        found = [*self.names.get(name, ()), *self.paths.get(below, ())]
        by_name = any(regex.fullmatch(name) for regex in self.any_name)
        by_path = any(regex.fullmatch(below) for regex in self.any_path)
        if by_name or by_path:
            found += [
                number
                for number, regex, base_name in self.globs
                if (by_name if base_name else by_path) and regex.fullmatch(name if base_name else below)
            ]
        for number in sorted(found, reverse=True):
            pattern = self.patterns[number]
            if is_dir or not pattern.dirs_only:
                return not pattern.negated
        return None


def parse_ignore(data: bytes, base: bytes) -> IgnoreFile:
    """The rules of an ignore file whose folder is `base`."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    parsed = (parse_line(line.removesuffix(b"\r")) for line in lines)
    patterns = tuple(pattern for pattern in parsed if pattern is not None)[:MAX_PATTERNS]
    names: dict[bytes, list[int]] = {}
    paths: dict[bytes, list[int]] = {}
    globs: list[tuple[int, re.Pattern[bytes], bool]] = []
    for number, pattern in enumerate(patterns):
        if pattern.literal is not None:
            (names if pattern.base_name else paths).setdefault(pattern.literal, []).append(number)
        else:
            globs.append((number, re.compile(pattern.regex, re.DOTALL), pattern.base_name))
    return IgnoreFile(
        base,
        names,
        paths,
        tuple(globs),
        _union(regex.pattern for _, regex, base_name in globs if base_name),
        _union(regex.pattern for _, regex, base_name in globs if not base_name),
        patterns,
    )


def _union(expressions: Iterable[bytes]) -> tuple[re.Pattern[bytes], ...]:
    """Expressions that match where any of the given ones does: one test for the common miss."""
    every = list(expressions)
    batches = [every[n : n + _BATCH] for n in range(0, len(every), _BATCH)]
    return tuple(re.compile(b"|".join(b"(?:" + e + b")" for e in batch), re.DOTALL) for batch in batches)


@dataclass(frozen=True, slots=True)
class IgnoreStack:
    """The ignore files that apply in a folder, outermost first."""

    files: tuple[IgnoreFile, ...] = ()

    def push(self, file: IgnoreFile) -> IgnoreStack:
        """The stack of a folder that has an ignore file of its own."""
        return IgnoreStack((*self.files, file)) if file.patterns else self

    def decide(self, path: bytes, name: bytes, is_dir: bool) -> bool | None:
        """As `IgnoreFile.decide`; the innermost file that says something wins."""
        for file in reversed(self.files):
            decided = file.decide(path, name, is_dir)
            if decided is not None:
                return decided
        return None
