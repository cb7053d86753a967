"""Chunks and index documents of files, made while discovery still reads further files.

Reading waits for the disk and indexing runs in tantivy's own threads, so the two go well together. The
outcome is that of one stage after the other: where discovery settles on another order of the files than
that in which it read them, what was made ahead is thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentloop.budget import Ledger
from agentloop.chunking import Chunker
from agentloop.config import Caps
from agentloop.errors import Stage
from agentloop.index.build import IndexBuild, build_errors
from agentloop.request import CompressRequest, InputRole
from agentloop.types import Chunk, Corpus, SourceFile


class Ahead:
    """Collects the files of one discovery. `chunks` are those that may become evidence: no baseline's."""

    def __init__(self, request: CompressRequest, ledger: Ledger, caps: Caps, *, indexed: bool) -> None:
        """Start with nothing; without `indexed` there are chunks only.

        Raises:
            AgentloopError: INDEX_BUILD_FAILED.
        """
        self._ledger = ledger
        self._caps = caps
        self._indexed = indexed
        self._baselines = {
            f"in{n}" for n, ref in enumerate(request.input_refs, 1) if ref.role is InputRole.BASELINE
        }
        self._begin()

    def _begin(self) -> None:
        self.chunks: list[Chunk] = []
        self.build: IndexBuild | None = None
        self._files: list[SourceFile] = []
        self._chunker = Chunker(self._caps)
        if self._indexed:
            with build_errors():
                self.build = IndexBuild()

    def add(self, files: Sequence[SourceFile]) -> None:
        """Chunk files, and hand the chunks to the index. The time counts for chunking, not for discovery.

        Raises:
            AgentloopError: INDEX_BUILD_FAILED.
        """
        with self._ledger.stage(Stage.CHUNKING, instead_of=Stage.DISCOVERY):
            self._add(files)

    def _add(self, files: Sequence[SourceFile]) -> None:
        for file in files:
            self._files.append(file)
            chunks = self._chunker.chunks(file, self._ledger)
            if file.input_id in self._baselines:
                continue  # compared with, never cited
            self.chunks += chunks
            if self.build is not None:
                with build_errors():
                    self.build.add(file, chunks)

    def settle(self, corpus: Corpus) -> None:
        """Make sure that all files of the corpus are in, in its order; else begin anew.

        Raises:
            AgentloopError: INDEX_BUILD_FAILED.
        """
        same = sum(one is other for one, other in zip(self._files, corpus.files, strict=False))
        if same < len(self._files):
            self._begin()
            same = 0
        self._add(corpus.files[same:])
        self._chunker.told(self._ledger)
