"""The lines of a log as an analysis reads them: clean message, level, stamp, exact place.

A log up to `whole_bytes` is read whole. Of a larger one the analysis sees the lines that `Novelty` calls
new, with a few lines around each, the beginning and the end; `Reading.skipped` counts the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agentloop.logs.ansi import strip
from agentloop.logs.blocks import Block, blocks
from agentloop.logs.novelty import Novelty
from agentloop.logs.prefix import split_prefix
from agentloop.logs.severity import Level
from agentloop.logs.timestamps import Stamp
from agentloop.types import Derived, Place, SourceFile

WHOLE_BYTES = 16 << 20  # a log up to this is analysed line by line: about two seconds
RAW_LOOK = 1200  # bytes of a line that are decoded; what lies behind is seen by exact search only
EDGE_BYTES = 1 << 20  # of a larger log, read whole at its beginning and end
AROUND_BYTES = 2048  # before and after each new line of a larger log
_PACKED = frozenset({"compressed", "text"})  # extractors whose items have no lines of their own in the file
MAX_LINES = 400_000  # of a larger log; the earliest and the last are kept


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `text` is the message without stamp, level and escapes, indentation kept."""

    number: int  # 1-based, in the file; of packed text in the text
    start: int  # byte offsets in the file, without the newline
    end: int
    text: str
    level: Level
    stamp: Stamp | None
    prefixed: bool  # a stamp or a level stood before the message
    item: int = -1  # derived text: the item, and the characters in it
    char_start: int = 0
    char_end: int = 0
    part: int = 0  # of a rotated series: the file


@dataclass(frozen=True, slots=True)
class Reading:
    """The lines of one log that an analysis works on, in order, and how many it did not see.

    Of a rotated series `parts` are the files, oldest first, and `file` is the newest.
    """

    file: SourceFile
    lines: tuple[Line, ...]
    total: int
    skipped: int
    parts: tuple[SourceFile, ...] = ()

    @property
    def sampled(self) -> bool:
        """Whether some file was too large to be read line by line."""
        return any(f.derived is None and f.content.size > WHOLE_BYTES for f in self.parts or (self.file,))

    def of(self, line: Line) -> SourceFile:
        """The file that a line stands in."""
        return self.parts[line.part] if self.parts else self.file

    def end_of_part(self, first: int, last: int) -> int:
        """The last index from `first` to `last` whose line stands in the file of `first`."""
        while self.parts and self.lines[last].part != self.lines[first].part:
            last -= 1
        return last


def read_series(files: Sequence[SourceFile], whole_bytes: int = WHOLE_BYTES) -> Reading:
    """The lines of rotated logs as one stream, oldest first."""
    if len(files) == 1:
        return read_lines(files[0], whole_bytes)
    readings = [read_lines(file, whole_bytes) for file in files]
    lines = tuple(replace(line, part=n) for n, reading in enumerate(readings) for line in reading.lines)
    return Reading(
        files[-1],
        lines,
        sum(reading.total for reading in readings),
        sum(reading.skipped for reading in readings),
        tuple(files),
    )


def read_lines(file: SourceFile, whole_bytes: int = WHOLE_BYTES) -> Reading:
    """The lines of a log file that an analysis reads."""
    if file.derived is not None:
        lines = tuple(_derived_lines(file.derived))
        return Reading(file, lines, len(lines), 0)
    if file.content.size <= whole_bytes:
        lines = tuple(
            line for block in blocks(file.content) for line in _block_lines(block, 0, len(block.data))
        )
        return Reading(file, lines, len(lines), 0)
    return _sampled(file)


def _sampled(file: SourceFile) -> Reading:
    novelty = Novelty()
    kept: list[Line] = []
    total = 0
    size = file.content.size
    for block in blocks(file.content):
        total += block.data.count(b"\n")
        spans = (
            [_around(block.data, at) for at in novelty.offsets(block.data)] if len(kept) < MAX_LINES else []
        )
        if block.start < EDGE_BYTES:
            spans.append((0, _line_end(block.data, EDGE_BYTES - block.start)))
        if block.start + len(block.data) > size - EDGE_BYTES:
            spans.append(
                (block.data.rfind(b"\n", 0, max(0, size - EDGE_BYTES - block.start)) + 1, len(block.data))
            )
        at, number = 0, block.line
        for start, end in _merged(spans):
            number += block.data.count(b"\n", at, start)
            kept += _block_lines(Block(block.data, block.start, number), start, end)
            at, number = end, number + block.data.count(b"\n", start, end)
    return Reading(file, tuple(kept), max(total, len(kept)), max(0, total - len(kept)))


def _around(data: bytes, at: int) -> tuple[int, int]:
    return data.rfind(b"\n", 0, max(0, at - AROUND_BYTES)) + 1, _line_end(data, at + AROUND_BYTES)


def _line_end(data: bytes, at: int) -> int:
    end = data.find(b"\n", at) if at < len(data) else -1
    return end + 1 if end >= 0 else len(data)


def _merged(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Overlapping spans joined, in order."""
    current: tuple[int, int] | None = None
    for start, end in sorted(spans):
        if current is not None and start <= current[1]:
            current = (current[0], max(current[1], end))
            continue
        if current is not None:
            yield current
        current = (start, end)
    if current is not None:
        yield current


def _block_lines(block: Block, start: int, end: int) -> Iterator[Line]:
    """Lines of `block.data[start:end]`; `block.line` is the number of the line at `start`."""
    at = start
    number = block.line
    data = block.data
    while at < end:
        stop = data.find(b"\n", at, end)
        stop = end if stop < 0 else stop
        raw = data[at : min(stop, at + RAW_LOOK)].decode("utf-8", "replace")
        yield _line(raw, number, block.start + at, block.start + stop)
        number += 1
        at = stop + 1


def _line(raw: str, number: int, start: int, end: int) -> Line:
    prefix = split_prefix(strip(raw))
    return Line(number, start, end, prefix.text, prefix.level, prefix.stamp, prefix.found)


def _derived_lines(derived: Derived) -> Iterator[Line]:
    packed = derived.extractor in _PACKED
    number = 0
    for index, item in enumerate(derived.items):
        at = 0
        for raw in item.text.split("\n"):
            number += 1
            prefix = split_prefix(strip(raw[:RAW_LOOK]))
            yield Line(
                number if packed else item.line_start,
                item.byte_start,
                item.byte_end,
                prefix.text,
                prefix.level,
                prefix.stamp,
                prefix.found,
                index,
                at,
                at + len(raw),
            )
            at += len(raw) + 1


def place(reading: Reading, first: int, last: int) -> Place:
    """The place of lines `first..last` (indexes, inclusive) with the times that stand in them.

    Where a rotated series goes on in the next file the place ends with its first file.
    """
    last = reading.end_of_part(first, last)
    opening, closing = reading.lines[first], reading.lines[last]
    stamps = [line.stamp.text for line in reading.lines[first : last + 1] if line.stamp is not None]
    times = (stamps[0], stamps[-1]) if stamps else ("", "")
    file = reading.of(opening)
    index, derived = file.index, file.derived
    if derived is None:
        end = min(closing.end + 1, file.content.size)  # with its newline: a blank line has nothing else
        return Place(
            index,
            opening.start,
            end,
            opening.number,
            closing.number,
            timestamp_start=times[0],
            timestamp_end=times[1],
        )
    before = len(derived.joined(opening.item, closing.item)) - len(derived.items[closing.item].text)
    return Place(
        index,
        opening.start,
        closing.end,
        derived.items[opening.item].line_start,
        derived.items[closing.item].line_end,
        opening.item,
        closing.item,
        opening.char_start,
        before + closing.char_end,
        times[0],
        times[1],
    )
