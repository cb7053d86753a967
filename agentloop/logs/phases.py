"""Phases and steps of a run, as build tools and their runners mark them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from agentloop.logs.lines import Line

LOOK = 240
NAME_CHARS = 80

_MARKS = re.compile(
    r"^(?:##\[group\](?P<github>.+)"
    r"|\[Pipeline\] (?:stage|\{ \((?P<jenkins>[^)]+)\))"
    r"|-{3,} (?P<maven>[\w.-]+(?::[\w.-]+)*:[\w-]+ \([\w.-]+\) @ [\w.-]+) -{3,}"
    r"|(?:\[INFO\] )?Building (?P<module>\S.{0,80}?) \d\S*(?:\s+\[\d+/\d+\])?$"
    r"|> Task (?P<gradle>:\S+)"
    r"|section_start:\d+:(?P<gitlab>\w+)"
    r"|\[(?P<docker>(?:[\w.-]{1,60} )?\d+/\d+)\] [A-Z]{3,10} "
    r"|Step (?P<legacy>\d+/\d+ : .+)"
    r"|travis_fold:start:(?P<travis>[\w.-]+)"
    r"|={5,} (?P<pytest>test session starts|FAILURES|ERRORS|short test summary info) ={5,}"
    r"|\s+(?P<cargo>Running|Doc-tests) \S+"
    r"|(?:\[[\w.-]{1,80}\] )?(?P<command>\$ \S+|\+{1,3} [\w./-]+(?= |$)|> \w+@[\w.-]+ \w+)"
    r"|Configuring (?P<cmake>\w+)|-- (?P<configure>Configuring done|Generating done)"
    r"|INFO: (?P<bazel>Analyzed|Build completed|Elapsed time).*"
    r"|=== (?P<go>RUN) +\S+)"
)


@dataclass(frozen=True, slots=True)
class Phase:
    """A step that began at line index `at`."""

    name: str
    at: int


def find_phases(lines: Sequence[Line]) -> list[Phase]:
    """The marks of phases in order; one that repeats the name before it is left out."""
    phases: list[Phase] = []
    for at, line in enumerate(lines):
        text = line.text[:LOOK]
        if text[:1] not in "#[->sSt= $+CIB":
            continue
        match = _MARKS.match(text)
        if match is None or match.lastgroup == "go" or text.startswith("+ export "):
            continue
        name = _named(match)
        if name and (not phases or phases[-1].name != name):
            phases.append(Phase(name, at))
    return phases


def _named(match: re.Match[str]) -> str:
    """A phase's name. Of a command only its program is kept: arguments may hold secrets."""
    name = (match.group(match.lastgroup) if match.lastgroup else match.group()).strip()
    name = name.split("=")[0] if match.lastgroup in ("command", "github") else name
    return name[:NAME_CHARS].rsplit(" ", 1)[0] if len(name) > NAME_CHARS else name


def phase_of(phases: Sequence[Phase], at: int) -> Phase | None:
    """The phase that line `at` belongs to."""
    found = bisect_right([phase.at for phase in phases], at)
    return phases[found - 1] if found else None
