"""Reading a log in blocks of whole lines, so that no log is ever held whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentloop.types import Content

BLOCK_BYTES = 4 << 20  # large enough that per-block work vanishes, small beside the 500 MB bound


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive bytes of a log. It starts at a line start, save where one line fills several blocks."""

    data: bytes
    start: int  # byte offset in the file
    line: int  # 1-based number of the line at `start`


def blocks(content: Content, size: int = BLOCK_BYTES) -> Iterator[Block]:
    """The whole content in order. A block ends after a newline, or inside a line longer than `size`."""
    at, line, total = 0, 1, content.size
    while at < total:
        data = content.read(at, min(at + size, total))
        if not data:
            return
        if at + len(data) < total:
            cut = data.rfind(b"\n") + 1
            data = data[:cut] if cut else data[: utf8_cut(data, len(data))]
        yield Block(data, at, line)
        at += len(data)
        line += data.count(b"\n")


def utf8_cut(data: bytes, end: int) -> int:
    """`end`, moved back by at most three bytes so that `data[:end]` ends with a whole UTF-8 sequence."""
    for back in range(1, min(4, end) + 1):
        byte = data[end - back]
        if byte & 0xC0 != 0x80:
            need = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return end if need <= back or end == back else end - back
    return end
