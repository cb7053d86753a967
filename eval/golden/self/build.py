"""Looks up the anchors of `questions.txt` in the repository and writes `questions.jsonl`.

python eval/golden/self/build.py
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
HEADING = re.compile(r"(#+)\s+(.*?)\s*#*")


class AnchorGone(ValueError):
    """An anchor that the repository doesn't have any more."""


def lines_of(anchor: str) -> str:
    """`path:first-last` of an anchor; a bare path where it has no part.

    Raises:
        AnchorGone: there is no such file, definition or heading.
    """
    path, _, symbol = anchor.partition("::")
    page, _, heading = path.partition("#")
    file = ROOT / page
    if not file.is_file():
        raise AnchorGone(f"{anchor}: no such file")
    text = file.read_text(encoding="utf-8")
    if symbol:
        first, last = _definition(ast.parse(text), symbol.split("."), anchor)
        return f"{page}:{first}-{last}"
    if heading:
        first, last = _section(text.split("\n"), heading, anchor)
        return f"{page}:{first}-{last}"
    return page


def _definition(tree: ast.AST, names: list[str], anchor: str) -> tuple[int, int]:
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if node.name == names[0]:
            if len(names) > 1:
                return _definition(node, names[1:], anchor)
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            return first, node.end_lineno or node.lineno
    raise AnchorGone(f"{anchor}: no definition {names[0]}")


def _section(lines: list[str], heading: str, anchor: str) -> tuple[int, int]:
    found = [(n, m) for n, line in enumerate(lines, 1) if (m := HEADING.fullmatch(line))]
    for at, (number, match) in enumerate(found):
        if match[2] == heading:
            after = (n for n, m in found[at + 1 :] if len(m[1]) <= len(match[1]))
            last = next(after, len(lines) + 1) - 1
            while last > number and not lines[last - 1].strip():
                last -= 1
            return number, last
    raise AnchorGone(f"{anchor}: no heading {heading!r}")


def rows() -> list[dict[str, object]]:
    """The questions with their gold as it is now."""
    found: list[dict[str, object]] = []
    lines = (HERE / "questions.txt").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate((x for x in lines if x and not x.startswith("#")), 1):
        kind, question, anchors = (part.strip() for part in line.split("|"))
        gold = [lines_of(anchor.strip()) for anchor in anchors.split(",")]
        found.append(
            {"id": f"self-{number:02d}", "question": question, "gold": gold, "lang": "en", "kind": kind}
        )
    return found


def main() -> None:
    """Write `questions.jsonl` beside this file."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    (HERE / "questions.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
