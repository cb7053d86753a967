"""Which functions likely cause the failures: spectrum-based fault localisation without running anything.

The spectrum is static: what each test may reach by the code graph. The suspiciousness of a function is
Ochiai's coefficient over those weights (Abreu et al. 2007), `ef / sqrt(F * (ef + ep))`, with `ef` the
weight by which failing tests reach it, `ep` that of passing tests, `F` the number of failing tests.
Other evidence adds to it: frames of traces, the innermost most (there the fault was noticed, often where
it lies); names in assertions and in the names of tests; values that an assertion shows and no test holds;
constructs that are seldom meant (`oddities`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agentloop.retrieval.frames import PathIndex
from agentloop.tasks.codegraph import CLASSES, CodeGraph, Function
from agentloop.tasks.debug.anomalies import Anomalies, rarest
from agentloop.tasks.debug.failures import Failure
from agentloop.tasks.debug.reachable import Reachable
from agentloop.tasks.debug.spectrum import Test, passing_tests
from agentloop.tasks.debug.spectrum import failing_tests as failing_of
from agentloop.tasks.debug.syntax import Oddity
from agentloop.tasks.debug.values import Shown, shown_values
from agentloop.tasks.debug.words import WordSpectrum, rarity, text_words, words_of
from agentloop.types import Corpus, FileKind, SourceFile, Trait

FRAME_WEIGHT = 0.7  # of the innermost project frame, beside Ochiai's 0..1
FRAME_DECAY = 0.6  # with each frame outwards
CALLEE = 0.35  # of a frame's weight goes to what it calls: a wrong value is often noticed by its caller
ASSERTED = 0.25  # a name in the assertion itself
TESTED = 0.3  # a name that the test's own name holds: test_divide, DivideTests
VALUE = 0.4  # a value in the assertion that this function writes down and the test does not
WORDED = 0.4  # words that failing tests hold and passing ones do not
ODD = 0.4  # a construct that is seldom meant, where all failing tests reach it
ODD_TIMES = 1.0  # and as much again of what the function has by the rest
PLAIN = 0.25  # what is no function (a class, a constant) runs once for all tests, when it is imported
CHANGED = 1.5  # touched by a recent change: the strongest sign there is
SUSPECT_PATH = 0.3  # the caller suspects the path: weighs, never blind
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_RUNS = frozenset({"function", "method", "constructor", "property", "macro", "getter", "setter"})
LEAST_NAME = 4  # characters: shorter names stand in every test's name
_NAMES = re.compile(r"[A-Za-z_]\w{2,80}")


@dataclass(slots=True)
class Suspect:
    """A function and why it is suspected. `failing` and `passing` count the tests that may reach it.

    The evidence from `framed` to `worded` is 0..1 each, a mean over the failures.
    """

    function: Function
    failing: float = 0.0
    passing: float = 0.0
    reached_by: int = 0
    frame_depth: int | None = None
    framed: float = 0.0
    called: float = 0.0
    asserted: float = 0.0
    tested: float = 0.0
    value: float = 0.0
    worded: float = 0.0
    oddity: Oddity | None = None
    runs: bool = True
    suspect_path: bool = False
    changes: list[str] = field(default_factory=list)
    score: float = 0.0

    def ochiai(self, tests: int) -> float:
        """Ochiai's coefficient, 0..1; `tests` is the number of failing ones."""
        total = self.failing + self.passing
        return self.failing / math.sqrt(max(1, tests) * total) if total else 0.0

    def specific(self) -> float:
        """1 for what only failing tests reach, half for what passing ones reach far more."""
        total = self.failing + self.passing
        return 0.5 + 0.5 * self.failing / total if total else 1.0

    def weigh(self, tests: int) -> float:
        """The suspicion that all evidence together gives."""
        score = self.ochiai(tests)
        score += FRAME_WEIGHT * (self.specific() * self.framed + CALLEE * self.called)
        score += ASSERTED * self.asserted + TESTED * self.tested + VALUE * self.value
        score += WORDED * self.worded
        if self.oddity is not None:
            share = min(1.0, self.reached_by / max(1, tests))
            score += self.oddity.weight * (ODD * share + ODD_TIMES * score)
        if not self.runs:
            score *= PLAIN
        score += CHANGED if self.changes else 0.0
        return score + (SUSPECT_PATH if self.suspect_path else 0.0)


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
    failing = failing_of(found, failing_tests, corpus, graph)
    evidence = _Evidence(found, corpus, graph)
    evidence.add_failing(failing)
    passing = passing_tests(corpus, graph, failing)
    evidence.add_passing(passing)
    evidence.add_frames()
    for function, changes in (changed or {}).items():
        evidence.suspect(function).changes = changes
    own = [s for s in evidence.table.values() if is_project_code(graph.source(s.function))]
    evidence.add_names(own)
    evidence.add_values(own, failing)
    evidence.add_words(own, failing, passing)
    anomalies = Anomalies(graph)
    odd = rarest({s.function: anomalies.of(s.function) for s in own})
    for suspect in own:
        suspect.oddity = odd.get(suspect.function)
        suspect.runs = graph.symbol(suspect.function).kind in _RUNS
        path = graph.source(suspect.function).path
        suspect.suspect_path = any(path.startswith(p.strip("/")) for p in suspect_paths)
        suspect.score = suspect.weigh(len(failing))
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


class _Evidence:
    """The table of suspects while evidence is gathered."""

    def __init__(self, found: Sequence[Failure], corpus: Corpus, graph: CodeGraph) -> None:
        self.table: dict[Function, Suspect] = {}
        self._found = found
        self._graph = graph
        self._paths = PathIndex(corpus)
        self._reachable = Reachable(graph)
        self._live = 0

    def suspect(self, function: Function) -> Suspect:
        """The entry of a function, made when it is new."""
        return self.table.setdefault(function, Suspect(function))

    def add_failing(self, failing: Mapping[Test, Mapping[Function, int]]) -> None:
        """What failing tests may reach."""
        for test, stopped in failing.items():
            reached = self._reachable.reach(test.function, test.owner, stopped)
            self._live |= reached.live
            for function, weight in reached.weights.items():
                suspect = self.suspect(function)
                suspect.failing += weight
                suspect.reached_by += 1

    def add_passing(self, passing: Sequence[Test]) -> None:
        """How far passing tests reach what failing ones do."""
        for test in passing:
            for function, weight in self._reachable.reach(test.function, test.owner).weights.items():
                if function in self.table:
                    self.table[function].passing += weight

    def add_frames(self) -> None:
        """Each failure's project frames, innermost first, and what they call."""
        for failure in self._found:
            depth = 0
            seen: set[Function] = set()
            for frame in failure.frames:
                for file in self._paths.match(frame.path)[:1]:
                    function = self._graph.at_line(file.index, frame.line)
                    own = is_project_code(file)
                    if function is None or function in seen or not (own or depth == 0):
                        continue
                    seen.add(function)
                    weight = FRAME_DECAY**depth / len(self._found)
                    if own:
                        suspect = self.suspect(function)
                        suspect.framed += weight
                        best = suspect.frame_depth
                        suspect.frame_depth = depth if best is None else min(depth, best)
                        depth += 1
                    for callee, share in self._reachable.step(function, self._live, frame.line):
                        self.suspect(callee).called += share * weight

    def add_names(self, own: Sequence[Suspect]) -> None:
        """Names that assertions hold, and names that the failing tests' own names hold word for word."""
        tests = [f"_{'_'.join(_words(f'{f.owner} {f.function}'))}_" for f in self._found if f.function]
        asserted = [frozenset(n for line in f.assertion for n in _NAMES.findall(line)) for f in self._found]
        for suspect in own:
            around = self._graph.enclosing(suspect.function)
            if around is not None and self._graph.symbol(around).kind not in CLASSES:
                continue  # what stands inside a function is called by other names elsewhere
            name = self._graph.symbol(suspect.function).name
            suspect.asserted = sum(name in names for names in asserted) / max(1, len(asserted))
            words = "_".join(_words(name))
            if len(words) >= LEAST_NAME and tests:
                suspect.tested = sum(f"_{words}_" in test for test in tests) / len(tests)

    def add_words(self, own: Sequence[Suspect], failing: Iterable[Test], passing: Sequence[Test]) -> None:
        """Words that failing tests hold and passing ones do not, in the names of functions and classes."""
        text = self._graph.text
        spectrum_ = WordSpectrum(
            [text_words(text(t.function)) for t in failing], [text_words(text(t.function)) for t in passing]
        )
        names = []
        for suspect in own:
            owner = self._graph.owner(suspect.function)
            name = self._graph.symbol(suspect.function).name
            names.append(words_of(f"{self._graph.symbol(owner).name} {name}" if owner is not None else name))
        rare = rarity(names)
        for suspect, words in zip(own, names, strict=True):
            suspect.worded = spectrum_.score(words, rare)

    def add_values(self, own: Sequence[Suspect], failing: Mapping[Test, Mapping[Function, int]]) -> None:
        """Values that assertions show, that no failing test writes down, and that a function does."""
        told = "\n".join(self._graph.text(test.function) for test in failing)
        shown = [shown_values(failure.text, told) for failure in self._found]
        if not any(shown):
            return
        for suspect in own:
            text = self._graph.text(suspect.function)
            suspect.value = sum(_holds(text, values) for values in shown) / len(shown)


def _holds(text: str, values: Shown) -> bool:
    return any(pattern.search(text) for pattern in values)


def _words(name: str) -> list[str]:
    """The lower-case words of a name in camelCase or snake_case."""
    return [word.lower() for word in _WORDS.findall(name)]
