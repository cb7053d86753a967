"""Parse outputs in the private cache, by content: a file is parsed once, whatever is asked of it later."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from agentloop.cache import Cache, parse_key, text_hash
from agentloop.index.symbols.process import Answer
from agentloop.index.symbols.tags import TAGS

MOST_BYTES = 1 << 20  # of one output; a larger one is a generated file's, which is seldom asked for twice
MOST_FILES = 400  # that one request keeps: a question that parses everything doesn't fill the cache


class KeptParses:
    """The `parse` layer for the requests of one namespace. What can't be kept is parsed again."""

    def __init__(self, cache: Cache, namespace: str) -> None:
        self._cache = cache
        self._namespace = namespace
        self._room = MOST_FILES

    def get(self, content_hash: str, language: str) -> Answer | None:
        """The kept answer of the parser for a file's content."""
        data = self._cache.get(self._key(content_hash, language))
        if data is None:
            return None
        rows, calls, errors = json.loads(data)
        return Answer(rows, calls, errors)

    def put(self, content_hash: str, language: str, answer: Answer) -> None:
        """Keep an answer of the parser."""
        data = json.dumps(answer, ensure_ascii=True, separators=(",", ":")).encode()
        if (
            self._room
            and len(data) <= MOST_BYTES
            and self._cache.put(self._key(content_hash, language), data)
        ):
            self._room -= 1

    def _key(self, content_hash: str, language: str) -> str:
        return parse_key(self._namespace, content_hash, language, parser_version())


@functools.cache
def parser_version() -> str:
    """Names what an answer depends on beside the file: tree-sitter, the grammars, our queries and reading."""
    from importlib.metadata import version

    here = Path(__file__).parent
    own = [(here / name).read_text("utf-8") for name in ("tree.py", "worker.py")]
    queries = json.dumps(TAGS, sort_keys=True)
    return f"{version('tree-sitter')}-{text_hash(version('semble-grammars'), queries, *own)[:16]}"
