"""The values that pass between stages. Everything here is immutable and holds no behaviour of a stage.

Offsets: bytes are half-open and count from the start of the original file; lines are 1-based,
inclusive and end at `\\n`, as `git` and editors count them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from agentloop.items import Item as Item  # noqa: PLC0414 - a re-export
from agentloop.items import PackedItems, Span4
from agentloop.request import Classification, InputRole, InputType


class FileKind(StrEnum):
    """What a file is to the chunker."""

    CODE = "code"
    PROSE = "prose"
    LOG = "log"
    DIFF = "diff"
    DATA = "data"
    TEXT = "text"
    RECORDS = "records"
    DOCUMENT = "document"


class Trait(StrEnum):
    """What lowers a file's rank unless the question asks for it."""

    TEST = "test"
    EXAMPLE = "example"
    VENDORED = "vendored"
    GENERATED = "generated"
    MINIFIED = "minified"
    LOCK = "lock"
    DOCS = "docs"


class SkipReason(StrEnum):
    """Why something of an input was not indexed."""

    BINARY = "binary"
    IGNORED = "ignored"
    TOO_LARGE = "too_large"
    SYMLINK = "symlink"
    HARD_LINK = "hard_link"
    SPECIAL_FILE = "special_file"
    UNREADABLE = "unreadable"
    VANISHED = "vanished"
    CHANGED = "changed_while_read"
    FILE_LIMIT = "file_limit"
    BYTE_LIMIT = "byte_limit"
    DEPTH_LIMIT = "depth_limit"
    EMPTY = "empty"
    VCS = "version_control"
    FILTERED = "filtered"
    MALFORMED = "malformed"
    BOMB = "extraction_limit"


class Content(Protocol):
    """The bytes of one file as they were when it was hashed."""

    @property
    def size(self) -> int:
        """Length in bytes."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """The bytes `[start, end)`."""
        ...


@dataclass(frozen=True, slots=True)
class Memory:
    """Content held in memory: the one copy of a file's bytes."""

    data: bytes

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self.data)

    def read(self, start: int, end: int) -> bytes:
        """The bytes `[start, end)`."""
        return self.data[start:end]


@dataclass(frozen=True, slots=True)
class Derived:
    """Text that an extractor made of a file. Joined with `\\n`, the items of a span are its text.

    `extract(version)` must give the same items again from the same bytes: verification relies on it.
    """

    extractor: str
    version: str
    items: Sequence[Item]  # a tuple of few, `PackedItems` of many
    notes: tuple[str, ...] = ()

    def joined(self, first: int, last: int) -> str:
        """The text of items `first..last`, inclusive."""
        items = self.items
        if isinstance(items, PackedItems):
            if first == last:
                return items.text(first)
            return "\n".join([items.text(n) for n in range(first, last + 1)])
        return "\n".join(item.text for item in items[first : last + 1])

    def part(self, first: int, last: int, start: int, end: int) -> str:
        """The characters `[start, end)` of the text of items `first..last`, inclusive."""
        return self.joined(first, last)[start:end]

    def size(self, index: int) -> int:
        """Number of characters of an item's text."""
        items = self.items
        return items.size(index) if isinstance(items, PackedItems) else len(items[index].text)

    def spans(self) -> Iterator[Span4]:
        """Bytes `[start, end)`, first and last line of each item in order."""
        if isinstance(self.items, PackedItems):
            return self.items.spans()
        return ((item.byte_start, item.byte_end, item.line_start, item.line_end) for item in self.items)


@dataclass(frozen=True, slots=True)
class Archive:
    """The file that a member lies in: its path and hash are what refs carry."""

    path: str
    content_hash: str
    size: int


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One indexed file. `path` is `/`-separated, relative to its input's root, lossless (surrogateescape).

    A member of an archive is a file of its own: `path` is `ARCHIVE/MEMBER`, `size` and `content_hash` are the
    member's, its text is derived, and `content` with all spans is that of the archive.
    """

    index: int
    input_id: str
    path: str
    kind: FileKind
    language: str
    mime: str
    size: int
    content_hash: str  # sha256: and 64 hex digits
    classification: Classification
    content: Content
    traits: frozenset[Trait] = frozenset()
    derived: Derived | None = None
    commit: str = ""  # only for content that is not the work tree's
    modified_ns: int = 0  # st_mtime_ns of the descriptor that was read; orders `completion` only
    archive: Archive | None = None  # where the file is a member of one
    historic: bool = False  # an earlier version that evidence cites; it was not searched

    @property
    def ref_path(self) -> str:
        """The path of the file on disk: what a ref names."""
        return self.path if self.archive is None else self.archive.path

    @property
    def ref_hash(self) -> str:
        """The hash of the file on disk."""
        return self.content_hash if self.archive is None else self.archive.content_hash

    @property
    def member(self) -> str:
        """The name of the member in its archive, "" for a plain file."""
        return "" if self.archive is None else self.path[len(self.archive.path) + 1 :]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Something of an input that was left out, and why."""

    input_id: str
    path: str
    reason: SkipReason
    detail: str = ""
    is_dir: bool = False


@dataclass(frozen=True, slots=True)
class InputInfo:
    """One input after discovery. `content_hash` is the file's hash, or a folder's corpus hash."""

    input_id: str
    type: InputType
    role: InputRole
    root: str  # absolute path on this machine; never released
    is_dir: bool
    content_hash: str
    classification: Classification
    commit: str = ""
    tree: str = ""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Everything that discovery found, in deterministic order."""

    inputs: tuple[InputInfo, ...]
    files: tuple[SourceFile, ...]
    excluded: tuple[Exclusion, ...]
    notes: tuple[str, ...] = ()  # what a model must know of left-out data (binary fields, truncation)

    @property
    def classification(self) -> Classification:
        """The highest classification of any input or file."""
        found = {i.classification for i in self.inputs} | {f.classification for f in self.files}
        return max(found, key=lambda c: c.rank, default=Classification.INTERNAL)

    def text(self, chunk: Chunk) -> str:
        """The text of a chunk; undecodable bytes become U+FFFD, spans stay those of the bytes."""
        return text_of(self.files[chunk.file], chunk)


def text_of(file: SourceFile, chunk: Chunk) -> str:
    """The text of a chunk of `file`, as `Corpus.text` has it."""
    if file.derived is not None:
        return file.derived.part(chunk.first_item, chunk.last_item, chunk.char_start, chunk.char_end)
    return file.content.read(chunk.byte_start, chunk.byte_end).decode("utf-8", "replace")


class ChunkType(StrEnum):
    """What a chunk is; the finer types come from a parser, `window` from cheap structure."""

    WINDOW = "window"
    FUNCTION = "function"
    METHOD = "method"
    CLASS = "class"
    IMPORTS = "imports"
    HEADING = "heading"
    PARAGRAPH = "paragraph"
    TABLE = "table"
    LOG = "log"
    TRACE = "stack_trace"
    HUNK = "diff_hunk"
    RECORD = "record"
    PAGE = "page"


class Chunk(NamedTuple):
    """A span of one file: the unit of the index. Its id is its position in the sequence of chunks.

    Over derived text, `first_item..last_item` are the items, `char_start:char_end` is the slice of
    their joined text, and the byte and line span is that of the enclosing items.
    """

    file: int
    byte_start: int
    byte_end: int
    line_start: int
    line_end: int
    type: ChunkType = ChunkType.WINDOW
    name: str = ""  # symbol, or heading path joined with " > "
    first_item: int = -1
    last_item: int = -1
    char_start: int = 0
    char_end: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition that a parser found, with the spans that claims need."""

    name: str
    kind: str  # function, method, class, struct, interface, enum, type, constant, module, …
    parent: str
    byte_start: int
    byte_end: int
    line_start: int
    line_end: int
    signature: str
    doc: str = ""


class Hit(NamedTuple):
    """A chunk that one strategy or search found. A plain tuple: each query makes hundreds."""

    chunk: int
    score: float


@dataclass(frozen=True, slots=True)
class Span:
    """Part of a file, in the offsets of `Chunk`."""

    byte_start: int
    byte_end: int
    line_start: int
    line_end: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk after fusion and reranking. `score` is 0..1; `ranks` maps a strategy to its 1-based rank.

    `focus` are the decisive spans, best first, each within the chunk's file (a definition may be larger
    than the chunk that matched); empty means the chunk itself.
    """

    chunk: int
    score: float
    ranks: Mapping[str, int] = field(default_factory=dict)
    focus: tuple[Span, ...] = ()
    symbol: Symbol | None = None
    terms: tuple[str, ...] = ()  # the question's terms that it holds
    duplicates: tuple[int, ...] = ()  # chunks collapsed into this one, best first
    joined: tuple[int, ...] = ()  # turns of a conversation that its focus takes in beside it, best first


@dataclass(frozen=True, slots=True)
class Ranking:
    """The outcome of retrieval: candidates best first, duplicates collapsed, and what was counted.

    `considered` chunks were in the index, `retrieved` were found by some strategy within
    `retrieved_chunk_budget`, `reranked` were scored. `terms` are the question's content terms; `foreign`
    are the words by which texts in another language may say them.
    """

    candidates: tuple[Candidate, ...]
    considered: int
    retrieved: int
    reranked: int
    retrieved_tokens: int
    strategies: tuple[str, ...]
    terms: tuple[str, ...] = ()
    term_coverage: float = 0.0  # share of `terms` that some candidate holds
    strategy_agreement: float = 0.0  # mean share of strategies that found a top-ten candidate
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a claim points, before it becomes a `SourceRef`. Offsets as in `Chunk`."""

    file: int
    byte_start: int
    byte_end: int
    line_start: int
    line_end: int
    first_item: int = -1
    last_item: int = -1
    char_start: int = 0
    char_end: int = 0
    timestamp_start: str = ""
    timestamp_end: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """An evidence item before packing: a claim, its places (decisive first) and what collapsed into it."""

    kind: str
    claim: str
    places: tuple[Place, ...]
    relevance: float
    confidence: float
    derived_claim: str = ""  # the claim for protected inputs: no source text
    collapsed: tuple[Place, ...] = ()  # all duplicates, in order of occurrence; may be sampled for huge logs
    collapsed_count: int = 0  # exact number of duplicates, 0 for none
    flags: tuple[str, ...] = ()
    by_model: bool = False
