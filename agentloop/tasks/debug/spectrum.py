"""What each test may reach: the static spectrum that fault localisation works on.

A test is a function and the class that runs it: a method that many test classes inherit is a test of each
of them, with that class's own fixtures.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from agentloop.retrieval.frames import PathIndex
from agentloop.tasks.codegraph import CLASSES, CodeGraph, Function
from agentloop.tasks.debug.failures import Failure, bare_name
from agentloop.types import Corpus, FileKind, SourceFile, Trait

MAX_TEST_FILES = 120
MAX_PASSING = 120  # tests whose reach is looked at: about a second of one core at the worst
MAX_BASES = 16
_TEST = re.compile(r"(?:[tT]est|[sS]pec|should|it_)")


@dataclass(frozen=True, slots=True, order=True)
class Test:
    """A test function and the class that it runs in, if any."""

    function: Function
    owner: Function | None


def failing_tests(
    found: Sequence[Failure], named: Sequence[str], corpus: Corpus, graph: CodeGraph
) -> dict[Test, dict[Function, int]]:
    """The failing tests in the order of their failures.

    A failing test comes with the lines where the functions of its trace were.

    Args:
        named: further failing tests by name, as a caller knows them.
    """
    paths = PathIndex(corpus)
    failing: dict[Test, dict[Function, int]] = {}
    for failure in found:
        files = list(paths.match(failure.scope)) if failure.scope else []
        files += [f for frame in failure.frames for f in paths.match(frame.path) if Trait.TEST in f.traits]
        stopped = _stopped(failure, paths, graph)
        for test in _resolve(graph, failure.owner, failure.function, files[0] if files else None):
            failing.setdefault(test, stopped)
    for name in named:
        for test in _resolve(graph, *bare_name(name), None):
            failing.setdefault(test, {})
    return failing


def passing_tests(corpus: Corpus, graph: CodeGraph, failing: Collection[Test]) -> list[Test]:
    """A sample of the tests that did not fail; none where none failed, for there is nothing to compare.

    Ask for it after the reach of the failing tests: what these lead to is parsed first.
    """
    if not failing:
        return []
    return _sampled([test for test in _all_tests(corpus, graph, failing) if test not in failing])


def _sampled(passing: list[Test]) -> list[Test]:
    """At most `MAX_PASSING` tests: the first half of them, those nearest the failures, then every n-th."""
    near, rest = passing[: MAX_PASSING // 2], passing[MAX_PASSING // 2 :]
    step = -(-len(rest) // (MAX_PASSING - MAX_PASSING // 2)) or 1
    return near + rest[::step]


def _stopped(failure: Failure, paths: PathIndex, graph: CodeGraph) -> dict[Function, int]:
    """Where each function of a trace was; the innermost call of one that calls itself."""
    lines: dict[Function, int] = {}
    for frame in failure.frames:
        for file in paths.match(frame.path)[:1]:
            function = graph.at_line(file.index, frame.line)
            if function is not None:
                lines.setdefault(function, frame.line)
    return lines


def _resolve(graph: CodeGraph, owner: str, name: str, near: SourceFile | None) -> list[Test]:
    """The tests of a name: in the class that was named, or inherited by it, or any function of the name."""
    if not name:
        return []
    for cls in graph.named(owner, near) if owner else ():
        if graph.symbol(cls).kind in CLASSES:
            inherited = [m for m in _methods(graph, cls) if graph.symbol(m).name == name]
            if inherited:
                return [Test(inherited[0], cls)]
    return [Test(function, None) for function in graph.named(name, near)]


def _methods(graph: CodeGraph, cls: Function) -> Iterable[Function]:
    """The methods of a class, then those of its bases."""
    queue, seen = [cls], {cls}
    while queue:
        current = queue.pop(0)
        yield from graph.methods(current)
        for base in graph.bases(current):
            if base not in seen and len(seen) < MAX_BASES:
                seen.add(base)
                queue.append(base)


def _all_tests(corpus: Corpus, graph: CodeGraph, failing: Iterable[Test]) -> Iterable[Test]:
    """The tests of the failing tests' files, then of the other test files."""
    files = list(dict.fromkeys((test.owner or test.function).file for test in failing))
    files += [f.index for f in corpus.files if Trait.TEST in f.traits and f.kind is FileKind.CODE]
    for file in list(dict.fromkeys(files))[:MAX_TEST_FILES]:
        owned: set[Function] = set()
        for symbol in graph.symbols(file):
            if symbol.kind in CLASSES:
                cls = Function(file, symbol.byte_start)
                for method in _methods(graph, cls):
                    owned.add(method)
                    if _TEST.match(graph.symbol(method).name):
                        yield Test(method, cls)
        for symbol in graph.symbols(file):
            function = Function(file, symbol.byte_start)
            if symbol.kind == "function" and function not in owned and _TEST.match(symbol.name):
                yield Test(function, None)
