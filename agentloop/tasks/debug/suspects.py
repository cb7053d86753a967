"""Which functions likely cause the failures: spectrum-based fault localisation without running anything.

The spectrum is static: what each test may reach by the code graph. The suspiciousness of a function is
Ochiai's coefficient over those weights (Abreu et al. 2007), `ef / sqrt(F * (ef + ep))`, with `ef` the
weight by which failing tests reach it, `ep` that of passing tests, `F` the number of failing tests.
Frames of traces add to it, the innermost most: there the fault was noticed, often where it lies.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from agentloop.retrieval.frames import PathIndex
from agentloop.tasks.codegraph import CLASSES, CodeGraph, Function
from agentloop.tasks.debug.failures import Failure
from agentloop.tasks.debug.reachable import Reachable
from agentloop.tasks.debug.spectrum import spectrum
from agentloop.types import Corpus, FileKind, SourceFile, Trait

FRAME_WEIGHT = 0.7  # of the innermost project frame, beside Ochiai's 0..1
FRAME_DECAY = 0.6  # with each frame outwards
CALLEE = 0.35  # of a frame's weight goes to what it calls: a wrong value is often noticed by its caller
ASSERTED = 0.25  # a name in the assertion itself
TESTED = 0.3  # a name that the test's own name holds: test_divide, DivideTests
PLAIN = 0.25  # what is no function (a class, a constant) runs once for all tests, when it is imported
CHANGED = 1.5  # touched by a recent change: the strongest sign there is
SUSPECT_PATH = 0.3  # the caller suspects the path: weighs, never blind
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_RUNS = frozenset({"function", "method", "constructor", "property", "macro", "getter", "setter"})
LEAST_NAME = 4  # characters: shorter names stand in every test's name
_NAMES = re.compile(r"[A-Za-z_]\w{2,80}")


@dataclass(slots=True)
class Suspect:
    """A function and why it is suspected. `failing` and `passing` count the tests that may reach it."""

    function: Function
    score: float = 0.0
    failing: float = 0.0
    passing: float = 0.0
    reached_by: int = 0
    frame_depth: int | None = None
    asserted: bool = False
    changes: list[str] = field(default_factory=list)


def suspects(
    found: Sequence[Failure],
    corpus: Corpus,
    graph: CodeGraph,
    *,
    failing_tests: Sequence[str] = (),
    suspect_paths: Sequence[str] = (),
    changed: Mapping[Function, list[str]] | None = None,
) -> list[Suspect]:
    """Functions of the project's own code, most suspicious first; tests are never suspects."""
    table: dict[Function, Suspect] = {}
    paths = PathIndex(corpus)
    failing, passing = spectrum(found, failing_tests, corpus, graph)
    reachable = Reachable(graph)
    live: set[Function] = set()
    for test, stopped in failing.items():
        found_of = reachable.reach(test.function, test.owner, stopped)
        live |= found_of.live
        for reached, weight in found_of.weights.items():
            suspect = table.setdefault(reached, Suspect(reached))
            suspect.failing += weight
            suspect.reached_by += 1
    for test in passing:
        for reached, weight in reachable.reach(test.function, test.owner).weights.items():
            if reached in table:
                table[reached].passing += weight
    for suspect in table.values():
        total = suspect.failing + suspect.passing
        suspect.score = suspect.failing / math.sqrt(max(1, len(failing)) * total) if total else 0.0
    _add_frames(found, table, graph, reachable, live, paths)
    _add_asserted(found, table, graph)
    _add_tested(found, table, graph)
    for suspect in table.values():
        if graph.symbol(suspect.function).kind not in _RUNS:
            suspect.score *= PLAIN
    for function, changes in (changed or {}).items():
        suspect = table.setdefault(function, Suspect(function))
        suspect.changes = changes
        suspect.score += CHANGED
    for suspect in table.values():
        if any(graph.source(suspect.function).path.startswith(p.strip("/")) for p in suspect_paths):
            suspect.score += SUSPECT_PATH
    own = [s for s in table.values() if is_project_code(graph.source(s.function))]
    return sorted(own, key=lambda s: (-round(s.score, 6), s.function))


def specific(suspect: Suspect) -> float:
    """1 for what only failing tests reach, half for what passing tests reach far more: a shared checker."""
    total = suspect.failing + suspect.passing
    return 0.5 + 0.5 * suspect.failing / total if total else 1.0


def is_project_code(file: SourceFile) -> bool:
    """Whether a fault may lie there: code with bodies, but no test, example, vendored or generated file."""
    if file.path.endswith((".pyi", ".d.ts")):
        return False
    return file.kind is FileKind.CODE and not file.traits & {
        Trait.TEST,
        Trait.EXAMPLE,
        Trait.VENDORED,
        Trait.GENERATED,
        Trait.MINIFIED,
    }


def _add_frames(
    found: Sequence[Failure],
    table: dict[Function, Suspect],
    graph: CodeGraph,
    reachable: Reachable,
    live: Set[Function],
    paths: PathIndex,
) -> None:
    """Each failure's project frames, innermost first; a share for each failure."""
    for failure in found:
        depth = 0
        seen: set[Function] = set()
        for frame in failure.frames:
            for file in paths.match(frame.path)[:1]:
                function = graph.at_line(file.index, frame.line)
                own = is_project_code(file)
                if function is None or function in seen or not (own or depth == 0):
                    continue
                seen.add(function)
                weight = FRAME_WEIGHT * FRAME_DECAY**depth / len(found)
                if own:
                    suspect = table.setdefault(function, Suspect(function))
                    suspect.score += specific(suspect) * weight
                    best = suspect.frame_depth
                    suspect.frame_depth = depth if best is None else min(depth, best)
                    depth += 1
                for callee, share in reachable.step(function, live, frame.line):
                    below = table.setdefault(callee, Suspect(callee))
                    below.score += CALLEE * share * weight


def _outer(table: dict[Function, Suspect], graph: CodeGraph) -> list[Suspect]:
    """Those whose names mean them elsewhere: what stands inside a function is called by other names there."""
    inside = {f: graph.enclosing(f) for f in table}
    return [s for f, s in table.items() if (e := inside[f]) is None or graph.symbol(e).kind in CLASSES]


def _add_tested(found: Sequence[Failure], table: dict[Function, Suspect], graph: CodeGraph) -> None:
    """Functions that the names of the failing tests hold, word for word."""
    tests = [f"_{'_'.join(_words(f'{f.owner} {f.function}'))}_" for f in found if f.function]
    for suspect in _outer(table, graph):
        name = "_".join(_words(graph.symbol(suspect.function).name))
        if len(name) >= LEAST_NAME and tests:
            suspect.score += TESTED * sum(f"_{name}_" in test for test in tests) / len(tests)


def _words(name: str) -> list[str]:
    """The lower-case words of a name in camelCase or snake_case."""
    return [word.lower() for word in _WORDS.findall(name)]


def _add_asserted(found: Sequence[Failure], table: dict[Function, Suspect], graph: CodeGraph) -> None:
    """Functions that the assertions themselves name."""
    names = {n for f in found for line in f.assertion for n in _NAMES.findall(line)}
    for suspect in _outer(table, graph):
        if graph.symbol(suspect.function).name in names:
            suspect.asserted = True
            share = sum(
                any(graph.symbol(suspect.function).name in line for line in f.assertion) for f in found
            )
            suspect.score += ASSERTED * share / len(found)
