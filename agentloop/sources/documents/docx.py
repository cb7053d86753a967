"""DOCX: paragraphs and tables of the main document, by heading."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, field
from xml.parsers import expat

from agentloop.sources.documents.spans import LIBRARY_ERRORS, TooMuchError, anchor, item
from agentloop.types import Derived, Item

EXTRACTOR = "docx"
VERSION = "1"
_MAIN = "word/document.xml"
_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main "
_ITEM_CHARS = 1500
_PIECE = 1 << 16
_LOCAL_HEADER = 30  # bytes of a ZIP entry's local header before its name


def extract_docx(data: bytes, limit: int) -> Derived:
    """Paragraphs packed under their heading, a table row a line with ` | ` between cells.

    An item's span is the local header of the entry `word/document.xml` in the ZIP file.

    Raises:
        TooMuchError: the document is over `limit` bytes when it is decompressed.
        ValueError: it is no DOCX, or holds no text.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            info = archive.getinfo(_MAIN)
            span = anchor(data, info.header_offset, info.header_offset + _LOCAL_HEADER + len(_MAIN))
            reader = _Reader()
            with archive.open(info) as stream:
                size = 0
                while piece := stream.read(_PIECE):
                    size += len(piece)
                    if size > limit:
                        raise TooMuchError(f"over {limit} bytes when it is decompressed")
                    reader.feed(piece)
                reader.feed(b"", final=True)
    except TooMuchError:
        raise
    except (zipfile.BadZipFile, expat.ExpatError, *LIBRARY_ERRORS) as exc:
        raise ValueError(f"damaged or encrypted ({type(exc).__name__})") from None
    items = _pack(reader.blocks, span)
    if not items:
        raise ValueError("it holds no text")
    return Derived(EXTRACTOR, VERSION, items)


@dataclass(slots=True)
class _Block:
    """A paragraph or a table row. `level` is that of a heading, 0 for text."""

    text: str
    level: int = 0


@dataclass(slots=True)
class _Reader:
    """Follows the paragraphs, runs and tables of WordprocessingML. Declarations of entities are refused."""

    blocks: list[_Block] = field(default_factory=list)
    _parser: expat.XMLParserType = field(default_factory=lambda: expat.ParserCreate(namespace_separator=" "))
    _text: list[str] = field(default_factory=list)
    _cells: list[list[str]] = field(default_factory=list)  # of open table rows, innermost last
    _level: int = 0
    _in_text: bool = False

    def __post_init__(self) -> None:
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._data
        self._parser.StartDoctypeDeclHandler = self._doctype

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Parse the next piece."""
        self._parser.Parse(data, final)

    @staticmethod
    def _doctype(*_: object) -> None:
        raise ValueError("it declares a document type")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.removeprefix(_W)
        if tag == "t":
            self._in_text = True
        elif tag in ("tab", "br", "cr"):
            self._text.append("\t" if tag == "tab" else "\n")
        elif tag == "pStyle":
            self._level = _heading_level(attributes.get(_W + "val", ""))
        elif tag == "outlineLvl" and attributes.get(_W + "val", "").isdigit():
            self._level = self._level or min(int(attributes[_W + "val"]) + 1, 9)
        elif tag == "tr":
            self._cells.append([])

    def _data(self, text: str) -> None:
        if self._in_text:
            self._text.append(text)

    def _end(self, name: str) -> None:
        tag = name.removeprefix(_W)
        if tag == "t":
            self._in_text = False
        elif tag == "p":
            text = "".join(self._text).strip()
            self._text.clear()
            if self._cells:
                self._cells[-1].append(text)
            elif text:
                self.blocks.append(_Block(text, self._level))
            self._level = 0
        elif tag == "tc" and self._cells:
            self._cells[-1].append("\0")  # the end of a cell, which may hold several paragraphs
        elif tag == "tr" and self._cells:
            self._row(self._cells.pop())

    def _row(self, parts: list[str]) -> None:
        cells = " ".join(part or "" for part in parts).split("\0")
        row = " | ".join(" ".join(cell.split()) for cell in cells[:-1])
        if self._cells:
            self._cells[-1].append(row)
        elif row.strip(" |"):
            self.blocks.append(_Block(row))


def _heading_level(style: str) -> int:
    name = style.lower().replace(" ", "")
    if name == "title":
        return 1
    digits = name.removeprefix("heading")
    return int(digits) if digits != name and digits.isdigit() and int(digits) < 10 else 0


def _pack(blocks: list[_Block], span: tuple[int, int, int, int]) -> tuple[Item, ...]:
    """Blocks under one heading, joined up to about 1,500 characters."""
    items: list[Item] = []
    path: list[tuple[int, str]] = []
    texts: list[str] = []
    size = 0

    def flush() -> None:
        if texts:
            items.append(item("\n".join(texts), span, heading=" > ".join(title for _, title in path)))
            texts.clear()

    for block in blocks:
        if block.level:
            flush()
            path[:] = [entry for entry in path if entry[0] < block.level]
            path.append((block.level, block.text))
        elif size + len(block.text) > _ITEM_CHARS:
            flush()
        size = len(block.text) + (size if texts else 0)
        texts.append(block.text)
    flush()
    return tuple(items)
