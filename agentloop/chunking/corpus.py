"""The chunker's front: each file to the chunker of its kind."""

from __future__ import annotations

from collections.abc import Callable

from agentloop.budget import Ledger
from agentloop.chunking.code import code_pieces
from agentloop.chunking.data import data_pieces, diff_pieces
from agentloop.chunking.derived import add_derived
from agentloop.chunking.prose import prose_pieces
from agentloop.chunking.windows import Piece, add_pieces
from agentloop.chunks import Chunks, Dump
from agentloop.config import Caps
from agentloop.errors import Stage
from agentloop.types import Corpus, FileKind, SourceFile


def chunk_corpus(
    corpus: Corpus,
    ledger: Ledger,
    caps: Caps,
    made: Callable[[SourceFile, Chunks, range], None] | None = None,
    known: Callable[[SourceFile], Dump | None] | None = None,
) -> Chunks:
    """Chunks of every file, in the order of the files and then of the offsets.

    A chunk's id is its position. Over files without derived text the chunks of a file are a
    partition of its bytes. Nothing is parsed: structure comes from regular expressions.

    Args:
        corpus: what discovery found.
        ledger: gets the counters `files`, `bytes` and `chunks` of the chunking stage.
        caps: passed to the log segmenter, which streams large logs.
        made: is given each file, and which of all chunks are its own, as soon as they are there.
        known: gives the chunks of a file that were made elsewhere.
    """
    chunks = Chunks()
    size = 0
    for file in corpus.files:
        before = len(chunks)
        there = None if known is None else known(file)
        if there is None:
            _add_file(chunks, file, ledger, caps)
        else:
            chunks.add_dumped(there, file.index)
        if made is not None:
            made(file, chunks, range(before, len(chunks)))
        size += file.size
    ledger.add(Stage.CHUNKING, files=len(corpus.files), bytes=size, chunks=len(chunks))
    return chunks


def _add_file(chunks: Chunks, file: SourceFile, ledger: Ledger, caps: Caps) -> None:
    """Add the chunks of one file."""
    if file.kind is FileKind.LOG:
        from agentloop.logs.segment import segment

        for chunk in segment(file, ledger, caps):
            chunks.append(chunk)
    elif file.derived is not None:
        add_derived(chunks, file, file.derived)
    else:
        data = file.content.read(0, file.content.size)
        add_chunks(chunks, file.index, data, file.kind, file.language)


def add_chunks(chunks: Chunks, file: int, data: bytes, kind: FileKind, language: str) -> None:
    """Add the chunks of a file that is neither a log nor derived text, from its bytes."""
    add_pieces(chunks, file, data, _pieces(data, kind, language))


def _pieces(data: bytes, kind: FileKind, language: str) -> list[Piece]:
    """The pieces of a file's bytes by its kind."""
    if kind is FileKind.CODE:
        return code_pieces(data, language)
    if kind is FileKind.DIFF:
        return diff_pieces(data)
    if kind is FileKind.DATA:
        return data_pieces(data, language)
    return prose_pieces(data, language)
