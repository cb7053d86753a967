"""The chunker's front: each file to the chunker of its kind."""

from __future__ import annotations

from collections.abc import Callable

from agentloop.budget import Ledger
from agentloop.chunking.code import code_pieces
from agentloop.chunking.data import data_pieces, diff_pieces
from agentloop.chunking.derived import derived_chunks
from agentloop.chunking.prose import prose_pieces
from agentloop.chunking.windows import Piece, to_chunks
from agentloop.config import Caps
from agentloop.errors import Stage
from agentloop.types import Chunk, Corpus, FileKind, SourceFile


def chunk_corpus(
    corpus: Corpus,
    ledger: Ledger,
    caps: Caps,
    made: Callable[[SourceFile, list[Chunk]], None] | None = None,
) -> list[Chunk]:
    """Chunks of every file, in the order of the files and then of the offsets.

    A chunk's id is its position in the list. Over files without derived text the chunks of a file are a
    partition of its bytes. Nothing is parsed: structure comes from regular expressions.

    Args:
        corpus: what discovery found.
        ledger: gets the counters `files`, `bytes` and `chunks` of the chunking stage.
        caps: passed to the log segmenter, which streams large logs.
        made: is given each file with its chunks as soon as they are there.
    """
    chunks: list[Chunk] = []
    size = 0
    for file in corpus.files:
        found = _file_chunks(file, ledger, caps)
        if made is not None:
            made(file, found)
        chunks += found
        size += file.size
    ledger.add(Stage.CHUNKING, files=len(corpus.files), bytes=size, chunks=len(chunks))
    return chunks


def _file_chunks(file: SourceFile, ledger: Ledger, caps: Caps) -> list[Chunk]:
    """Chunks of one file."""
    if file.kind is FileKind.LOG:
        from agentloop.logs.segment import segment

        return segment(file, ledger, caps)
    if file.derived is not None:
        return derived_chunks(file, file.derived)
    data = file.content.read(0, file.content.size)
    return to_chunks(file.index, data, _pieces(data, file.kind, file.language))


def _pieces(data: bytes, kind: FileKind, language: str) -> list[Piece]:
    """The pieces of a file's bytes by its kind."""
    if kind is FileKind.CODE:
        return code_pieces(data, language)
    if kind is FileKind.DIFF:
        return diff_pieces(data)
    if kind is FileKind.DATA:
        return data_pieces(data, language)
    return prose_pieces(data, language)
