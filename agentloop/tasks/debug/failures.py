"""Failures that a log or a pasted trace reports: one for each failing test, with its assertion and frames.

Formats: pytest, unittest, Go, cargo, Jest and Vitest, JUnit through Maven or Gradle, RSpec, .NET. A text
without any of these is one failure with whatever frames it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from agentloop.retrieval.frames import Frame, frames

MAX_FAILURES = 200
BODY_CHARS = 40_000  # of one failure: longer output is the program's own

_PYTEST = re.compile(r"^_{3,} (?:ERROR at \w+ of )?(?P<name>\S.{0,300}?) _{3,}$")
_HEADS = (
    _PYTEST,
    re.compile(r"^(?:FAIL|ERROR): (?P<name>\w+) \((?P<scope>[\w.]{1,300})\)"),  # unittest
    re.compile(r"^\s*--- FAIL: (?P<name>[\w/#.-]{1,300}) \("),  # Go
    re.compile(r"^---- (?P<name>[\w:]{1,300}) stdout ----$"),  # cargo
    re.compile(r"^\s*● (?P<name>\S.{0,300})$"),  # Jest
    re.compile(
        r"^\s*(?:FAIL|×)\s{1,4}(?P<scope>[\w./-]{1,200}\.[cm]?[jt]sx?)(?: > (?P<name>.{1,200}))?$"
    ),  # Vitest
    re.compile(r"^\[ERROR\]\s+(?P<scope>[\w.$]{1,200})\.(?P<name>\w{1,200}):\d+"),  # Surefire's list
    re.compile(r"^(?P<scope>[\w.$ ]{1,200}) > (?P<name>[\w.() ]{1,200}) FAILED$"),  # Gradle
    re.compile(r"^\s+\d{1,3}\) (?P<name>[A-Z].{0,200})$"),  # RSpec, Mocha
    re.compile(r"^\s*(?:Failed|\[FAIL\]) (?P<name>[\w.]{3,200})"),  # .NET
)
_END = re.compile(
    r"^(?:=+ (?:short test summary|warnings summary|slowest|\d+ (?:failed|passed)).*=+"
    r"|Ran \d+ tests? in|FAIL$|failures:$)"
)
_ASSERTION = re.compile(
    r"^\s*(?:E\s{1,8}\S|>\s{1,8}\S|AssertionError\b|assertion .{0,40}failed|thread '.{1,200}' panicked"
    r"|(?:[\w.]{1,80}\.)?\w{0,60}(?:Error|Exception|Failure)\b|[Ee]xpected\b|[Aa]ctual\b|[Gg]ot\b|left:|right:"
    r"|Received\b|panic:|\w{1,80}_test\.go:\d+:)"
)
_SUMMARY = re.compile(r"^FAILED (?P<path>[^:\s]{1,300})::(?P<name>\S{1,300})")
_CONTEXT_MANY = 6


@dataclass(frozen=True, slots=True)
class Failure:
    """A failing test or a crash. Lines are 1-based in the text it came from."""

    name: str
    scope: str  # class or file that the runner named, or empty
    line_start: int
    line_end: int
    assertion: tuple[str, ...]  # the lines that say what was expected and what came
    frames: tuple[Frame, ...]  # innermost first
    text: str

    @property
    def function(self) -> str:
        """The test's function: no class, parameters or subtest."""
        return bare_name(self.name)[1]

    @property
    def owner(self) -> str:
        """The class or module part of the test's name, or empty."""
        return bare_name(self.name)[0]


def bare_name(name: str) -> tuple[str, str]:
    """Owner and function of a test's name: `a/test_b.py::C::test_d[1]` is `C`, `test_d`."""
    tail = name.rpartition(".py::")[2]
    bare = re.split(r"[\[(/ ]", tail.replace("::", "."))[0]
    owner, _, function = bare.rpartition(".")
    return owner.rpartition(".")[2], function or bare


def failures(text: str) -> list[Failure]:
    """The failures of a text in its order; at most `MAX_FAILURES`."""
    lines = text.split("\n")
    found = []
    for name, scope, first, last in _sections(lines):
        found.append(_failure(name, scope, lines, first, last))
        if len(found) == MAX_FAILURES:
            break
    if found:
        return _with_paths(found, lines)
    whole = _failure("", "", lines, 0, len(lines) - 1)
    return [whole] if whole.frames else []


def _sections(lines: list[str]) -> Iterator[tuple[str, str, int, int]]:
    """Name, scope, first and last index of each failure's part of the log."""
    open_at: tuple[str, str, int] | None = None
    for at, line in enumerate(lines):
        if len(line) > 600:
            continue
        head = next((m for m in (p.match(line) for p in _HEADS) if m), None)
        if open_at and (head or _END.match(line)):
            yield (*open_at, at - 1)
            open_at = None
        if head:
            groups = head.groupdict()
            open_at = (groups.get("name") or "", groups.get("scope") or "", at)
    if open_at:
        yield (*open_at, len(lines) - 1)


def _failure(name: str, scope: str, lines: list[str], first: int, last: int) -> Failure:
    text = "\n".join(lines[first : last + 1])[:BODY_CHARS]
    placed = frames(text)
    if _PYTEST.match(lines[first]):
        placed = _innermost_first(placed)
    assertion = [line.strip()[:300] for line in text.split("\n") if _ASSERTION.match(line)]
    return Failure(name, scope, first + 1, last + 1, tuple(assertion[:_CONTEXT_MANY]), tuple(placed), text)


def _innermost_first(placed: list[Frame]) -> list[Frame]:
    """pytest prints the innermost frame last."""
    return [replace(frame, depth=depth) for depth, frame in enumerate(reversed(placed))]


def _with_paths(found: list[Failure], lines: list[str]) -> list[Failure]:
    """pytest names the file of a failure only in its summary: the scope of those that lack one."""
    paths: dict[str, str] = {}
    for line in lines:
        if match := _SUMMARY.match(line):
            paths.setdefault(match["name"].replace("::", "."), match["path"])
    return [
        f
        if f.scope or f.name not in paths
        else Failure(f.name, paths[f.name], f.line_start, f.line_end, f.assertion, f.frames, f.text)
        for f in found
    ]
