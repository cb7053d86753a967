"""From a place in a file to the chunk that holds it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from agentloop.types import Chunk


class ChunkMap:
    """Chunks of each file in order of offset. Built once a request, in one pass.

    A huge log has gaps: windows that say nothing new have no chunk. What is found there grows one.
    """

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = chunks
        self._counted = len(chunks)
        self._grown: dict[int, list[int]] = {}
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        for number, chunk in enumerate(chunks):
            self._first.setdefault(chunk.file, number)
            self._last[chunk.file] = number

    def of_file(self, file: int) -> range:
        """The ids of a file's chunks, in order; empty for a file without chunks."""
        first = self._first.get(file)
        return range(0) if first is None else range(first, self._last[file] + 1)

    def at_byte(self, file: int, offset: int) -> int | None:
        """The chunk of a file that holds a byte; None in a gap."""
        number = self.before(file, offset)
        known = [n for n in (number, *self._grown.get(file, ())) if n is not None]
        return next(
            (n for n in known if self._chunks[n].byte_start <= offset < self._chunks[n].byte_end), None
        )

    def until(self, number: int) -> int:
        """The offset up to which a chunk that holds a byte holds those after it too; 0 for a grown one."""
        if self.grown(number):
            return 0
        chunk, following = self._chunks[number], number + 1
        if following < self._counted and self._chunks[following].file == chunk.file:
            return min(chunk.byte_end, self._chunks[following].byte_start)
        return chunk.byte_end

    def before(self, file: int, offset: int) -> int | None:
        """The last chunk of a file that starts at or before a byte offset."""
        span = self.of_file(file)
        if not span:
            return None
        at = bisect_right(span, offset, key=lambda n: self._chunks[n].byte_start) - 1
        return span[at] if at >= 0 else None

    def grown(self, number: int) -> bool:
        """Whether a chunk was made of a place in a gap."""
        return number >= self._counted

    def chunk(self, number: int) -> Chunk:
        """The chunk of an id."""
        return self._chunks[number]

    def grow(self, chunk: Chunk) -> int:
        """Add a chunk in a gap; its id. The list that this map was made of must be the request's own."""
        assert isinstance(self._chunks, list)  # noqa: S101 - a kept list is copied before it is searched
        self._chunks.append(chunk)
        number = len(self._chunks) - 1
        self._grown.setdefault(chunk.file, []).append(number)
        return number

    def at_line(self, file: int, line: int) -> int | None:
        """The chunk that holds a line, the last if several do; None beyond the file's end."""
        span = self.of_file(file)
        if not span or line > self._chunks[span[-1]].line_end:
            return None
        at = bisect_right(span, line, key=lambda n: self._chunks[n].line_start) - 1
        return span[at] if at >= 0 else None

    def beside(self, chunk: int, step: int) -> int | None:
        """The chunk `step` places after (negative: before) one, if it is of the same file."""
        other = chunk + step
        if max(chunk, other) >= self._counted:
            return None  # what grew in a gap has no neighbours
        if 0 <= other < len(self._chunks) and self._chunks[other].file == self._chunks[chunk].file:
            return other
        return None
