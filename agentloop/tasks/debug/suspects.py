"""Which functions likely cause the failures: spectrum-based fault localisation without running anything.

The spectrum is static: what each test may reach by the code graph. The suspiciousness of a function is
Ochiai's coefficient over those weights (Abreu et al. 2007), `ef / sqrt(F * (ef + ep))`, with `ef` the
weight by which failing tests reach it, `ep` that of passing tests, `F` the number of failing tests.
Frames of traces add to it, the innermost most: there the fault was noticed, often where it lies.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentloop.retrieval.frames import PathIndex
from agentloop.tasks.codegraph import CodeGraph, Function
from agentloop.tasks.debug.failures import Failure, bare_name
from agentloop.types import Corpus, FileKind, SourceFile, Trait

FRAME_WEIGHT = 0.7  # of the innermost project frame, beside Ochiai's 0..1
FRAME_DECAY = 0.6  # with each frame outwards
ASSERTED = 0.25  # a name in the assertion itself
CHANGED = 1.5  # touched by a recent change: the strongest sign there is
SUSPECT_PATH = 0.3  # the caller suspects the path: weighs, never blind
MAX_TEST_FILES = 120
_TEST = re.compile(r"(?:[tT]est|[sS]pec|should|it_)")
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
    failing = _failing_tests(found, graph, paths, failing_tests)
    for function in failing:
        for reached, weight in graph.reach(function).items():
            suspect = table.setdefault(reached, Suspect(reached))
            suspect.failing += weight
            suspect.reached_by += 1
    for function in _passing_tests(corpus, graph, failing):
        for reached, weight in graph.reach(function).items():
            if reached in table:
                table[reached].passing += weight
    for suspect in table.values():
        total = suspect.failing + suspect.passing
        suspect.score = suspect.failing / math.sqrt(max(1, len(failing)) * total) if total else 0.0
    _add_frames(found, table, graph, paths)
    _add_asserted(found, table, graph)
    for function, changes in (changed or {}).items():
        suspect = table.setdefault(function, Suspect(function))
        suspect.changes = changes
        suspect.score += CHANGED
    for suspect in table.values():
        if any(graph.source(suspect.function).path.startswith(p.strip("/")) for p in suspect_paths):
            suspect.score += SUSPECT_PATH
    own = [s for s in table.values() if is_project_code(graph.source(s.function))]
    return sorted(own, key=lambda s: (-round(s.score, 6), s.function))


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


def _failing_tests(
    found: Sequence[Failure], graph: CodeGraph, paths: PathIndex, named: Sequence[str]
) -> list[Function]:
    """The definitions of the failing tests, each once, in order."""
    tests: dict[Function, None] = {}
    for failure in found:
        files = list(paths.match(failure.scope)) if failure.scope else []
        files += [f for frame in failure.frames for f in paths.match(frame.path) if Trait.TEST in f.traits]
        near = files[0] if files else None
        for function in _owned(graph, failure.owner, failure.function, near):
            tests.setdefault(function)
    for name in named:
        for function in _owned(graph, *bare_name(name), None):
            tests.setdefault(function)
    return list(tests)


def _owned(graph: CodeGraph, owner: str, name: str, near: SourceFile | None) -> list[Function]:
    """Definitions of a test's function, those in its class where one is."""
    functions = graph.named(name, near) if name else []
    inside = [f for f in functions if owner and graph.symbol(f).parent.rpartition(".")[2] == owner]
    return inside or functions


def _passing_tests(corpus: Corpus, graph: CodeGraph, failing: Sequence[Function]) -> list[Function]:
    """Test functions that did not fail: of the failing tests' files first, then of other test files."""
    failed = set(failing)
    files = list(dict.fromkeys(f.file for f in failing))
    files += [f.index for f in corpus.files if Trait.TEST in f.traits and f.kind is FileKind.CODE]
    passing = []
    for file in list(dict.fromkeys(files))[:MAX_TEST_FILES]:
        for symbol in graph.symbols(file):
            function = Function(file, symbol.byte_start)
            if _TEST.match(symbol.name) and symbol.kind in ("function", "method") and function not in failed:
                passing.append(function)
    return passing


def _add_frames(
    found: Sequence[Failure], table: dict[Function, Suspect], graph: CodeGraph, paths: PathIndex
) -> None:
    """Each failure's project frames, innermost first; a share for each failure."""
    for failure in found:
        depth = 0
        seen: set[Function] = set()
        for frame in failure.frames:
            for file in paths.match(frame.path)[:1]:
                if not is_project_code(file):
                    continue
                function = graph.at_line(file.index, frame.line)
                if function is None or function in seen:
                    continue
                seen.add(function)
                suspect = table.setdefault(function, Suspect(function))
                suspect.score += FRAME_WEIGHT * FRAME_DECAY**depth / len(found)
                best = suspect.frame_depth
                suspect.frame_depth = depth if best is None else min(depth, best)
                depth += 1


def _add_asserted(found: Sequence[Failure], table: dict[Function, Suspect], graph: CodeGraph) -> None:
    """Functions that the assertions themselves name."""
    names = {n for f in found for line in f.assertion for n in _NAMES.findall(line)}
    for suspect in table.values():
        if graph.symbol(suspect.function).name in names:
            suspect.asserted = True
            share = sum(
                any(graph.symbol(suspect.function).name in line for line in f.assertion) for f in found
            )
            suspect.score += ASSERTED * share / len(found)
