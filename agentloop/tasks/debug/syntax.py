"""Python source as a tree, within bounds, and its functions and blocks: what patterns are looked for in."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

MAX_BYTES = 400_000
MAX_DEPTH = 60  # brackets and indentation; deeper code is made by machines
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Oddity:
    """What is odd, on which line (1-based in the file), and how seldom it is meant (0..1)."""

    name: str
    line: int
    weight: float


def parsed(data: bytes) -> ast.Module | None:
    """The module's tree; None where it is no Python, or nested so deeply that the parser might not return."""
    if len(data) > MAX_BYTES or _depth(data) > MAX_DEPTH:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _depth(data: bytes) -> int:
    depth = most = 0
    for byte in data:
        if byte in b"([{":
            depth += 1
            most = max(most, depth)
        elif byte in b")]}":
            depth = max(0, depth - 1)
    return most


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a module, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            yield node


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a body in source order, functions inside it as single nodes."""
    stack = list(reversed(list(ast.iter_child_nodes(function))))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, SCOPES):
            stack.extend(reversed(list(ast.iter_child_nodes(node))))


def blocks(function: ast.AST) -> Iterator[tuple[ast.AST, list[ast.stmt]]]:
    for node in [function, *own_nodes(function)]:
        if isinstance(node, SCOPES) and node is not function:
            continue
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield node, block
