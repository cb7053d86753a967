"""Odd constructs of the functions of a graph: each file is parsed once, when a suspect lies in it."""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentloop.tasks.codegraph import CLASSES, CodeGraph, Function
from agentloop.tasks.debug.oddities import oddities
from agentloop.tasks.debug.syntax import Oddity, functions_of, parsed

MAX_MEANINGS = 3  # definitions of a called name; of more the right parameters can't be told


def rarest(found: Mapping[Function, Sequence[Oddity]]) -> dict[Function, Oddity]:
    """The weightiest oddity of each function, weighed by how seldom this code does the like.

    What a code base does often is its style: a weight is divided by the root of how many functions have it.
    """
    having = Counter(name for odd in found.values() for name in {o.name for o in odd})
    weighed = {
        function: [replace(o, weight=o.weight / math.sqrt(having[o.name])) for o in odd]
        for function, odd in found.items()
    }
    return {f: max(odd, key=lambda o: (o.weight, -o.line)) for f, odd in weighed.items() if odd}


class Anomalies:
    """The odd constructs of definitions."""

    def __init__(self, graph: CodeGraph) -> None:
        self._graph = graph
        self._files: dict[int, dict[int, ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        self._sources: dict[int, str] = {}
        self._parameters: dict[str, list[tuple[str, ...]]] = {}

    def of(self, function: Function) -> list[Oddity]:
        """Those of one function, strongest first."""
        node = self._node(function)
        if node is None:
            return []
        return oddities(node, self._sources[function.file], self._named)

    def _node(self, function: Function) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        source = self._graph.source(function)
        if source.language != "python":
            return None
        if function.file not in self._files:
            data = source.content.read(0, source.content.size)
            tree = parsed(data)
            self._sources[function.file] = data.decode("utf-8", "replace")
            self._files[function.file] = {n.lineno: n for n in functions_of(tree)} if tree else {}
        symbol = self._graph.symbol(function)
        inside = self._files[function.file]
        return next(
            (
                inside[n]
                for n in range(symbol.line_start, symbol.line_end + 1)
                if n in inside and inside[n].name == symbol.name
            ),
            None,
        )

    def _named(self, name: str) -> Sequence[tuple[str, ...]]:
        if name not in self._parameters:
            found = []
            targets = self._graph.everywhere(name) if self._graph.defines(name) else []
            for target in targets[: MAX_MEANINGS + 1]:
                made = None
                if self._graph.symbol(target).kind in CLASSES:
                    made = self._graph.lookup(target, "__init__")
                node = self._node(target if made is None else made)
                if node is not None:
                    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
                    found.append(tuple(names[1:] if names[:1] in (["self"], ["cls"]) else names))
            self._parameters[name] = found if len(found) <= MAX_MEANINGS else []
        return self._parameters[name]
