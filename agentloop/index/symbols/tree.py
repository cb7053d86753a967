"""Definitions and calls of one file, from tree-sitter's tree. Runs in the parse worker only.

This module imports nothing of the package but the tables beside it, so that the worker starts fast; it
may be run by path. Nothing here recurses: hostile input nests as deep as it likes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tree_sitter import Node, Query

SIGNATURE_CHARS = 240
DOC_CHARS = 400
NAME_CHARS = 200
MATCH_LIMIT = 4096
"""Matches that tree-sitter keeps in progress; past it the oldest are dropped, so memory is bounded."""
_COMMENT_LINES = 60

_WRAPPERS = frozenset(
    {
        "decorated_definition", "export_statement", "lexical_declaration", "variable_declaration",
        "template_declaration", "type_declaration", "ambient_declaration", "const_declaration",
        "var_declaration", "expression_statement", "declaration", "decl_def", "attributed_statement",
    }
)  # fmt: skip
"""A parent that holds one definition and belongs to its span: `export`, decorators, `template<…>`."""
_ATTRIBUTES = frozenset({"attribute_item", "decorator", "annotation", "attribute_list", "marker_annotation"})
_OWNERS = frozenset(
    {
        "class", "struct", "interface", "trait", "impl", "enum", "object", "record", "protocol", "extension",
        "mixin", "contract", "library", "annotation", "instance",
    }
)  # fmt: skip
"""A function inside one of these is a method."""
_QUALIFIED = frozenset({"function", "method", "class", "struct", "constructor"})
"""Kinds whose name may carry its scope (`A::f`), which is then the parent."""
_TAGGED = frozenset({"struct", "union", "enum"})
"""In C, what a `typedef` around them names is not their owner."""
_BODIES = frozenset(
    {
        "block", "class_body", "statement_block", "compound_statement", "field_declaration_list", "body",
        "declaration_list", "enum_body", "interface_body", "constructor_body", "function_body", "do_block",
        "template_body", "enum_class_body", "protocol_body", "body_statement", "match_block", "object",
        "enum_declaration_list", "enum_member_declaration_list", "annotation_type_body", "object_type",
        "enum_variant_list", "switch_body", "implementation_definition", "structure", "record_declaration",
    }
)  # fmt: skip
_NAME_TAIL = re.compile(r"^(?:[*&(\s]|'\w+\s|mut\s|dyn\s)+|[<(\[].*$", re.DOTALL)
_NEVER_NAMES = frozenset({"if", "else", "for", "while", "switch", "return"})
"""What error recovery takes for a function's name in C's macros."""

Row = list[Any]
"""A definition as it crosses the pipe: name, kind, parent, start, end, signature, doc."""


def read(data: bytes, root: Node, query: Query) -> tuple[list[Row], dict[str, list[int]]]:
    """The definitions in order of their start, and for each called name the byte offsets of its calls."""
    from tree_sitter import QueryCursor

    found: dict[tuple[int, int], tuple[int, str, Node, str, str]] = {}
    calls: dict[str, list[int]] = {}
    cursor = QueryCursor(query, match_limit=MATCH_LIMIT)
    for pattern, captures in cursor.matches(root):
        kind, name, parent, node = "", "", "", None
        for capture, nodes in captures.items():
            if capture == "call":
                text = _text(data, nodes[0])
                calls.setdefault(text, []).append(nodes[0].start_byte)
            elif capture == "name":
                name = _text(data, nodes[0])
            elif capture == "parent":
                parent = _NAME_TAIL.sub("", _text(data, nodes[0]))
            elif not capture.startswith("_"):
                kind, node = capture, nodes[0]
        if node is not None and name and name not in _NEVER_NAMES:
            key = (node.start_byte, -node.end_byte)
            if key not in found or pattern < found[key][0]:
                found[key] = (pattern, kind, node, name, parent)
    rows = [_row(data, *found[key][1:]) for key in sorted(found)]
    _set_parents(rows)
    return rows, calls


def _text(data: bytes, node: Node) -> str:
    return data[node.start_byte : min(node.end_byte, node.start_byte + NAME_CHARS)].decode("utf-8", "replace")


def _row(data: bytes, kind: str, node: Node, name: str, parent: str) -> Row:
    """One definition with its full span, signature and doc."""
    outer = node
    above = node.parent
    while above is not None and above.type in _WRAPPERS and _single(above):
        outer, above = above, above.parent
    start = outer.start_byte
    before = outer.prev_sibling
    while before is not None and before.type in _ATTRIBUTES:
        start, before = before.start_byte, before.prev_sibling
    doc = _docstring(data, node) or comment_above(data, start)
    name = _NAME_TAIL.sub("", name) or name
    if "::" in name and kind in _QUALIFIED:
        scope, name = name.rsplit("::", 1)
        parent = f"{parent}::{scope}" if parent else scope
    parent = parent.replace("::", ".")
    return [name, kind, parent, start, outer.end_byte, _signature(data, node, outer), doc]


def _single(node: Node) -> bool:
    """Whether a wrapper holds one definition only, beside its decorators and comments."""
    named = [c for c in node.named_children if c.type not in _ATTRIBUTES and "comment" not in c.type]
    kinds = [
        c
        for c in named
        if "parameter" not in c.type and "modifier" not in c.type and c.type != "type_identifier"
    ]
    return len(kinds) == 1


def _signature(data: bytes, node: Node, outer: Node) -> str:
    """The head of a definition, from its keyword to its body, on one line."""
    start = node.start_byte
    if outer is not node and outer.type not in {"decorated_definition", "template_declaration"}:
        start = outer.start_byte
    body = node.child_by_field_name("body")
    if body is None:
        body = next((child for child in node.children if child.type in _BODIES), None)
    if body is None:
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        body = value.child_by_field_name("body") if value is not None else None
    end = body.start_byte if body is not None and body.start_byte > start else node.end_byte
    end = min([end, *(child.start_byte for child in node.children if "comment" in child.type)])
    text = data[start : min(end, start + 4 * SIGNATURE_CHARS)].decode("utf-8", "replace")
    if body is None:
        text = _head(text)
    text = " ".join(text.split()).removesuffix("=>").rstrip(" :{=")
    return text if len(text) <= SIGNATURE_CHARS else text[: SIGNATURE_CHARS - 1] + "…"


def _head(text: str) -> str:
    """The first line, and as many more as its brackets stay open."""
    lines = text.splitlines()
    opened = 0
    for at, line in enumerate(lines):
        opened += sum(line.count(mark) for mark in "([{") - sum(line.count(mark) for mark in ")]}")
        if opened <= 0 or line.rstrip().endswith("{"):
            return "\n".join(lines[: at + 1])
    return text


def _docstring(data: bytes, node: Node) -> str:
    """A string that is the first statement of a body (Python, Starlark)."""
    body = node.child_by_field_name("body")
    if body is None or body.type != "block" or not body.named_children:
        return ""
    first = body.named_children[0]
    if first.type == "expression_statement" and first.named_children:
        first = first.named_children[0]
    if first.type != "string":
        return ""
    raw = data[first.start_byte : min(first.end_byte, first.start_byte + 4 * DOC_CHARS)]
    text = raw.decode("utf-8", "replace").lstrip("rRuUbBfF")
    return clean_doc(text.strip("\"'"))


_COMMENT_LINE = re.compile(rb"[ \t]*(?:///?!?|//!|#+(?=[\s#]|$)|/?\*+[*/!]*|--+|;+|%+|\(\*+)")


def comment_above(data: bytes, start: int) -> str:
    """The comment lines right above a definition."""
    lines: list[bytes] = []
    end = data.rfind(b"\n", 0, start)
    while end > 0 and len(lines) < _COMMENT_LINES:
        at = data.rfind(b"\n", 0, end) + 1
        line = data[at:end]
        if not _COMMENT_LINE.match(line) and not line.rstrip().endswith((b"*/", b"-}", b"*)")):
            break
        lines.append(line)
        end = at - 1
    if not lines:
        return ""
    return clean_doc(b"\n".join(reversed(lines)).decode("utf-8", "replace"))


_MARKS = re.compile(
    r"^\s*(?:///?!?|//!|#+|/\*+!?|\*+(?!/)|\*+/|--+|;+|%+|\(\*+|\{-+)?[ \t]?(?:\|[ \t])?", re.MULTILINE
)


def clean_doc(text: str) -> str:
    """The first sentences of a comment or docstring, without its marks, on one line."""
    text = _MARKS.sub("", text).replace("*/", "").replace("*)", "").strip()
    paragraph = " ".join(re.split(r"\n\s*\n", text, maxsplit=1)[0].split())
    if len(paragraph) <= DOC_CHARS:
        return paragraph
    cut = paragraph.rfind(". ", 0, DOC_CHARS)
    return paragraph[: cut + 1] if cut > 0 else paragraph[: DOC_CHARS - 1] + "…"


def _set_parents(rows: list[Row]) -> None:
    """Name each definition's enclosing one (`Outer.Inner`); a function in a type becomes a method."""
    stack: list[Row] = []
    rows.sort(key=lambda row: (row[3], -row[4]))
    for row in rows:
        while stack and stack[-1][4] <= row[3]:
            stack.pop()
        if stack:
            owner = stack[-1]
            if not row[2] and not (owner[1] == "type" and row[1] in _TAGGED):
                row[2] = qualified(owner[2], owner[0])
            if row[1] == "function" and owner[1] in _OWNERS:
                row[1] = "method"
        stack.append(row)


def qualified(parent: str, name: str) -> str:
    """`Outer.Inner`; in very deep nesting only the innermost names, so that the length stays bounded."""
    joined = f"{parent}.{name}" if parent else name
    return joined if len(joined) <= NAME_CHARS else name
