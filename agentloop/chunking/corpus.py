"""The chunker's front: each file to the chunker of its kind."""

from __future__ import annotations

from agentloop.budget import Ledger
from agentloop.chunking.code import code_pieces
from agentloop.chunking.data import data_pieces, diff_pieces
from agentloop.chunking.derived import derived_chunks
from agentloop.chunking.prose import prose_pieces
from agentloop.chunking.windows import Piece, to_chunks
from agentloop.config import Caps
from agentloop.errors import Stage
from agentloop.types import Chunk, Corpus, FileKind, SourceFile


class Chunker:
    """Chunks of one file after the other, and the counts of all of them."""

    def __init__(self, caps: Caps) -> None:
        """Nothing is counted yet.

        Args:
            caps: passed to the log segmenter, which streams large logs.
        """
        self._caps = caps
        self._files = self._bytes = self._chunks = 0

    def chunks(self, file: SourceFile, ledger: Ledger) -> list[Chunk]:
        """Chunks of one file in the order of their offsets.

        Over files without derived text they are a partition of its bytes. Nothing is parsed: structure
        comes from regular expressions.
        """
        found = _file_chunks(file, ledger, self._caps)
        self._files += 1
        self._bytes += file.size
        self._chunks += len(found)
        return found

    def told(self, ledger: Ledger) -> None:
        """Add the counters `files`, `bytes` and `chunks` to the chunking stage."""
        ledger.add(Stage.CHUNKING, files=self._files, bytes=self._bytes, chunks=self._chunks)


def chunk_corpus(corpus: Corpus, ledger: Ledger, caps: Caps) -> list[Chunk]:
    """Chunks of every file, in the order of the files; a chunk's id is its position in the list."""
    chunker = Chunker(caps)
    chunks = [chunk for file in corpus.files for chunk in chunker.chunks(file, ledger)]
    chunker.told(ledger)
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
