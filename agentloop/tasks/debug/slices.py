"""Which lines of a function led to the line where it stopped: a backward slice by names (Weiser 1981).

What stands after the line likely did not run. What computed the values on the line weighs more than what
merely ran before it: had that been wrong, the test would often have stopped there.
"""

from __future__ import annotations

import re

SLICED = 0.8  # a line that computed something the failing statement uses
BEFORE = 0.3  # a line that ran before and has nothing to do with it
AFTER = 0.05  # a line that likely did not run
_WORD = re.compile(r"[A-Za-z_]\w*")
_LOOP = re.compile(r"\s*(?:async )?(?:for|while)\b")
_BLOCK = re.compile(r"\s*(?:async )?(?:for|while|with|if|elif|else|try|switch|match)\b")
_HEAD = re.compile(r"\s*(?:async )?with\b")
_TRY = re.compile(r"\s*try\b")
_HANDLER = re.compile(r"[\s}]*(?:except|catch|finally|rescue)\b")
_BOUND = re.compile(r"\bfor\s+(.+?)\s+in\b|\bas\s+(\w+)|^\s*(?:async )?def\s+(\w+)|^\s*class\s+(\w+)")
_KEYWORDS = frozenset(
    {"assert", "self", "this", "and", "or", "not", "in", "is", "if", "else", "for", "while", "with", "as"}
    | {"return", "raise", "None", "True", "False", "lambda", "new", "def", "null", "true", "false", "const"}
    | {"let", "var", "await", "async", "import", "from"}
)


def line_weights(text: str, first_line: int, failing_line: int) -> dict[int, float]:
    """The weight of each line of a function that stopped at `failing_line`; other lines weigh nothing.

    Args:
        text: the function without comments and strings; its first line is `first_line` of the file.
    """
    statements = _statements(text.split("\n"))
    at = next(
        (i for i, (first, last, _) in enumerate(statements) if first <= failing_line - first_line <= last),
        None,
    )
    if at is None:
        return {}
    first, last, failing = statements[at]
    weights = dict.fromkeys(range(first, last + 1), 1.0)
    names = set(_WORD.findall(failing)) - _KEYWORDS
    indent = _indent(failing)
    looped, tried = False, set[int]()
    for first, last, statement in reversed(statements[:at]):
        weight = BEFORE
        if _indent(statement) < indent and _BLOCK.match(statement):
            looped = looped or _LOOP.match(statement) is not None
            tried |= {_indent(statement)} if _TRY.match(statement) else set()
            indent = _indent(statement)
            weight = SLICED
        if weight == SLICED or _binds(statement) & names:
            names |= set(_WORD.findall(statement)) - _KEYWORDS
            weight = SLICED
        weights.update(dict.fromkeys(range(first, last + 1), weight))
    handling = -1
    held = _indent(failing) if _HEAD.match(failing) else -1  # `with raises(…):` stops at its head
    for first, last, statement in statements[at + 1 :]:
        if _indent(statement) <= handling:
            handling = -1
        if held >= 0 and _indent(statement) > held:
            weights.update(dict.fromkeys(range(first, last + 1), 1.0))
            continue
        held = -1
        if _indent(statement) in tried and _HANDLER.match(statement):
            handling = _indent(statement)
        if handling >= 0:
            weights.update(dict.fromkeys(range(first, last + 1), SLICED))
        elif looped:  # what stands below in the loop ran in earlier rounds
            weights.update(dict.fromkeys(range(first, last + 1), BEFORE))
        else:
            weights.update(dict.fromkeys(range(first, last + 1), AFTER))
    return {first_line + line: weight for line, weight in weights.items()}


def _statements(lines: list[str]) -> list[tuple[int, int, str]]:
    """First and last line, and text, of each statement: lines are joined while brackets are open."""
    found = []
    depth, start = 0, 0
    for at, line in enumerate(lines):
        if depth == 0:
            start = at
        depth = max(0, depth + sum(line.count(c) for c in "([") - sum(line.count(c) for c in ")]"))
        if depth == 0 and any(part.strip() for part in lines[start : at + 1]):
            found.append((start, at, "\n".join(lines[start : at + 1])))
    if depth:
        found.append((start, len(lines) - 1, "\n".join(lines[start:])))
    return found


def _binds(statement: str) -> set[str]:
    """Names that a statement gives a value, or whose value it may change: `x =`, `x.push(`, `for x in`."""
    bound = {name for match in _BOUND.findall(statement) for part in match for name in _WORD.findall(part)}
    left = re.split(r"(?<![=!<>])=(?!=)", statement, maxsplit=1)
    if len(left) > 1 and "(" not in left[0]:
        return bound | set(_WORD.findall(left[0]))
    head = re.match(r"\s*([A-Za-z_]\w*)\s*[.\[]", statement)
    return bound | ({head[1]} if head else set())


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" \t"))
