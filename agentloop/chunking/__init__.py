"""Cheap structural chunks over every file. Each byte of a file lies in exactly one chunk."""

from agentloop.chunking.corpus import chunk_corpus
from agentloop.chunking.outline import Definition, import_targets, outline

__all__ = ["Definition", "chunk_corpus", "import_targets", "outline"]
