"""What code may run when a test runs, by rapid type analysis (Bacon and Sweeney 1996).

A member is resolved over the classes that the code reached so far names ("live"), by their own order of
bases; a bare name by the scopes around it; an operator like the method that it calls. Each step out
weighs less, and a use with several meanings is shared among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

from agentloop.tasks.codegraph import CLASSES, CodeGraph, Function
from agentloop.tasks.debug.slices import BEFORE, line_weights
from agentloop.tasks.uses import How, Use, plain, typed, uses
from agentloop.types import Trait

MAX_DEPTH = 8
DECAY = 0.85  # of the weight with each step
LEAST = 0.02  # what weighs less is noise
MENTION = 0.5  # a bare name that is not called: a callback, a class, a constant
OPERATOR = 0.6  # an operator: its operands are mostly of other types
UNKNOWN = 0.4  # a member that no live class has
_CONSTRUCTORS = ("__init__", "__new__", "__post_init__", "constructor", "new", "New")
_SELVES = frozenset({"self", "cls", "this", "Self"})
_SETUPS = ("setUp", "setUpClass", "setup_method", "setup", "before", "setup_class")

Targets = tuple[tuple[Function, float], ...]


@dataclass(frozen=True, slots=True)
class _Meaning:
    """A use whose targets depend on nothing, or (`name` set) on the classes that are live."""

    line: int
    fixed: Targets = ()
    name: str = ""
    weight: float = 1.0
    within: Function | None = None  # a class: only it and what derives from it
    fallback: Targets = ()


@dataclass(slots=True)
class _Body:
    meanings: list[_Meaning] = field(default_factory=list)
    names: frozenset[str] = frozenset()
    owners: frozenset[Function] = frozenset()  # of all that were ever live those that have one of the names
    seen: int = -1  # how many were known when `owners` was made


@dataclass(frozen=True, slots=True)
class Reached:
    """Weights of what a test may run; and what is live in it: classes, functions with functions inside."""

    weights: dict[Function, float]
    live: frozenset[Function]


class Reachable:
    """Reach of tests over a graph; what is known of a function is kept."""

    def __init__(self, graph: CodeGraph) -> None:
        self._graph = graph
        self._bodies: dict[Function, _Body] = {}
        self._members: dict[tuple[Function, str], Function | None] = {}
        self._registered: set[Function] = set()
        self._having: dict[str, set[Function]] = {}
        self._stepped: dict[tuple[Function, frozenset[Function]], Targets] = {}

    def reach(
        self, start: Function, owner: Function | None = None, stopped: Mapping[Function, int] | None = None
    ) -> Reached:
        """Functions that `start` may run, directly or not, each with the weight of its best path.

        Args:
            owner: the class that `start` runs in, if it may be another than the one it stands in.
            stopped: for the functions of a trace the line where each of them was.
        """
        live: set[Function] = {owner} if owner else set()
        for cls in live:
            self._register(cls)
        best: dict[Function, float] = {}
        for _ in range(2):  # again with the classes that were found late
            known = len(live)
            best = self._pass(start, owner, stopped or {}, live)
            if len(live) == known:
                break
        best.pop(start, None)
        return Reached(best, frozenset(live))

    def _pass(
        self, start: Function, owner: Function | None, stopped: Mapping[Function, int], live: set[Function]
    ) -> dict[Function, float]:
        best: dict[Function, float] = {start: 1.0, **dict.fromkeys(stopped, 1.0)}
        for name in _SETUPS if owner else ():
            setup = self._member(owner, name) if owner else None
            if setup:
                best[setup] = MENTION
        frontier = sorted(best)
        for _ in range(MAX_DEPTH):
            grown: dict[Function, float] = {}
            for caller in frontier:
                for callee, weight in self.step(caller, live, stopped.get(caller)):
                    reached = best[caller] * weight * DECAY
                    if reached > LEAST and reached > best.get(callee, 0.0):
                        grown[callee] = max(reached, grown.get(callee, 0.0))
            for found in grown:
                if self._graph.symbol(found).kind in CLASSES or self._graph.inner(found):
                    self._register(found)
                    live.add(found)
            best.update(grown)
            frontier = sorted(grown)
        return best

    def step(self, function: Function, live: Set[Function], stopped_at: int | None = None) -> Targets:
        """Definitions that a function's body uses, each with its share of the weight."""
        body = self._body(function)
        if body.seen != len(self._registered):
            body.seen = len(self._registered)
            body.owners = frozenset().union(*(self._having.get(name, ()) for name in body.names))
        relevant = body.owners.intersection(live)
        if stopped_at is None and (function, relevant) in self._stepped:
            return self._stepped[function, relevant]
        weights = self._weights(function, stopped_at) if stopped_at is not None else {}
        best: dict[Function, float] = {}
        for meaning in body.meanings:
            line = weights.get(meaning.line, 0.0) if weights else 1.0
            for target, share in self._targets(meaning, relevant) if line else ():
                if target != function and share * line > best.get(target, 0.0):
                    best[target] = share * line
        found = tuple(sorted(best.items()))
        if stopped_at is None:
            self._stepped[function, relevant] = found
        return found

    def _targets(self, meaning: _Meaning, live: frozenset[Function]) -> Targets:
        if not meaning.name:
            return meaning.fixed
        classes = sorted(live)
        if meaning.within is not None:
            classes = [c for c in classes if meaning.within in self._graph.mro(c)] or [meaning.within]
        targets = {t for cls in classes if (t := self._member(cls, meaning.name)) is not None}
        targets |= {t for t, _ in meaning.fixed}
        if not targets:
            return meaning.fallback
        return tuple((t, meaning.weight / len(targets)) for t in sorted(targets))

    def _member(self, cls: Function, name: str) -> Function | None:
        key = (cls, name)
        if key not in self._members:
            self._members[key] = self._graph.lookup(cls, name)
        return self._members[key]

    def _register(self, holder: Function) -> None:
        """Note the names of what a class has, inherited or not, or of what stands inside a function."""
        if holder in self._registered:
            return
        self._registered.add(holder)
        graph = self._graph
        order = graph.mro(holder) if graph.symbol(holder).kind in CLASSES else (holder,)
        for member in (m for cls in order for m in graph.methods(cls)):
            self._having.setdefault(graph.symbol(member).name, set()).add(holder)

    def _weights(self, function: Function, line: int) -> dict[int, float]:
        symbol, source = self._graph.symbol(function), self._graph.source(function)
        text = plain(self._graph.text(function), source.language)
        weights = line_weights(text, symbol.line_start, line)
        if Trait.TEST not in source.traits:  # handlers and `finally` run after the line
            for later in range(symbol.line_start, symbol.line_end + 1):
                weights.setdefault(later, BEFORE)
        return weights

    def _body(self, function: Function) -> _Body:
        if function not in self._bodies:
            symbol, source = self._graph.symbol(function), self._graph.source(function)
            if symbol.kind in CLASSES:
                meanings = list(self._constructors(function))
            else:
                text = plain(self._graph.text(function), source.language)
                types = {n: t for n, t in typed(text).items() if self._graph.defines(t)}
                seen = dict.fromkeys(uses(text, symbol.line_start, source.language))
                meanings = [m for use in seen if (m := self._meaning(use, function, types))]
            names = frozenset(m.name for m in meanings if m.name)
            self._bodies[function] = _Body(meanings, names)
        return self._bodies[function]

    def _constructors(self, cls: Function) -> Iterator[_Meaning]:
        for name in (*_CONSTRUCTORS, self._graph.symbol(cls).name):
            made = self._member(cls, name)
            if made is not None:
                yield _Meaning(0, ((made, 1.0),))

    def _meaning(self, use: Use, function: Function, types: Mapping[str, str]) -> _Meaning | None:
        graph = self._graph
        if not graph.defines(use.name) and not graph.local(function.file, use.name):
            unknown = use.how is How.BARE and use.called and graph.defines("__call__")
            return _Meaning(use.line, name="__call__", weight=OPERATOR) if unknown else None
        if use.how is How.OPERATOR:
            return self._operator(use, function, types)
        if use.how is How.BARE:
            return self._bare(use, function)
        return self._of_known(use, function, types) or self._of_any(use, function)

    def _operator(self, use: Use, function: Function, types: Mapping[str, str]) -> _Meaning:
        """The method of the operand's class where a line has one operand of a known class that defines it."""
        words = [word for word in use.receiver.split() if word in types]
        known = {cls for word in words if (cls := self._class(types[word], function))}
        able = [cls for cls in known if self._member(cls, use.name) is not None]
        if len(able) == 1:
            return _Meaning(use.line, name=use.name, within=able[0])
        return _Meaning(use.line, name=use.name, weight=OPERATOR)

    def _of_known(self, use: Use, function: Function, types: Mapping[str, str]) -> _Meaning | None:
        """A member of the class around, of its bases, or of a class that the receiver names or is made of."""
        owner = self._graph.owner(function)
        if use.receiver in _SELVES and owner is not None:
            return _Meaning(use.line, name=use.name, within=owner)
        if use.receiver == "super" and owner is not None:
            above = [t for base in self._graph.bases(owner)[:4] if (t := self._member(base, use.name))]
            return _Meaning(use.line, tuple((t, 1.0) for t in above[:1]))
        cls = self._class(types.get(use.receiver, use.receiver), function)
        if cls is not None and self._member(cls, use.name) is not None:
            return _Meaning(use.line, name=use.name, within=cls)
        return None

    def _of_any(self, use: Use, function: Function) -> _Meaning:
        """A member of whatever is live, or a function of a module."""
        loose = [f for f in self._graph.top_level(use.name, self._graph.source(function)) if f != function]
        members = [f for f in self._graph.everywhere(use.name) if f not in loose]
        fallback = tuple((f, UNKNOWN / len(members)) for f in members)
        return _Meaning(use.line, tuple((f, 1.0) for f in loose), use.name, 1.0, None, fallback)

    def _class(self, name: str, function: Function) -> Function | None:
        """The class that a word means in a function, if it means just one."""
        if not name or not self._graph.defines(name):
            return None
        found = self._graph.top_level(name, self._graph.source(function))
        classes = [f for f in found if self._graph.symbol(f).kind in CLASSES]
        return classes[0] if len(classes) == 1 else None

    def _bare(self, use: Use, function: Function) -> _Meaning | None:
        """A bare name: a definition nested here or around here, then of the file, then of the corpus."""
        graph, source = self._graph, self._graph.source(function)
        scope: Function | None = function
        local = graph.local(function.file, use.name)
        while scope is not None:
            if graph.symbol(scope).kind not in CLASSES or source.language != "python":
                inner = [f for f in local if graph.enclosing(f) == scope]
                if inner:
                    return _Meaning(use.line, tuple((f, 0.9 / len(inner)) for f in inner))
            scope = graph.enclosing(scope)
        found = [f for f in graph.top_level(use.name, source) if f != function]
        if not found and source.language != "python":
            found = [f for f in graph.everywhere(use.name) if f != function]
        if not found:
            return None
        weight = 1.0 if use.called else MENTION
        return _Meaning(use.line, tuple((f, weight / len(found)) for f in found))
