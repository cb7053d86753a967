"""Filling an index: each chunk becomes one document, and tantivy's own threads index it meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, groupby
from pathlib import Path
from typing import NamedTuple

import tantivy

from agentloop.chunks import Chunks
from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.index import words
from agentloop.types import Corpus, FileKind, SourceFile

Beside = tuple[str, str, str]
"""Index text beside a chunk's own: parts of its identifiers, terms of other scripts, parts of its name."""
Known = dict[tuple[str, int, int], Beside]
"""Index text beside that of chunks, by the kind and content hash of their file, and their span."""

HEAP_BYTES = 128_000_000  # tantivy's own default; a larger one builds no faster (bench/index.py)
_TOGETHER = 2000
"""Documents that are handed to tantivy at once: its threads spin while they wait for single ones."""
_PATH_WORD = re.compile(r"[^\W_]+")


@contextmanager
def build_errors() -> Iterator[None]:
    """Turn tantivy's refusals (memory, a broken build) into INDEX_BUILD_FAILED."""
    try:
        yield
    except ValueError as exc:
        raise AgentloopError(
            ErrorCode.INDEX_BUILD_FAILED,
            "The search index could not be built; narrow the inputs or give the process more memory.",
            Stage.INDEXING,
        ) from exc


def empty_index() -> tantivy.Index:
    """An index in memory without documents, with the fields of `agentloop.index.lexical`."""
    return _registered(tantivy.Index(_schema()))


def index_in(folder: Path, *, fresh: bool) -> tantivy.Index:
    """An index in a folder: a new one, or the one that is there.

    Raises:
        ValueError: tantivy refused; `build_errors` gives it a code.
    """
    return _registered(
        tantivy.Index(_schema(), path=str(folder)) if fresh else tantivy.Index.open(str(folder))
    )


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("id", fast=True)
    builder.add_text_field("group", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("body", tokenizer_name="words")
    builder.add_text_field("name", tokenizer_name="words", index_option="freq")
    builder.add_text_field("path", tokenizer_name="words", index_option="freq")
    return builder.build()


def _registered(index: tantivy.Index) -> tantivy.Index:
    analyzer = (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(words.MAX_TERM + 1))
        .filter(tantivy.Filter.lowercase())
        .build()
    )
    index.register_tokenizer("words", analyzer)
    return index


class IndexBuild:
    """Documents on their way into an index. `add` returns before they are indexed; `close` waits for all.

    With it a caller can go on making chunks while those before are indexed.
    """

    def __init__(
        self, index: tantivy.Index | None = None, *, threads: int = 0, known: Known | None = None
    ) -> None:
        """Add to `index`, or to a new one; `threads` of tantivy, 0 for as many as there are cores.

        Args:
            known: what earlier builds put beside the text of chunks; it is added to.

        Raises:
            ValueError: tantivy refused; `build_errors` gives it a code.
        """
        self.index = index or empty_index()
        self._writer = self.index.writer(HEAP_BYTES, num_threads=threads)
        self._documents = _Documents(known)
        self._keys: Iterator[int] = count()
        self._waiting: list[tantivy.Document] = []

    def add(self, file: SourceFile, chunks: Chunks, rows: range, text: FileText | None = None) -> None:
        """Index those chunks of a file under the next numbers, from 0 on; `text` is that of all, if known."""
        for document, key in zip(self._documents.of(file, chunks, rows, text), self._keys, strict=False):
            document.add_unsigned("id", key)
            self._waiting.append(document)
            if len(self._waiting) >= _TOGETHER:
                self._hand_over()

    def _hand_over(self) -> None:
        for document in self._waiting:
            self._writer.add_document(document)
        self._waiting.clear()

    def replace_group(self, corpus: Corpus, group: int, keys: range, chunks: Chunks, rows: range) -> None:
        """Index a group anew as one segment, which one thread makes."""
        name = f"g{group}"
        self._writer.delete_documents_by_term("group", name)
        documents = (
            document
            for file, mine in groupby(rows, key=chunks.files.__getitem__)
            for document in self._documents.of(corpus.files[file], chunks, mine)
        )
        for key, document in zip(keys, documents, strict=True):
            document.add_unsigned("id", key)
            document.add_text("group", name)
            self._writer.add_document(document)
        self._writer.commit()

    def close(self) -> tantivy.Index:
        """The index with all that was added."""
        self._hand_over()
        self._writer.commit()
        self._writer.wait_merging_threads()
        self.index.reload()
        return self.index


class StoredBuild(IndexBuild):
    """A build that was finished earlier."""

    def __init__(self, index: tantivy.Index) -> None:
        self.index = index

    def close(self) -> tantivy.Index:
        """The index as it was stored."""
        self.index.reload()
        return self.index


def path_words(path: str) -> str:
    """The words of a path as index text, the stem of the file last: folders, stem, camelCase parts."""
    found: list[str] = []
    for word in _PATH_WORD.findall(path):
        found.append(word)
        split = words.parts(word) if word.isascii() else [*words.terms(word)]
        if len(split) > 1:
            found += split
    return " ".join(found)


class FileText(NamedTuple):
    """What of a file is indexed beside its own text: the words of its path, and for each chunk `Beside`."""

    path: str
    beside: Sequence[Beside]


def known_text(corpus: Corpus, chunks: Chunks, text: Callable[[SourceFile], FileText | None]) -> Known:
    """The index text of files that `text` knows, as an index that is to be updated keeps it."""
    known: Known = {}
    for file, rows in chunks.runs():
        source = corpus.files[file]
        made = text(source)
        if made is not None:
            for row, beside in zip(rows, made.beside, strict=True):
                known[_key(source, chunks.byte_starts[row], chunks.byte_ends[row])] = beside
    return known


def _key(file: SourceFile, start: int, end: int) -> tuple[str, int, int]:
    return f"{file.kind}:{file.content_hash}", start, end


class IndexText:
    """Makes what is indexed beside a text; words that were split once are remembered."""

    def __init__(self) -> None:
        self._camel = words.CamelParts()
        self._foreign = words.ForeignTerms()

    def beside(self, kind: FileKind, name: str, data: bytes) -> Beside:
        """The index text beside that of a chunk of a file of this kind; `data` is its text as UTF-8."""
        further = "" if data.isascii() else self._foreign.of(data, kind is not FileKind.DATA)
        plain = not name or name.islower()
        split = "" if plain else self._camel.of(name.encode("utf-8", "replace"))
        return self._camel.of(data), further, split


class _Documents:
    """Makes documents."""

    def __init__(self, known: Known | None) -> None:
        self._known = known
        self._text = IndexText()

    def of(
        self, file: SourceFile, chunks: Chunks, rows: Iterable[int], made: FileText | None = None
    ) -> Iterator[tantivy.Document]:
        """The documents of chunks of one file, without their keys."""
        path = path_words(file.path) if made is None else made.path
        starts, ends, read = chunks.byte_starts, chunks.byte_ends, file.content.read
        for place, row in enumerate(rows):
            start, end = starts[row], ends[row]
            if file.derived is None:
                data = read(start, end)
                text = data.decode("utf-8", "replace")
            else:
                part = file.derived.part(*chunks.items(row))
                data = part.encode("utf-8", "replace")  # JSON may hold lone surrogates
                text = data.decode("utf-8")
            name = chunks.name(row)
            beside = self._beside(file, (start, end), name, data) if made is None else made.beside[place]
            camel, foreign, name_parts = beside
            document = tantivy.Document()
            document.add_text("body", text)
            if camel:
                document.add_text("body", camel)
            if foreign:
                document.add_text("body", foreign)
            if name:
                document.add_text("name", name)
            if name_parts:
                document.add_text("name", name_parts)
            document.add_text("path", path)
            yield document

    def _beside(self, file: SourceFile, span: tuple[int, int], name: str, data: bytes) -> Beside:
        """What is indexed beside a chunk's text: most of the time that a document takes."""
        if self._known is None or file.derived is not None:
            return self._text.beside(file.kind, name, data)
        key = _key(file, *span)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._text.beside(file.kind, name, data)
        return found
