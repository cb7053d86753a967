"""Stage 3: the search index of one request, in memory."""

from agentloop.index.lexical import FieldWeights, LexicalIndex, Term

__all__ = ["FieldWeights", "LexicalIndex", "Term"]
