"""Source files in memory for the tests of chunks and symbols."""

from __future__ import annotations

import hashlib

from agentloop.request import Classification
from agentloop.types import Corpus, Derived, FileKind, Memory, SourceFile


def source_file(
    data: bytes,
    kind: FileKind,
    language: str = "",
    *,
    path: str = "",
    derived: Derived | None = None,
    index: int = 0,
) -> SourceFile:
    """A file as discovery would make it."""
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    name = path or f"sample.{language or 'txt'}"
    return SourceFile(
        index, "in1", name, kind, language, "text/plain", len(data), digest, Classification.PUBLIC,
        Memory(data), derived=derived,
    )  # fmt: skip


def code(text: str | bytes, language: str, path: str = "") -> SourceFile:
    """A file of source code."""
    data = text.encode() if isinstance(text, str) else text
    return source_file(data, FileKind.CODE, language, path=path)


def corpus(*files: SourceFile) -> Corpus:
    """A corpus of these files."""
    return Corpus((), tuple(files), ())
