"""The `ripgrep` strategy: exact strings of the question in the bytes of the corpus.

The content is in memory already, so a scan with `bytes.find` (memchr and two-way search: linear time)
beats starting `rg` and reading everything again; bench/index.py measures both. A question of the form
/.../ is a regular expression and goes to `rg` itself (`regex.py`), whose engine is linear in time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from agentloop.index.sieve import Places, Sieve
from agentloop.retrieval.chunkmap import ChunkMap
from agentloop.types import Chunk, ChunkType, Corpus, SourceFile

BLOCK = 4 << 20
MAX_PLACES = 5_000
"""Places of one literal that are looked at; a literal found more often says little."""

MAX_GROWN = 64
"""Windows made of one literal's places in the gaps of huge logs."""
WINDOW_LINES = 4
WINDOW_BYTES = 2_000


@dataclass(slots=True)
class Found:
    """Where one literal was found: chunk -> how often, and how often as a whole word."""

    literal: str
    places: int = 0
    grown: int = 0  # windows made for places in a gap
    chunks: dict[int, int] = field(default_factory=dict)
    whole: dict[int, int] = field(default_factory=dict)


def scan(
    corpus: Corpus,
    chunks: Sequence[Chunk],
    where: ChunkMap,
    literals: Sequence[str],
    sieve: Sieve | None = None,
    groups: Sequence[Sequence[SourceFile]] | None = None,
) -> list[Found]:
    """Every literal in every file, case as written; in the literals' order.

    Args:
        sieve: knows where a literal can stand; all else is not looked at.
        groups: the files to look at, as `grouped` has them; all by default.
    """
    found = [Found(literal) for literal in literals]
    needles = [literal.encode("utf-8", "surrogatepass") for literal in literals]
    able = [None if sieve is None else sieve.places(literal) for literal in literals]
    overlap = max((len(n) for n in needles), default=1)
    for group in grouped(corpus.files) if groups is None else groups:
        if group[0].derived is not None:
            _scan_derived(corpus, chunks, where, group[0], found)
        elif group[0].size > BLOCK:
            for base, data in blocks(group[0], overlap):
                for needle, one in zip(needles, found, strict=True):
                    if one.places < MAX_PLACES and needle in data:
                        _scan_block(where, group[0], base, data, needle, one)
        else:
            _scan_group(where, group, needles, able, found)
    return found


def grouped(files: Sequence[SourceFile]) -> Iterator[list[SourceFile]]:
    """Files in order: small ones together, up to a block, others alone. Windows grow in this order."""
    group: list[SourceFile] = []
    size = 0
    for file in files:
        alone = file.derived is not None or file.size > BLOCK
        if group and (alone or size + file.size > BLOCK or file.index != group[-1].index + 1):
            yield group
            group, size = [], 0
        if alone:
            yield [file]
        else:
            group.append(file)
            size += file.size
    if group:
        yield group


def _scan_group(
    where: ChunkMap,
    files: Sequence[SourceFile],
    needles: Sequence[bytes],
    able: Sequence[Places | None],
    found: Sequence[Found],
) -> None:
    """Small files, one literal after the other: most files hold none."""
    read: dict[int, bytes] = {}
    first = files[0].index  # a group's files follow each other
    for needle, places, one in zip(needles, able, found, strict=True):
        some: Iterable[tuple[SourceFile, Sequence[int]]] = ((file, ()) for file in files)
        if places is not None:
            low, high = bisect_left(places, (first, [])), bisect_left(places, (first + len(files), []))
            some = ((files[number - first], chunks) for number, chunks in places[low:high])
        for file, chunks in some:
            if one.places >= MAX_PLACES:
                break
            if chunks:
                _scan_chunks(where, file, chunks, needle, one)
                continue
            data = read.get(file.index)
            if data is None:
                data = read[file.index] = file.content.read(0, file.size)
            if needle in data:
                _scan_block(where, file, 0, data, needle, one)


def _scan_chunks(where: ChunkMap, file: SourceFile, chunks: Sequence[int], needle: bytes, one: Found) -> None:
    """A literal in some chunks of a file, into none of which it can reach from outside."""
    opens, closes = _word_byte(needle[0]), _word_byte(needle[-1])
    for number in chunks:
        data = file.content.read(*where.span(number))
        at = data.find(needle)
        while at >= 0 and one.places < MAX_PLACES:
            end = at + len(needle)
            _count(one, number, data, at, end, opens, closes)
            at = data.find(needle, end)


def _count(one: Found, chunk: int, data: bytes, at: int, end: int, opens: bool, closes: bool) -> None:
    """Count a place of a literal, and whether it is a whole word there."""
    one.places += 1
    one.chunks[chunk] = one.chunks.get(chunk, 0) + 1
    before = opens and at > 0 and _word_byte(data[at - 1])
    after = closes and end < len(data) and _word_byte(data[end])
    if not (before or after):
        one.whole[chunk] = one.whole.get(chunk, 0) + 1


def blocks(file: SourceFile, overlap: int) -> Iterator[tuple[int, bytes]]:
    """A file's content in blocks that overlap, with their offsets: large logs are never held whole."""
    if file.size <= BLOCK:
        yield 0, file.content.read(0, file.content.size)
        return
    start = 0
    while start < file.content.size:
        yield start, file.content.read(start, min(file.content.size, start + BLOCK + overlap - 1))
        start += BLOCK


def _word_byte(code: int) -> bool:
    return code == 95 or 48 <= code <= 57 or 65 <= code <= 90 or 97 <= code <= 122 or code >= 128


def _scan_block(where: ChunkMap, file: SourceFile, base: int, data: bytes, needle: bytes, one: Found) -> None:
    opens, closes = _word_byte(needle[0]), _word_byte(needle[-1])
    chunk: int | None = None
    until = 0
    at = data.find(needle)
    while at >= 0 and one.places < MAX_PLACES:
        end = at + len(needle)
        if base + at >= until:
            chunk = where.at_byte(file.index, base + at)
            if chunk is None and one.grown < MAX_GROWN:
                one.grown += 1
                chunk = where.grow(window(where, file, base + at))
            until = 0 if chunk is None else where.until(chunk)
        if chunk is not None:
            _count(one, chunk, data, at, end, opens, closes)
        at = data.find(needle, end)


def window(where: ChunkMap, file: SourceFile, offset: int) -> Chunk:
    """The lines around a byte in a gap of a huge log, as a chunk of their own."""
    before = where.before(file.index, offset)
    known = None if before is None else where.chunk(before)
    floor = max(0 if known is None else known.byte_end, offset - WINDOW_BYTES)
    head = file.content.read(floor, offset)
    start = floor
    for at in _newlines_back(head):
        start = floor + at + 1
    tail = file.content.read(offset, min(file.content.size, offset + WINDOW_BYTES))
    end = offset + len(tail)
    at = -1
    for _ in range(WINDOW_LINES):
        at = tail.find(b"\n", at + 1)
        if at < 0:
            break
        end = offset + at + 1
    counted, line = (0, 1) if known is None else (known.byte_start, known.line_start)
    while counted < start:
        block = file.content.read(counted, min(start, counted + BLOCK))
        line += block.count(b"\n")
        counted += len(block)
    last = line + file.content.read(start, end - 1).count(b"\n")
    return Chunk(file.index, start, end, line, last, ChunkType.LOG)


def _newlines_back(head: bytes) -> Iterator[int]:
    """The newlines before a place, nearest first, as many as a window has lines above it."""
    at = len(head)
    for _ in range(WINDOW_LINES):
        at = head.rfind(b"\n", 0, at)
        if at < 0:
            return
        yield at


def _scan_derived(
    corpus: Corpus, chunks: Sequence[Chunk], where: ChunkMap, file: SourceFile, found: Sequence[Found]
) -> None:
    for number in where.of_file(file.index):
        text = corpus.text(chunks[number])
        for one in found:
            count = text.count(one.literal)
            if count and one.places < MAX_PLACES:
                one.places += count
                one.chunks[number] = count
                one.whole[number] = count
