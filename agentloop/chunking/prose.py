"""Windows over prose: sections by heading, paragraphs packed within a section, tables kept whole."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple

from agentloop.chunking.windows import Piece, Text, split_region
from agentloop.types import ChunkType

_TITLE_BYTES = 200
_PATH_LEVELS = 6
"""A heading path names the innermost so many headings."""
_TABLE_WINDOWS = 3
"""A table of up to so many windows stays in one chunk."""

_FENCE_OR_ATX = re.compile(
    rb"(?:^|\n)(?:[ ]{0,3}(`{3,8}+|~{3,8}+)[^\n]*+\n(?:[\s\S]*?\n)??[ ]{0,3}\1[^\n]*+"
    rb"|(\#{1,6}|={2,6}|\*{1,6})[ \t]++([^\n]{1,400})"
    rb"|([^\s>|#\-*+][^\n]{0,200})\n(=+|-{2,})[ \t]*+\r?+(?=\n|\Z))"
)
_FRONT_MATTER = re.compile(
    rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n[\s\S]{0,8000}?\n(?:---|\.\.\.)[ \t]*\r?(?:\n|\Z)"
)
_UNDERLINE = re.compile(rb"\n([!-/:-@\[-`{-~])\1{2,}+[ \t]*+\r?+(?=\n|\Z)")
_LINED_TABLES = (
    (b"|", re.compile(rb"\n(?:[ \t]*+\|[^\n]*+\n){3,}")),
    (b"+-", re.compile(rb"\n[ \t]*+\+[-=+]{3,}+[ \t]*+\r?\n(?:[ \t]*+[|+][^\n]*+(?:\n|\Z)){2,}")),
)
"""Markdown's pipe tables and reST's grid tables, each with a mark that none lacks."""
_BORDER = re.compile(rb"\n[ \t]*+=++(?:[ \t]++=++)++[ \t]*+\r?+(?:\n([ \t]*+\r?+(?=\n|\Z))?|\Z)")
"""A border of reST's simple tables; the group took part where an empty line follows."""


class Heading(NamedTuple):
    """A heading: where its section starts, where its text starts, its level and its title."""

    offset: int
    body: int
    level: int
    title: str


def prose_pieces(data: bytes, language: str) -> list[Piece]:
    """Windows over prose; a window's name is its heading path.

    A section with nothing but its heading is joined with the one that follows.
    """
    text = Text.of(data)
    tables = _tables(data, text.window)
    pieces: list[Piece] = []
    path: list[tuple[int, str]] = []
    name = ""
    start = body = 0  # of the section: where it begins, and where its heading ends
    for heading in _headings(data, language):
        bare = not data[body : heading.offset].strip()
        if heading.offset > start and not bare:
            pieces += _section(text, start, heading.offset, tables, name)
            start = heading.offset
        while path and path[-1][0] >= heading.level:
            path.pop()
        path.append((heading.level, heading.title))
        name = " > ".join(title for _, title in path[-_PATH_LEVELS:])
        body = heading.body
    return pieces + _section(text, start, len(data), tables, name)


def _section(text: Text, start: int, end: int, tables: list[tuple[int, int]], name: str) -> list[Piece]:
    """Windows over one section: its tables whole, the text between them packed by paragraphs."""
    pieces: list[Piece] = []
    at = start
    for index in range(bisect_left(tables, (start, 0)), len(tables)):
        table_start, table_end = tables[index]
        if table_start >= end:
            break
        if table_start < at or table_end > end:
            continue
        pieces += split_region(text, at, table_start, ChunkType.PARAGRAPH, name)
        pieces.append(Piece(table_start, table_end, ChunkType.TABLE, name))
        at = table_end
    pieces += split_region(text, at, end, ChunkType.PARAGRAPH, name)
    if name and pieces and pieces[0].type is ChunkType.PARAGRAPH:
        pieces[0] = pieces[0]._replace(type=ChunkType.HEADING)
    return pieces


def _tables(data: bytes, window: int) -> list[tuple[int, int]]:
    """The spans of tables that stay whole, in order."""
    largest = _TABLE_WINDOWS * window
    spans = [
        (match.start() + 1, match.end())
        for mark, pattern in _LINED_TABLES
        if mark in data
        for match in pattern.finditer(data)
    ]
    if b"= " in data:
        spans += _simple_tables(data, largest)
    return sorted((start, end) for start, end in spans if end - start <= largest)


def _simple_tables(data: bytes, largest: int) -> list[tuple[int, int]]:
    """reST's simple tables: from a border to the next border that an empty line or the file's end follows."""
    spans = []
    start = -1
    for match in _BORDER.finditer(data):
        if start < 0 or match.end() - start > largest:
            start = match.start() + 1
        elif match[1] is not None or match.end() == len(data):
            spans.append((start, match.start(1) if match[1] is not None else match.end()))
            start = -1
    return spans


def _title(raw: bytes) -> str:
    """A heading's text on one line."""
    return " ".join(raw[:_TITLE_BYTES].decode("utf-8", "replace").split())


def _headings(data: bytes, language: str) -> list[Heading]:
    """The headings of a text, in order of offset."""
    if language in _LATEX:
        return _latex(data)
    return _markdown(data) if language in _MARKDOWN else _underlined(data)


_MARKDOWN = frozenset({"markdown", "md", "mdx", "asciidoc", "org", "rmarkdown", "quarto"})
_LATEX = frozenset({"latex", "tex"})
_SECTIONS = (b"part", b"chapter", b"section", b"subsection", b"subsubsection", b"paragraph")
_LATEX_SECTION = re.compile(
    rb"(?:^|\n)[ \t]*+\\(" + rb"|".join(_SECTIONS) + rb")\*?(?:\[[^\]\n]*+\])?\{([^\n]{1,300}?)\}"
)


def _latex(data: bytes) -> list[Heading]:
    """`\\section{…}` and its relatives."""
    found = []
    for match in _LATEX_SECTION.finditer(data):
        start = match.start() + (data[match.start()] == 10)
        found.append(Heading(start, match.end(), _SECTIONS.index(match[1]), _title(match[2])))
    return found


def _markdown(data: bytes) -> list[Heading]:
    """ATX (`# A`), AsciiDoc (`== A`), org (`* A`) and setext headings outside fences and front matter."""
    front = _FRONT_MATTER.match(data)
    found = []
    for match in _FENCE_OR_ATX.finditer(data, front.end() - 1 if front else 0):
        start = match.start() + (data[match.start()] == 10)
        if match[2]:
            found.append(Heading(start, match.end(), len(match[2]), _title(match[3].rstrip(b" #\t\r"))))
        elif match[4]:
            found.append(Heading(start, match.end(), 1 if match[5][0] == 61 else 2, _title(match[4])))
    return found


def _underlined(data: bytes) -> list[Heading]:
    """reST sections: a title with an underline at least as long, and maybe the same line above.

    As in reST, the level of a mark is the order in which it first appears.
    """
    found: list[Heading] = []
    levels: dict[tuple[int, bool], int] = {}
    for match in _UNDERLINE.finditer(data):
        end = match.start()
        start = data.rfind(b"\n", 0, end) + 1
        title = data[start:end].strip()
        if not title or len(title) > _TITLE_BYTES or data[start] in b" \t" or not _is_title(title):
            continue
        mark = match[0].strip()
        if len(mark) < len(title) and len(mark) < len(title.decode("utf-8", "replace")):
            continue
        above = data.rfind(b"\n", 0, max(0, start - 1)) + 1
        over = data[above:start].strip() == mark
        level = levels.setdefault((mark[0], over), len(levels) + 1)
        found.append(Heading(_with_label(data, above if over else start), match.end(), level, _title(title)))
    return found


def _is_title(text: bytes) -> bool:
    """A title has a letter or a digit: a line of marks alone is a rule or a table's border."""
    return _WORD.search(text) is not None


_WORD = re.compile(rb"[\w\x80-\xff]")


def _with_label(data: bytes, offset: int) -> int:
    """Move a section's start above its reST labels (`.. _name:`; one with a URL belongs to what precedes)."""
    while True:
        near = max(0, offset - _TITLE_BYTES)
        end = near + len(data[near:offset].rstrip())
        line = data.rfind(b"\n", 0, end) + 1
        if line >= offset or not data.startswith(b".. _", line) or data[end - 1] != _COLON:
            return offset
        offset = line


_COLON = 58
