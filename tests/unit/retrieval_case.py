"""Real files, discovered and chunked by the engine, for tests of the index and of retrieval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentloop.api import make_request
from agentloop.budget import Ledger
from agentloop.chunking import chunk_corpus
from agentloop.chunks import Chunks
from agentloop.clock import SystemClock
from agentloop.config import Caps, Policy
from agentloop.index import LexicalIndex
from agentloop.index.symbols import SymbolParser
from agentloop.request import TaskType
from agentloop.retrieval import RetrievalSession
from agentloop.sources import discover
from agentloop.types import Corpus, Ranking


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files under a folder and return it."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def corpus_of(root: Path) -> tuple[Corpus, Chunks]:
    """A folder's corpus and chunks."""
    ledger, caps = Ledger(SystemClock()), Caps()
    corpus = discover(make_request("anything", [root]), caps, Policy(), ledger)
    return corpus, chunk_corpus(corpus, ledger, caps)


def index_of(root: Path) -> tuple[LexicalIndex, Corpus, Chunks]:
    """A folder's index, corpus and chunks."""
    corpus, chunks = corpus_of(root)
    return LexicalIndex(corpus, chunks), corpus, chunks


@contextmanager
def session_of(
    root: Path, question: str, task: TaskType = TaskType.RAG_COMPRESS, **params: Any
) -> Iterator[RetrievalSession]:
    """A session over a folder; `params` are task parameters, `constraints` among them goes to its place."""
    constraints = params.pop("constraints", {})
    request = make_request(question, [root], task=task, task_params=params, constraints=constraints)
    ledger, caps = Ledger(SystemClock()), Caps()
    corpus = discover(request, caps, Policy(), ledger)
    chunks = chunk_corpus(corpus, ledger, caps)
    parser = SymbolParser(caps, ledger)
    try:
        yield RetrievalSession(corpus, chunks, request, ledger, caps, parser)
    finally:
        parser.close()


def ranked(session: RetrievalSession) -> tuple[Ranking, list[str]]:
    """A session's ranking and the distinct paths in its order."""
    ranking = session.rank()
    paths = [session.path_of(candidate.chunk) for candidate in ranking.candidates]
    return ranking, list(dict.fromkeys(paths))
