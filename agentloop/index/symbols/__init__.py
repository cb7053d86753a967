"""Definitions and calls: by tree-sitter in a killable process, by regular expressions without it."""

from agentloop.chunking.outline import Definition, import_targets, outline
from agentloop.index.symbols.kept import KeptParses
from agentloop.index.symbols.parser import SymbolParser, import_edges

__all__ = ["Definition", "KeptParses", "SymbolParser", "import_edges", "import_targets", "outline"]
