"""Windows over structured data and diffs: top-level keys, rows, hunks."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

from agentloop.chunking.languages import canonical
from agentloop.chunking.windows import Piece, blank_line, next_cut, split_region, window_bytes
from agentloop.types import ChunkType

_KEY_CHARS = 80
_NAME_CHARS = 300
_JSON = re.compile(rb"\n([ \t]{0,4})\"([^\"\n]{1,80})\"[ \t]*+:")
_YAML = re.compile(rb"\n(- )?([A-Za-z_\"'./][^\s:#]{0,80}+)[ \t]*+:(?=[ \t\r\n])")
_INI = re.compile(rb"\n(\[)\[?([^\]\n]{1,80})\]")
_PO = re.compile(rb"\n(\n)(?:#[^\n]*+\n)*+(?:msgctxt[^\n]*+\n)?(msgid)\b")
_KEYS = {
    "json": _JSON,
    "json5": _JSON,
    "jsonc": _JSON,
    "yaml": _YAML,
    "toml": _INI,
    "ini": _INI,
    "properties": _INI,
}
_EARLIEST = 4

_DIFF = re.compile(
    rb"(?:^|\n)(?:(diff )[^\n]*+|(--- )[^\n]*+\n\+\+\+ [^\n]*+|(Index: )[^\n]*+|(@@@?) [^\n]*+|(From [0-9a-f]{7,40}) [^\n]*+)"
)
_DIFF_PATH = re.compile(
    rb"(?:^|\n)(?:\+\+\+ (?:b/)?([^\t\n\r]+)|diff --git \S+ (?:b/)?([^\n\r]+)|Index: ([^\n\r]+)|rename to ([^\n\r]+))"
)


def data_pieces(data: bytes, language: str) -> list[Piece]:
    """Windows over data, cut before top-level keys where there are any, else at rows.

    A window's name lists the keys that start in it (JSON, YAML, TOML, INI), at most `_NAME_CHARS` of them.
    """
    window = window_bytes(data)
    end = len(data)
    pattern = _KEYS.get(canonical(language))
    found = (
        [(m.end(1) if m[1] == b"\n" else m.start() + 1, m[2]) for m in pattern.finditer(data)]
        if pattern
        else []
    )
    offsets = [offset for offset, _ in found]
    blank = blank_line(data) if not pattern else b"\n"
    pieces = []
    start = low = 0
    while start < end:
        cut = end
        if end - start > window:
            first, last = (
                bisect_left(offsets, start + window // _EARLIEST),
                bisect_right(offsets, start + window),
            )
            cut = offsets[last - 1] if last > first else next_cut(data, start, end, window, blank)
        high = bisect_left(offsets, cut, low)
        names = b" ".join(dict.fromkeys([name for _, name in found[low:high]]))[:_NAME_CHARS]
        pieces.append(Piece(start, cut, ChunkType.WINDOW, names.decode("utf-8", "replace")))
        start, low = cut, high
    return pieces


def diff_pieces(data: bytes) -> list[Piece]:
    """A hunk a chunk, named after its file; a file's header goes with its first hunk."""
    window = window_bytes(data)
    blank = b"\n"
    pieces: list[Piece] = []
    cuts: list[int] = []
    header = False
    for match in _DIFF.finditer(data):
        offset = match.start() + (data[match.start()] == 10)
        hunk = match[4] is not None
        if not (header and (hunk or match[5] is None)):
            cuts.append(offset)
        header = not hunk and match[5] is None
    name = ""
    for start, end in zip([0, *[c for c in cuts if c]], [*[c for c in cuts if c], len(data)], strict=True):
        hunk_at = data.find(b"@@ ", start, end)
        head = data[start : hunk_at if hunk_at >= 0 else end]
        for path in _DIFF_PATH.finditer(head):
            name = next(group for group in path.groups() if group).decode("utf-8", "replace")
        type_ = ChunkType.HUNK if hunk_at >= 0 else ChunkType.WINDOW
        pieces += split_region(data, start, end, window, blank, type_, name)
    return pieces
