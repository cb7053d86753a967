"""The extractors by name: what makes text of a file whose bytes are no plain text, or not only text."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from agentloop.config import Caps
from agentloop.types import Derived

Extractor = Callable[[bytes, int], Derived]

# name -> (version, module, function); a module is imported when a file needs it
_EXTRACTORS: dict[str, tuple[str, str, str]] = {
    "utf-16": ("1", "utf16", "extract_wide"),
    "records": ("1", "records", "extract_all"),
    "compressed": ("1", "documents.compressed", "extract_compressed"),
    "pdf": ("2", "documents.pdf", "extract_pdf"),
    "docx": ("1", "documents.docx", "extract_docx"),
    "html": ("1", "documents.html", "extract_html"),
    "notebook": ("1", "documents.notebook", "extract_notebook"),
    "mail": ("1", "documents.mail", "extract_mail"),
    "table": ("1", "documents.tables", "extract_table"),
}


def extract(extractor: str, version: str, data: bytes, limit: int = Caps().max_extracted_bytes) -> Derived:
    """The same derived text that discovery made of these bytes.

    Raises:
        KeyError: this version of agentloop has no such extractor, so the text can't be made again.
        ValueError: the bytes aren't what the extractor reads, or their text is over `limit`.
    """
    known, module, function = _EXTRACTORS[extractor]
    if known != version:
        raise KeyError(f"{extractor} {version}")
    run: Extractor = getattr(import_module(f"agentloop.sources.{module}"), function)
    return run(data, limit)


def version_of(extractor: str) -> str:
    """The version of an extractor, as refs carry it."""
    return _EXTRACTORS[extractor][0]
