"""Constructs of a function that are seldom meant: what linters and bug-pattern checkers look for.

Each pattern is one that a known checker reports (pylint, pyflakes, mypy's None checks; swapped arguments by
names: Pradel and Sen 2018, "DeepBugs"). They say nothing alone; on the path of a failing test they do.
Only Python is looked at, through its own parser; nothing is run.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

from agentloop.tasks.debug.nones import misused_nones, nones_after_returns
from agentloop.tasks.debug.syntax import FUNCTIONS, Oddity, blocks, own_nodes

Parameters = Callable[[str], Sequence[tuple[str, ...]]]
"""The parameter names of each definition of a bare name, without `self`."""


def oddities(
    function: ast.FunctionDef | ast.AsyncFunctionDef, source: str, parameters: Parameters
) -> list[Oddity]:
    """The odd constructs of a function's own body, not of functions inside it."""
    nodes = list(own_nodes(function))
    found = [
        *_negations(nodes, source),
        *_passes(function),
        *_returns(function, nodes),
        *_dead(function, nodes),
        *misused_nones(nodes),
        *nones_after_returns(function),
        *_flags(function, nodes),
        *_guards(nodes),
        *_bounds(nodes),
        *_swapped(nodes, parameters),
    ]
    return sorted(found, key=lambda o: (-o.weight, o.line, o.name))


def _negations(nodes: Sequence[ast.AST], source: str) -> Iterator[Oddity]:
    """`not a == b`, and brackets around a single operand of `not`."""
    for node in nodes:
        if not (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            continue
        if isinstance(node.operand, ast.Compare) and len(node.operand.ops) == 1:
            yield Oddity("negated comparison", node.lineno, 0.9)
        elif isinstance(node.operand, ast.BoolOp) and all(_negative(v) for v in node.operand.values):
            yield Oddity("negated negations", node.lineno, 0.9)
        elif not isinstance(node.operand, ast.BoolOp | ast.IfExp | ast.NamedExpr | ast.Compare):
            text = _segment(source, node)
            if (
                text[3:].lstrip().startswith("(")
                and text.endswith(")")
                and not isinstance(node.operand, ast.Tuple | ast.GeneratorExp)
            ):
                inner = _segment(source, node.operand)
                if len(text) >= len(inner) + 5:
                    yield Oddity("bracketed negation", node.lineno, 0.9)


@functools.lru_cache(maxsize=4)
def _lines(source: str) -> tuple[bytes, ...]:
    return tuple(source.encode("utf-8").splitlines(keepends=True))


def _segment(source: str, node: ast.expr) -> str:
    """A node's text. `ast.get_source_segment` splits the whole file into lines anew for each node."""
    if node.end_lineno is None or node.end_col_offset is None:
        return ""
    lines = _lines(source)[node.lineno - 1 : node.end_lineno]
    before, after = node.col_offset, len(lines[-1]) - node.end_col_offset
    text = b"".join(lines)
    return text[before : len(text) - after].decode("utf-8")


def _negative(node: ast.expr) -> bool:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return isinstance(node.ops[0], ast.IsNot | ast.NotIn | ast.NotEq)
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _passes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Oddity]:
    """`pass` beside other statements, or as all that a loop, a `with` or an `else` does."""
    for node, block in blocks(function):
        plain = [s for s in block if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        for statement in block:
            if isinstance(statement, ast.Pass):
                if len(plain) > 1:
                    yield Oddity("needless pass", statement.lineno, 1.0)
                elif isinstance(node, ast.If | ast.With | ast.For | ast.While):
                    chain = isinstance(node, ast.If) and block is node.body and node.orelse
                    if not chain:
                        yield Oddity("empty block", statement.lineno, 0.6)


def _returns(function: ast.FunctionDef | ast.AsyncFunctionDef, nodes: Sequence[ast.AST]) -> Iterator[Oddity]:
    """`return None` in a function that has no other return, or whose annotation promises a value."""
    if isinstance(function.returns, ast.Constant) and function.returns.value is None:
        return
    returns = [n for n in nodes if isinstance(n, ast.Return)]
    nones = [r for r in returns if isinstance(r.value, ast.Constant) and r.value.value is None]
    values = [r for r in returns if r.value is not None and r not in nones]
    yields = any(isinstance(n, ast.Yield | ast.YieldFrom) for n in nodes)
    promised = function.returns is not None and not any(
        word in ast.dump(function.returns) for word in ("None", "Optional", "Any", "NoReturn", "'T'")
    )
    for place in nones:
        if yields:
            continue
        if not values or promised:
            yield Oddity("returns only None", place.lineno, 1.0)
        elif function.body and place is function.body[-1]:
            yield Oddity("ends with None", place.lineno, 0.4)
        else:
            yield Oddity("returns None", place.lineno, 0.15)


def _dead(function: ast.FunctionDef | ast.AsyncFunctionDef, nodes: Sequence[ast.AST]) -> Iterator[Oddity]:
    """Values that are made and never read: variables, functions inside."""
    read = {
        n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load | ast.Del)
    }
    outer = {name for n in ast.walk(function) if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
    if any(isinstance(n, ast.Name) and n.id in ("locals", "vars", "exec", "eval") for n in nodes):
        return
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if (
                    isinstance(target, ast.Name)
                    and target.id not in read | outer
                    and not target.id.startswith("_")
                ):
                    yield Oddity("value never read", node.lineno, 0.7)
        elif isinstance(node, FUNCTIONS) and node.name not in read | outer and not node.decorator_list:
            yield Oddity("function never used", node.lineno, 0.9)


def _flags(function: ast.FunctionDef | ast.AsyncFunctionDef, nodes: Sequence[ast.AST]) -> Iterator[Oddity]:
    """A variable that is set more than once, always to the same constant: a flag that never changes."""
    given: dict[str, list[ast.Assign]] = {}
    changed = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    for node in ast.walk(function):
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and isinstance(target, ast.Name)
        ):
            given.setdefault(target.id, []).append(node)
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            changed.add(node.id)
    counted = {
        name: sum(
            isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
            for n in ast.walk(function)
        )
        for name in given
    }
    own = {id(node) for node in nodes}
    for name, places in given.items():
        same = {repr(p.value.value) for p in places if isinstance(p.value, ast.Constant)}
        if len(places) > 1 and len(same) == 1 and counted[name] == len(places) and id(places[-1]) in own:
            yield Oddity("flag that never changes", places[-1].lineno, 0.8)


def _guards(nodes: Sequence[ast.AST]) -> Iterator[Oddity]:
    """A key taken where it is known to be missing; an error raised for what is right."""
    for node in nodes:
        if not isinstance(node, ast.If):
            continue
        test, negated = node.test, False
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, negated = test.operand, not negated
        if (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and isinstance(test.ops[0], ast.In | ast.NotIn)
        ):
            missing = isinstance(test.ops[0], ast.NotIn) != negated
            item = f"{ast.unparse(test.comparators[0])}[{ast.unparse(test.left)}]"
            block = node.body if missing else node.orelse
            if block and any(
                isinstance(p, ast.Subscript)
                and isinstance(p.ctx, ast.Load | ast.Del)
                and ast.unparse(p) == item
                for p in ast.walk(block[0])
            ):
                yield Oddity("missing key taken", node.lineno, 0.9)
        if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and not negated:
            checks = test.func.id in ("isinstance", "issubclass", "callable", "hasattr")
            if checks and isinstance(node.body[0], ast.Raise) and not node.orelse:
                yield Oddity("error for what is right", node.lineno, 0.25)


def _bounds(nodes: Sequence[ast.AST]) -> Iterator[Oddity]:
    """Conditions, and comparisons of a length or of a search's result, that can't be what was meant."""
    for node in nodes:
        if isinstance(node, ast.If | ast.While | ast.IfExp) and isinstance(node.test, ast.Constant):
            forever = isinstance(node, ast.While) and bool(node.test.value)
            if not forever:
                yield Oddity("constant condition", node.lineno, 1.0)
        if not (isinstance(node, ast.Compare) and len(node.ops) == 1):
            continue
        op, left, right = node.ops[0], node.left, node.comparators[0]
        if _is_len(left) and isinstance(right, ast.Constant) and type(right.value) is int:
            always = (isinstance(op, ast.GtE | ast.Lt) and right.value <= 0) or right.value < 0
            if always:
                yield Oddity("length compared with nothing", node.lineno, 0.9)
        if isinstance(op, ast.LtE) and _is_len(right) and isinstance(left, ast.Name | ast.Attribute):
            yield Oddity("index up to the length", node.lineno, 0.3)
        if isinstance(right, ast.UnaryOp) and isinstance(right.op, ast.USub):
            inner = right.operand
            if isinstance(inner, ast.Constant) and type(inner.value) is int and inner.value > 1:
                yield Oddity("odd negative constant", node.lineno, 0.5)


def _is_len(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"


_BUILTIN_ORDER: Mapping[str, str] = {
    "isinstance": "class",
    "issubclass": "class",
    "getattr": "name",
    "hasattr": "name",
    "setattr": "name",
}


def _swapped(nodes: Sequence[ast.AST], parameters: Parameters) -> Iterator[Oddity]:
    """Arguments whose names are those of each other's parameters."""
    for node in nodes:
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            continue
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        first, second = node.args[0], node.args[1]
        if called in _BUILTIN_ORDER and isinstance(node.func, ast.Name):
            if _wrong_builtin(called, first, second):
                yield Oddity("swapped arguments", node.lineno, 1.0)
            continue
        given = [_word(a) for a in node.args]
        for names in parameters(called):
            for n in range(min(len(names), len(given)) - 1):
                a, b = given[n], given[n + 1]
                if a and b and a != b and a == names[n + 1] and b == names[n]:
                    yield Oddity("swapped arguments", node.lineno, 1.0)
                elif (
                    a
                    and b
                    and a != b
                    and ((a == names[n + 1] and b not in names) or (b == names[n] and a not in names))
                ):
                    yield Oddity("arguments of other names", node.lineno, 0.2)


def _wrong_builtin(called: str, first: ast.expr, second: ast.expr) -> bool:
    if _BUILTIN_ORDER[called] == "name":
        return isinstance(first, ast.Constant)

    def cls(e: ast.expr) -> bool:
        w = _word(e)
        return (
            isinstance(e, ast.Tuple)
            or w[:1].isupper()
            or w in ("str", "int", "list", "dict", "tuple", "bytes", "set", "float", "type", "bool")
        )

    return cls(first) and not cls(second)


def _word(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""
