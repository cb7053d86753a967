"""Records: JSON and JSON Lines of items, and exports of conversations."""

from agentloop.sources.records.detect import looks_like_records
from agentloop.sources.records.extract import (
    EXTRACTOR,
    VERSION,
    BinaryOnlyError,
    extract_all,
    extract_records,
)

__all__ = ["EXTRACTOR", "VERSION", "BinaryOnlyError", "extract_all", "extract_records", "looks_like_records"]
