"""Chunks in columns are the chunks that were put in."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from agentloop.chunks import Chunks
from agentloop.types import Chunk, ChunkType

_OFFSETS = st.integers(0, 2**40)
_SMALL = st.integers(0, 2**31 - 1)
_ITEMS = st.integers(-1, 2**31 - 1)
_CHUNK = st.builds(
    Chunk, st.integers(0, 5), _OFFSETS, _OFFSETS, _SMALL, _SMALL, st.sampled_from(ChunkType),
    st.text(max_size=4), _ITEMS, _ITEMS, _SMALL, _SMALL,
)  # fmt: skip
_CHUNKS = st.lists(_CHUNK, max_size=12)


@given(_CHUNKS)
def test_every_chunk_comes_back_as_it_was(given: list[Chunk]) -> None:
    chunks = Chunks(given)
    assert list(chunks) == given == [chunks[n] for n in range(len(chunks))] == list(chunks[:])
    assert chunks == given
    assert [type(chunk.type) for chunk in chunks] == [ChunkType] * len(given)
    assert [(n, name) for n, name in chunks.named()] == [(n, c.name) for n, c in enumerate(given) if c.name]
    assert set(chunks.named_files()) == {chunk.file for chunk in given if chunk.name}
    assert list(chunks.of_type(ChunkType.LOG)) == [n for n, c in enumerate(given) if c.type is ChunkType.LOG]


@given(_CHUNKS)
def test_runs_are_the_chunks_of_a_file_side_by_side(given: list[Chunk]) -> None:
    runs = list(Chunks(given).runs())
    assert [n for _, rows in runs for n in rows] == list(range(len(given)))
    assert all(given[n].file == file for file, rows in runs for n in rows)
    assert all(one[0] != other[0] for one, other in itertools.pairwise(runs))


@given(_CHUNKS, _CHUNKS, st.data())
def test_a_run_of_other_chunks_can_be_taken_over(
    mine: list[Chunk], more: list[Chunk], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(more)))
    last = data.draw(st.integers(first, len(more)))
    chunks = Chunks(mine)
    chunks.extend(Chunks(more), range(first, last), 7)
    assert list(chunks) == mine + [chunk._replace(file=7) for chunk in more[first:last]]
    assert list(chunks.runs()) == list(Chunks(chunks).runs())
    chunks.add_dumped(Chunks(more).dumped(), 7)
    assert list(chunks)[len(mine) + last - first :] == [chunk._replace(file=7) for chunk in more]
    assert list(chunks.runs()) == list(chunks.copy().runs()) == list(Chunks(chunks).runs())


@given(_CHUNKS, _CHUNK)
def test_a_copy_grows_alone(given: list[Chunk], further: Chunk) -> None:
    chunks = Chunks(given)
    other = chunks.copy()
    other.append(further)
    assert list(chunks) == given
    assert list(other) == [*given, further]


@given(_CHUNKS)
def test_files_are_left_out_whole(given: list[Chunk]) -> None:
    assert list(Chunks(given).without(lambda file: file % 2 == 0)) == [c for c in given if c.file % 2]


def test_chunks_of_a_file_are_added_at_once() -> None:
    chunks = Chunks()
    chunks.add(3, [(0, 10, 1, 2), (10, 12, 3, 3)], [ChunkType.WINDOW, ChunkType.TABLE], ["", "a > b"])
    assert list(chunks) == [
        Chunk(3, 0, 10, 1, 2, ChunkType.WINDOW, ""), Chunk(3, 10, 12, 3, 3, ChunkType.TABLE, "a > b")
    ]  # fmt: skip


@given(_CHUNKS, st.dictionaries(st.integers(0, 6), _CHUNKS, max_size=4))
def test_chunks_of_some_files_are_made_anew(given: list[Chunk], anew: dict[int, list[Chunk]]) -> None:
    before = sorted(given, key=lambda chunk: chunk.file)
    found = Chunks(before).replaced({file: Chunks(chunks) for file, chunks in anew.items()})
    kept = [chunk for chunk in before if chunk.file not in anew]
    made = [chunk._replace(file=file) for file, chunks in anew.items() for chunk in chunks]
    expected = Chunks(sorted([*kept, *made], key=lambda chunk: chunk.file))
    assert found == expected
    assert list(found.runs()) == list(expected.runs())
