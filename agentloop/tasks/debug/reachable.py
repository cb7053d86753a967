"""What code may run when a test runs, by rapid type analysis (Bacon and Sweeney 1996).

A member is resolved over the classes that the code reached so far names ("live"), by their own order of
bases; a bare name by the scopes around it; an operator like the method that it calls. Each step out
weighs less, and a use with several meanings is shared among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from agentloop.tasks.codegraph import CLASSES, CodeGraph, Function
from agentloop.tasks.debug.slices import BEFORE, line_weights
from agentloop.tasks.uses import How, Use, dispatched, plain, typed, uses
from agentloop.types import Trait

MAX_DEPTH = 8
DECAY = 0.85  # of the weight with each step
LEAST = 0.01  # what weighs less is noise
MAX_WORK = 1_500_000  # targets of steps that all tests of a request may look at: some seconds of one core
MENTION = 0.5  # a bare name that is not called: a callback, a class, a constant
OPERATOR = 0.6  # an operator: its operands are mostly of other types
DISPATCHED = 0.6  # a member by a name that is put together at run time
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
    distinct: tuple[_Meaning, ...] = ()  # the same without regard to lines
    names: frozenset[str] = frozenset()
    owners: int = 0  # of all holders that were ever live those that have one of the names
    seen: int = -1  # how many were known when `owners` was made


@dataclass(frozen=True, slots=True)
class Reached:
    """Weights of what a test may run; and what is live in it, as a set of bits of one `Reachable`."""

    weights: dict[Function, float]
    live: int


class Reachable:
    """Reach of tests over a graph; what is known of a function is kept.

    Classes, and functions with functions inside, are numbered as they become live; sets of them are bits
    of an integer, since each step of each test meets and compares such sets.
    """

    def __init__(self, graph: CodeGraph) -> None:
        self._graph = graph
        self._bodies: dict[Function, _Body] = {}
        self._members: dict[tuple[Function, str], Function | None] = {}
        self._holders: list[Function] = []
        self._bits: dict[Function, int] = {}
        self._having: dict[str, int] = {}
        self._meant: dict[tuple[str, Function | None, int], tuple[Function, ...]] = {}
        self._stepped: dict[tuple[Function, int], Targets] = {}
        self._work = 0

    def reach(
        self, start: Function, owner: Function | None = None, stopped: Mapping[Function, int] | None = None
    ) -> Reached:
        """Functions that `start` may run, directly or not, each with the weight of its best path.

        Args:
            owner: the class that `start` runs in, if it may be another than the one it stands in.
            stopped: for the functions of a trace the line where each of them was.
        """
        live = self._register(owner) if owner else 0
        best: dict[Function, float] = {}
        for _ in range(2):  # again with the classes that were found late
            known = live
            best, live = self._pass(start, owner, stopped or {}, live)
            if live == known:
                break
        best.pop(start, None)
        return Reached(best, live)

    def _pass(
        self, start: Function, owner: Function | None, stopped: Mapping[Function, int], live: int
    ) -> tuple[dict[Function, float], int]:
        best: dict[Function, float] = {start: 1.0, **dict.fromkeys(stopped, 1.0)}
        for name in _SETUPS if owner else ():
            setup = self._member(owner, name) if owner else None
            if setup:
                best[setup] = MENTION
        frontier = sorted(best)
        for _ in range(MAX_DEPTH):
            grown: dict[Function, float] = {}
            for caller in frontier:
                if self._work > MAX_WORK:
                    self._graph.cut_reach()
                    break
                weight = best[caller] * DECAY
                targets = self.step(caller, live, stopped.get(caller))
                self._work += len(targets) + 1
                for callee, share in targets:
                    reached = weight * share
                    if (
                        reached > LEAST
                        and reached > best.get(callee, 0.0)
                        and reached > grown.get(callee, 0.0)
                    ):
                        grown[callee] = reached
            for found in grown:
                if self._graph.symbol(found).kind in CLASSES or self._graph.inner(found):
                    live |= self._register(found)
            best.update(grown)
            frontier = sorted(grown)
        return best, live

    def step(self, function: Function, live: int, stopped_at: int | None = None) -> Targets:
        """Definitions that a function's body uses, each with its share of the weight."""
        body = self._body(function)
        if body.seen != len(self._holders):
            body.seen = len(self._holders)
            body.owners = 0
            for name in body.names:
                body.owners |= self._having.get(name, 0)
        relevant = body.owners & live
        if stopped_at is None and (function, relevant) in self._stepped:
            return self._stepped[function, relevant]
        weights = self._weights(function, stopped_at) if stopped_at is not None else {}
        best: dict[Function, float] = {}
        for meaning in body.meanings if weights else body.distinct:
            line = weights.get(meaning.line, 0.0) if weights else 1.0
            for target, share in self._targets(meaning, relevant) if line else ():
                if target != function and share * line > best.get(target, 0.0):
                    best[target] = share * line
        found = tuple(sorted(best.items()))
        if stopped_at is None:
            self._stepped[function, relevant] = found
        return found

    def _targets(self, meaning: _Meaning, live: int) -> Targets:
        if not meaning.name:
            return meaning.fixed
        key = (meaning.name, meaning.within, live & self._having.get(meaning.name, 0))
        if key not in self._meant:
            self._meant[key] = self._members_of(*key)
        found = self._meant[key]
        if meaning.fixed:
            found = tuple(sorted({*found, *(t for t, _ in meaning.fixed)}))
        if not found:
            return meaning.fallback
        share = meaning.weight / math.sqrt(len(found))
        return tuple((t, share) for t in found)

    def _members_of(self, name: str, within: Function | None, live: int) -> tuple[Function, ...]:
        """What a member's name means over live holders, or over a class and those that derive from it."""
        classes = [holder for n, holder in enumerate(self._holders) if live >> n & 1]
        if within is not None:
            classes = [c for c in classes if within in self._graph.mro(c)] or [within]
        return tuple(sorted({t for cls in classes if (t := self._member(cls, name)) is not None}))

    def _member(self, cls: Function, name: str) -> Function | None:
        key = (cls, name)
        if key not in self._members:
            self._members[key] = self._graph.lookup(cls, name)
        return self._members[key]

    def _register(self, holder: Function) -> int:
        """The bit of a class or of a function with others inside; the names of what it has are noted."""
        if holder in self._bits:
            return self._bits[holder]
        bit = self._bits[holder] = 1 << len(self._holders)
        self._holders.append(holder)
        graph = self._graph
        order = graph.mro(holder) if graph.symbol(holder).kind in CLASSES else (holder,)
        for member in (m for cls in order for m in graph.methods(cls)):
            name = graph.symbol(member).name
            self._having[name] = self._having.get(name, 0) | bit
        return bit

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
                meanings += self._dispatched(function)
            names = frozenset(m.name for m in meanings if m.name)
            distinct = tuple(dict.fromkeys(replace(m, line=0) for m in meanings))
            self._bodies[function] = _Body(meanings, distinct, names)
        return self._bodies[function]

    def _dispatched(self, function: Function) -> Iterator[_Meaning]:
        """Methods that are looked up by a name made of a prefix and something known at run time only."""
        owner = self._graph.owner(function)
        if owner is None:
            return
        for prefix in dispatched(self._graph.text(function)):
            order = self._graph.mro(owner)
            targets = [m for cls in order for m in self._graph.methods(cls)]
            fitting = [m for m in targets if self._graph.symbol(m).name.startswith(prefix) and m != function]
            line = self._graph.symbol(function).line_end
            yield _Meaning(line, tuple((m, DISPATCHED) for m in fitting))

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
