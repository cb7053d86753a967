"""From a place in a file to the chunk that holds it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from agentloop.chunks import Chunks
from agentloop.types import Chunk


class ChunkMap:
    """Chunks of each file in order of offset. Built once a request.

    A huge log has gaps: windows that say nothing new have no chunk. What is found there grows one.
    """

    def __init__(self, chunks: Chunks, rows: Mapping[int, range] | None = None) -> None:
        """`rows`: the chunks of each file, if they are at hand."""
        self._chunks = chunks
        self._counted = len(chunks)
        self._grown: dict[int, list[int]] = {}
        self._rows = dict(chunks.runs()) if rows is None else rows

    def of_file(self, file: int) -> range:
        """The ids of a file's chunks, in order; empty for a file without chunks."""
        return self._rows.get(file, range(0))

    def at_byte(self, file: int, offset: int) -> int | None:
        """The chunk of a file that holds a byte; None in a gap."""
        starts, ends = self._chunks.byte_starts, self._chunks.byte_ends
        number = self.before(file, offset)
        known = [n for n in (number, *self._grown.get(file, ())) if n is not None]
        return next((n for n in known if starts[n] <= offset < ends[n]), None)

    def until(self, number: int) -> int:
        """The offset up to which a chunk that holds a byte holds those after it too; 0 for a grown one."""
        if self.grown(number):
            return 0
        chunks, following = self._chunks, number + 1
        end = chunks.byte_ends[number]
        if following < self._counted and chunks.files[following] == chunks.files[number]:
            return min(end, chunks.byte_starts[following])
        return end

    def before(self, file: int, offset: int) -> int | None:
        """The last chunk of a file that starts at or before a byte offset."""
        span = self.of_file(file)
        if not span:
            return None
        at = bisect_right(self._chunks.byte_starts, offset, span.start, span.stop) - 1
        return at if at >= span.start else None

    def grown(self, number: int) -> bool:
        """Whether a chunk was made of a place in a gap."""
        return number >= self._counted

    def chunk(self, number: int) -> Chunk:
        """The chunk of an id."""
        return self._chunks[number]

    def span(self, number: int) -> tuple[int, int]:
        """The bytes `[start, end)` of a chunk."""
        return self._chunks.byte_starts[number], self._chunks.byte_ends[number]

    def grow(self, chunk: Chunk) -> int:
        """Add a chunk in a gap; its id. The chunks that this map was made of must be the request's own."""
        self._chunks.append(chunk)
        number = len(self._chunks) - 1
        self._grown.setdefault(chunk.file, []).append(number)
        return number

    def at_line(self, file: int, line: int) -> int | None:
        """The chunk that holds a line, the last if several do; None beyond the file's end."""
        span = self.of_file(file)
        if not span or line > self._chunks[span[-1]].line_end:
            return None
        at = bisect_right(self._chunks.line_starts, line, span.start, span.stop) - 1
        return at if at >= span.start else None

    def beside(self, chunk: int, step: int) -> int | None:
        """The chunk `step` places after (negative: before) one, if it is of the same file."""
        other = chunk + step
        if max(chunk, other) >= self._counted:
            return None  # what grew in a gap has no neighbours
        files = self._chunks.files
        return other if 0 <= other < len(files) and files[other] == files[chunk] else None
