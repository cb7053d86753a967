"""Windows over structured data and diffs: top-level keys, rows, hunks."""

from __future__ import annotations

import re
from itertools import pairwise

from agentloop.chunking.code import marked_pieces
from agentloop.chunking.languages import canonical
from agentloop.chunking.windows import Piece, Text, split_region
from agentloop.types import ChunkType

_JSON = re.compile(rb"\n([ \t]{0,4}+)\"([^\"\n]{1,80})\"[ \t]*+:")
_YAML = re.compile(rb"\n((?:- )?)([A-Za-z_\"'./][^\s:#]{0,80}+)[ \t]*+:(?=[ \t\r\n])")
_INI = re.compile(rb"\n([ \t]*+)\[\[?([^\]\n]{1,80})\]")
_KEYS = {
    "json": _JSON,
    "json5": _JSON,
    "jsonc": _JSON,
    "yaml": _YAML,
    "toml": _INI,
    "ini": _INI,
    "properties": _INI,
}
"""A top-level key after a line end: its indentation, its name."""

_DIFF = re.compile(
    rb"(?:^|\n)(?:(diff )[^\n]*+|(--- )[^\n]*+\n\+\+\+ [^\n]*+|(Index: )[^\n]*+|(@@@?) [^\n]*+"
    rb"|(From [0-9a-f]{7,40}) [^\n]*+)"
)
_DIFF_PATH = re.compile(
    rb"(?:^|\n)(?:\+\+\+ (?:b/)?([^\t\n\r]+)|diff --git \S+ (?:b/)?([^\n\r]+)|Index: ([^\n\r]+)"
    rb"|rename to ([^\n\r]+))"
)


def data_pieces(data: bytes, language: str) -> list[Piece]:
    """Windows over data, cut before top-level keys where there are any, else at rows or blank lines.

    A window's name lists the keys that start in it (JSON, YAML, TOML, INI).
    """
    pattern = _KEYS.get(canonical(language))
    found = []
    if pattern is not None:
        found = [(m.start() + 1, m.end(1) - m.start(1), m[2], "key") for m in pattern.finditer(data)]
    return marked_pieces(Text.of(data), 0, found)


def diff_pieces(data: bytes) -> list[Piece]:
    """A hunk a chunk, named after its file; a file's header goes with its first hunk."""
    text = Text.of(data)._replace(blank=b"\n")  # an empty line says nothing in a diff
    cuts = [0]
    in_header = False
    for match in _DIFF.finditer(data):
        hunk, new_file = match[4] is not None, match[1] is not None or match[5] is not None
        offset = match.start() + (data[match.start()] == _LINE_FEED)
        if offset and (new_file or not in_header):
            cuts.append(offset)
        in_header = not hunk and match[5] is None
    pieces: list[Piece] = []
    name = ""
    for start, end in pairwise([*cuts, len(data)]):
        hunk_at = data.find(b"@@ ", start, end)
        for path in _DIFF_PATH.finditer(data, start, hunk_at if hunk_at >= 0 else end):
            name = path[path.lastindex or 0].decode("utf-8", "replace")
        type_ = ChunkType.HUNK if hunk_at >= 0 else ChunkType.WINDOW
        pieces += split_region(text, start, end, type_, name)
    return pieces


_LINE_FEED = 10
