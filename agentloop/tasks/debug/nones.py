"""None where a value is meant: checks that are the wrong way round, as mypy's narrowing finds them."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence

from agentloop.tasks.debug.syntax import Oddity, blocks

_PLACES = (ast.Name, ast.Attribute, ast.Subscript)


def _is_none_test(test: ast.AST) -> tuple[str, bool] | None:
    """Name and truth of `x is None` (True) or `x is not None` (False)."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Is | ast.IsNot):
        right = test.comparators[0]
        if isinstance(right, ast.Constant) and right.value is None and isinstance(test.left, _PLACES):
            return ast.unparse(test.left), isinstance(test.ops[0], ast.Is)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _is_none_test(test.operand)
        return (inner[0], not inner[1]) if inner else None
    return None


def _uses_value(node: ast.AST, name: str) -> bool:
    """Whether code takes a member or an item of a name, or calls it, before giving it a value."""
    for part in ast.walk(node):
        if isinstance(part, ast.Assign) and any(ast.unparse(t) == name for t in part.targets):
            return False
        value = None
        if isinstance(part, ast.Attribute | ast.Subscript):
            value = part.value
        elif isinstance(part, ast.Call):
            value = part.func
        elif isinstance(part, ast.For):
            value = part.iter
        if value is not None and isinstance(value, ast.Name | ast.Attribute) and ast.unparse(value) == name:
            return True
    return False


def misused_nones(nodes: Sequence[ast.AST]) -> Iterator[Oddity]:
    """None taken for a value, a value that is given overwritten by its default."""
    for node in nodes:
        if isinstance(node, ast.If | ast.IfExp):
            told = _is_none_test(node.test)
            if told:
                name, none = told
                body = node.body if isinstance(node, ast.If) else [node.body]
                other = node.orelse if isinstance(node, ast.If) else [node.orelse]
                where_none, where_not = (body, other) if none else (other, body)
                if any(_uses_value(part, name) for part in where_none[:1]):
                    yield Oddity("None used as a value", node.lineno, 1.0)
                elif isinstance(node, ast.If) and where_none and _gives_on(where_none[0], name):
                    yield Oddity("None given on", node.lineno, 0.7)
                if (
                    isinstance(node, ast.If)
                    and len(where_not) == 1
                    and isinstance(where_not[0], ast.Assign)
                    and not where_none
                ):
                    set_ = where_not[0]
                    if ast.unparse(set_.targets[0]) == name and name not in ast.unparse(set_.value):
                        yield Oddity("value overwritten", node.lineno, 0.9)
                if isinstance(node, ast.IfExp) and ast.unparse(where_none[0]) == name:
                    yield Oddity("None chosen", node.lineno, 0.9)
        if isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:], strict=False):
                told = _is_none_test(left)
                if told and told[1] == isinstance(node.op, ast.And) and _uses_value(right, told[0]):
                    yield Oddity("None used as a value", node.lineno, 1.0)


def nones_after_returns(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Oddity]:
    """None taken for a value behind `if x is not None: return …`."""
    for _, block in blocks(function):
        for statement, following in itertools.pairwise(block):
            if not isinstance(statement, ast.If) or statement.orelse:
                continue
            told = _is_none_test(statement.test)
            leaves = isinstance(statement.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
            if told and not told[1] and leaves and _uses_value(following, told[0]):
                yield Oddity("None used as a value", statement.lineno, 1.0)


def _gives_on(statement: ast.AST, name: str) -> bool:
    """Whether a statement yields or returns just a name."""
    value = statement.value if isinstance(statement, ast.Return | ast.Expr) else None
    value = (
        value.value if isinstance(value, ast.Yield) else value if isinstance(statement, ast.Return) else None
    )
    return value is not None and ast.unparse(value) == name
