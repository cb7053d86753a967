"""The extractors by name: what makes text of a file whose bytes are no plain text."""

from __future__ import annotations

from collections.abc import Callable

from agentloop.sources import records, utf16
from agentloop.types import Derived

Extractor = Callable[[bytes], Derived]

EXTRACTORS: dict[tuple[str, str], Extractor] = {
    (utf16.EXTRACTOR, utf16.VERSION): utf16.extract_wide,
    (records.EXTRACTOR, records.VERSION): records.extract_all,
}


def extract(extractor: str, version: str, data: bytes) -> Derived:
    """The same derived text that discovery made of these bytes.

    Raises:
        KeyError: this version of agentloop has no such extractor, so the text can't be made again.
        ValueError: the bytes aren't what the extractor reads.
    """
    return EXTRACTORS[extractor, version](data)
