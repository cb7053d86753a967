"""Small, realistic faults in Python source: one textual edit inside one function.

The kinds are those of mutation testing (the operators of mutmut and cosmic-ray, by name): comparison,
arithmetic, boolean, condition, constant, return, argument, statement.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

KINDS = ("comparison", "arithmetic", "boolean", "condition", "constant", "return", "argument", "statement")

_COMPARE = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
_ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*", ast.Mod: "*", ast.Div: "*"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One edit: replace bytes `[start, end)` of the source by `new`, inside `function`."""

    kind: str
    function: str  # qualified: Class.method, outer.inner
    line: int
    start: int
    end: int
    new: bytes

    def apply(self, source: bytes) -> bytes:
        """The source with the fault in it."""
        return source[: self.start] + self.new + source[self.end :]


class _Source:
    """Byte offsets of AST positions."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.starts = [0]
        for line in data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self.at(node.lineno, node.col_offset), self.at(end_line, end_column)

    def text(self, node: ast.expr | ast.stmt) -> bytes:
        start, end = self.span(node)
        return self.data[start:end]


def mutations(data: bytes, kinds: tuple[str, ...] = KINDS) -> Iterator[Mutation]:
    """Every mutation of a module, in source order of its functions.

    Raises:
        SyntaxError: the module is not Python of this version.
    """
    source = _Source(data)
    for name, function in _functions(ast.parse(data), ""):
        for node in _own_nodes(function):
            for kind, start, end, new in _edits(node, source):
                if kind in kinds:
                    yield Mutation(kind, name, node.lineno, start, end, new)


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield prefix + child.name, child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.If | ast.Try):
            yield from _functions(child, prefix)


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.expr | ast.stmt]:
    """Nodes of a function's body, without those of functions inside it and without its docstring."""
    body = function.body
    if ast.get_docstring(function) is not None:
        body = body[1:]
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.JoinedStr):
            continue
        if isinstance(node, ast.expr | ast.stmt):
            yield node
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _edits(node: ast.expr | ast.stmt, source: _Source) -> Iterator[tuple[str, int, int, bytes]]:
    """The edits that a node allows: kind, start, end, new bytes."""
    yield from _operator_edits(node, source)
    yield from _value_edits(node, source)
    yield from _flow_edits(node, source)


def _operator_edits(node: ast.expr | ast.stmt, source: _Source) -> Iterator[tuple[str, int, int, bytes]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        kind, left, right, new = "comparison", node.left, node.comparators[0], _COMPARE[type(node.ops[0])]
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _is_text(node):
        kind, left, right, new = "arithmetic", node.left, node.right, _ARITHMETIC[type(node.op)]
    elif isinstance(node, ast.BoolOp):
        kind, left, right = "boolean", node.values[0], node.values[1]
        new = "or" if isinstance(node.op, ast.And) else "and"
    else:
        return
    start, end = source.span(left)[1], source.span(right)[0]
    if not set(source.data[start:end]) & set(b"()\n"):
        yield kind, start, end, f" {new} ".encode()


def _value_edits(node: ast.expr | ast.stmt, source: _Source) -> Iterator[tuple[str, int, int, bytes]]:
    start, end = source.span(node)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield "constant", start, end, str(node.value + 1).encode()
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "constant", start, end, str(not node.value).encode()
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield "return", start, end, b"return None"
    elif isinstance(node, ast.Call) and len(node.args) == 2 and not node.keywords:
        first, second = node.args
        if not any(isinstance(a, ast.Starred) for a in node.args):
            begin, stop = source.span(first)[0], source.span(second)[1]
            yield "argument", begin, stop, source.text(second) + b", " + source.text(first)


def _flow_edits(node: ast.expr | ast.stmt, source: _Source) -> Iterator[tuple[str, int, int, bytes]]:
    if isinstance(node, ast.If | ast.While):
        start, end = source.span(node.test)
        if b"\n" not in source.data[start:end]:
            yield "condition", start, end, b"not (" + source.data[start:end] + b")"
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield "statement", *source.span(node), b"pass"


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operation works on string literals, where another operator is a type error at once."""
    sides = (node.left, node.right)
    return any(
        isinstance(s, ast.JoinedStr) or (isinstance(s, ast.Constant) and isinstance(s.value, str))
        for s in sides
    )
