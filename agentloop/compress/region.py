"""Lines of a chunk with their exact places, for plain files and for derived text alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from agentloop.pack import MAX_REF_LINES
from agentloop.redact.injection import instruction_like, without_instructions
from agentloop.types import Chunk, Corpus, Place, Span

MAX_REGION_BYTES = 256 * 1024  # a symbol may be a whole generated file; a claim never needs more


class Line(NamedTuple):
    """One line without its `\\n`. Bytes and numbers are the original file's; `item` is -1 for plain files.

    Over derived text the bytes and numbers are those of the enclosing item, and `char_start:char_end`
    is the slice of the item's text.
    """

    text: str
    byte_start: int
    byte_end: int
    number: int
    number_end: int
    item: int = -1
    char_start: int = 0
    char_end: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """Consecutive lines of one file."""

    file: int
    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        """The lines joined with `\\n`."""
        return "\n".join(line.text for line in self.lines)


def chunk_region(corpus: Corpus, chunk: Chunk) -> Region:
    """The lines of a chunk."""
    if corpus.files[chunk.file].derived is None:
        return span_region(corpus, chunk.file, chunk)
    return _derived_region(
        corpus, chunk.file, chunk.first_item, chunk.last_item, chunk.char_start, chunk.char_end
    )


def span_region(corpus: Corpus, file: int, span: Span | Chunk) -> Region:
    """The lines of a byte span, or over derived text of the items that lie in it."""
    source = corpus.files[file]
    if source.derived is not None:
        first, last = items_within(corpus, file, span.byte_start, span.byte_end)
        return _derived_region(corpus, file, first, last, 0, len(source.derived.joined(first, last)))
    end = min(span.byte_end, span.byte_start + MAX_REGION_BYTES)
    data = source.content.read(span.byte_start, end)
    lines: list[Line] = []
    offset, number = span.byte_start, span.line_start
    for raw in data.split(b"\n"):
        text = raw.decode("utf-8", "replace")
        if offset == 0:
            text = text.removeprefix("\ufeff")  # a mark of the encoding, no text
        lines.append(Line(text, offset, offset + len(raw), number, number))
        offset += len(raw) + 1
        number += 1
    if len(lines) > 1 and not lines[-1].text:
        lines.pop()
    return Region(file, tuple(lines))


def items_within(corpus: Corpus, file: int, byte_start: int, byte_end: int) -> tuple[int, int]:
    """First and last item of derived text that overlap a byte span; the nearest one where none does."""
    derived = corpus.files[file].derived
    assert derived is not None  # noqa: S101 - callers checked it
    inside = [
        n for n, (start, end, _, _) in enumerate(derived.spans()) if start < byte_end and byte_start < end
    ]
    return (inside[0], inside[-1]) if inside else (0, 0)


def _derived_region(
    corpus: Corpus, file: int, first: int, last: int, char_start: int, char_end: int
) -> Region:
    derived = corpus.files[file].derived
    assert derived is not None  # noqa: S101 - callers checked it
    lines: list[Line] = []
    base = 0
    for n in range(first, last + 1):
        item = derived.items[n]
        offset = 0
        for text in item.text.split("\n"):
            start, end = max(base + offset, char_start), min(base + offset + len(text), char_end)
            if start < end:
                cut = text[start - base - offset : end - base - offset]
                lines.append(
                    Line(
                        cut,
                        item.byte_start,
                        item.byte_end,
                        item.line_start,
                        item.line_end,
                        n,
                        start - base,
                        end - base,
                    )
                )
            offset += len(text) + 1
        base += len(item.text) + 1
    return Region(file, tuple(lines))


def place_of(corpus: Corpus, region: Region, first: int, last: int) -> Place:
    """The place of lines `first..last` of a region (0-based, inclusive), at most 80 lines of the file."""
    lines = region.lines
    last = min(last, first + MAX_REF_LINES - 1)
    while lines[last].number_end - lines[first].number >= MAX_REF_LINES and _shorter(lines, first, last):
        last -= 1
    while last > first and lines[last].item < 0 and not lines[last].text:
        last -= 1  # an empty last line has no byte of its own: the span would end a line before it
    a, b = lines[first], lines[last]
    if a.item < 0:
        return Place(region.file, a.byte_start, max(b.byte_end, a.byte_start + 1), a.number, b.number_end)
    derived = corpus.files[region.file].derived
    assert derived is not None  # noqa: S101 - the region came from derived text
    before = sum(derived.size(n) + 1 for n in range(a.item, b.item))
    return Place(
        region.file,
        min(derived.items[n].byte_start for n in range(a.item, b.item + 1)),
        max(derived.items[n].byte_end for n in range(a.item, b.item + 1)),
        min(derived.items[n].line_start for n in range(a.item, b.item + 1)),
        max(derived.items[n].line_end for n in range(a.item, b.item + 1)),
        a.item,
        b.item,
        a.char_start,
        before + b.char_end,
        derived.items[a.item].timestamp,
        derived.items[b.item].timestamp,
    )


def _shorter(lines: tuple[Line, ...], first: int, last: int) -> bool:
    """Whether one line less makes the span of the file shorter: items of one archive member share theirs."""
    return last > first and lines[last].number_end > lines[first].number_end


def bounded(corpus: Corpus, place: Place) -> Place:
    """A place of at most 80 lines: its beginning, where it is longer and can be cut."""
    if place.line_end - place.line_start < MAX_REF_LINES:
        return place
    if corpus.files[place.file].derived is not None and place.first_item >= 0:
        region = _derived_region(
            corpus, place.file, place.first_item, place.last_item, place.char_start, place.char_end
        )
    else:
        span = Span(place.byte_start, place.byte_end, place.line_start, place.line_end)
        region = span_region(corpus, place.file, span)
    if not region.lines:
        return place
    cut = place_of(corpus, region, 0, len(region.lines) - 1)
    return replace(cut, timestamp_start=place.timestamp_start or cut.timestamp_start)


def quotable(region: Region) -> Region:
    """The region with lines that read as instructions to a model emptied: no claim may repeat them."""
    if not instruction_like(region.text):
        return region
    keep = without_instructions([line.text for line in region.lines])
    lines = zip(region.lines, keep, strict=True)
    return Region(region.file, tuple(line if good else line._replace(text="") for line, good in lines))


def overlap(a: Place, b: Place) -> bool:
    """Whether two places share bytes; over derived text, whether they share items."""
    if a.file != b.file:
        return False
    if a.first_item >= 0 and b.first_item >= 0:
        return a.first_item <= b.last_item and b.first_item <= a.last_item
    return a.byte_start < b.byte_end and b.byte_start < a.byte_end
