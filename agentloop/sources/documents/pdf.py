"""PDF: one item a page."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from agentloop.sources.documents.spans import LIBRARY_ERRORS, TooMuchError, anchor, item
from agentloop.types import Derived, Item

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

EXTRACTOR = "pdf"
VERSION = "2"
MAX_PAGES = 5000
_OBJECT = re.compile(rb"\s*\d+\s+\d+\s+obj\b")


def extract_pdf(data: bytes, limit: int) -> Derived:
    """The text of each page that has any; its span is that of the page's object in the file.

    Raises:
        TooMuchError: more than 5,000 pages or `limit` characters.
        ValueError: it is damaged, encrypted, or holds no text (scanned pages).
    """
    import logging

    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it repairs is nobody's concern
    items: list[Item] = []
    pages = size = 0
    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        pages = len(reader.pages)
        if pages > MAX_PAGES:
            raise TooMuchError(f"{pages} pages, over {MAX_PAGES}")
        for number, page in enumerate(reader.pages, 1):
            text = _tidy(_with_tables(page.extract_text(), page))
            size += len(text)
            if size > limit:
                raise TooMuchError(f"over {limit} characters of text")
            if text:
                items.append(item(text, _span(data, reader, page), page=number))
    except TooMuchError:
        raise
    except (PyPdfError, *LIBRARY_ERRORS) as exc:
        raise ValueError(f"damaged or encrypted ({type(exc).__name__})") from None
    if not items:
        raise ValueError(f"its {pages} pages hold no text (scanned?)")
    notes = (f"{pages - len(items)} of {pages} pages hold no text",) if len(items) < pages else ()
    return Derived(EXTRACTOR, VERSION, tuple(items), notes)


SHORT_LINES = 8  # a page with so many, most of its lines, may be a table that was written by columns
SHORT_WORDS = 3
COLUMNS = re.compile(r"(?<=\S) {3,}(?=\S)")


def _with_tables(text: str, page: PageObject) -> str:
    """The page's text; where its lines are mostly cells, by their places on the page: `cell | cell` a row.

    Writers of tables often write column after column, which leaves a cell a line and no rows.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    short = sum(len(line.split()) <= SHORT_WORDS for line in lines)
    if short < SHORT_LINES or short * 2 < len(lines):
        return text
    placed = page.extract_text(extraction_mode="layout")
    rows = [COLUMNS.sub(" | ", line.strip()) for line in placed.split("\n") if line.strip()]
    return "\n".join(rows) if sum(" | " in row for row in rows) >= 2 else text


def _tidy(text: str) -> str:
    """Without trailing blanks and lone surrogates."""
    lines = (line.rstrip() for line in text.encode("utf-8", "replace").decode("utf-8").split("\n"))
    return "\n".join(lines).strip("\n")


def _span(data: bytes, reader: PdfReader, page: PageObject) -> tuple[int, int, int, int]:
    """The page's object, or the object stream that holds it; the file's header where neither is found."""
    ref = page.indirect_reference
    number = ref.idnum if ref is not None else -1
    packed = reader.xref_objStm.get(number)
    start = reader.xref.get(0, {}).get(packed[0] if packed else number, 0)
    if not _OBJECT.match(data, start):
        return anchor(data, 0, data.find(b"\n") + 1)
    end = data.find(b"endobj", start)
    return anchor(data, start, end + len(b"endobj") if end >= 0 else len(data))
