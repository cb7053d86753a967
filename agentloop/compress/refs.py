"""Source refs from places: hashes of the very bytes, pages, times, record ids, and how text was derived."""

from __future__ import annotations

import hashlib

from agentloop.pack import CollapsedRef, DerivedSpan, SourceRef
from agentloop.sources.documents.spans import PACKED_TEXT, RUN_LINES
from agentloop.types import Corpus, Derived, Place


def digest(data: bytes) -> str:
    """`sha256:` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def text_digest(text: str) -> str:
    """Hash of a text's UTF-8 form; lone surrogates are kept."""
    return digest(text.encode("utf-8", "surrogatepass"))


def enclosed(derived: Derived, byte_start: int, byte_end: int) -> tuple[int, int]:
    """First and last item that lie wholly in a byte span; `(0, -1)` where none does.

    The characters of a `DerivedSpan` count from the start of the joined text of these items, so that they
    can be found again from the bytes alone.
    """
    inside = [
        n for n, (start, end, _, _) in enumerate(derived.spans()) if byte_start <= start and end <= byte_end
    ]
    return (inside[0], inside[-1]) if inside else (0, -1)


def source_ref(corpus: Corpus, place: Place, *, with_path: bool) -> SourceRef:
    """The exact ref of a place, with whole hashes."""
    file = corpus.files[place.file]
    record_ids: tuple[str, ...] = ()
    start, end = place.timestamp_start, place.timestamp_end
    pages: tuple[int, int] | None = None
    if file.derived is not None and place.first_item >= 0:
        items = file.derived.items[place.first_item : place.last_item + 1]
        record_ids = tuple(dict.fromkeys(item.record_id for item in items if item.record_id))
        start = start or items[0].timestamp
        end = end or items[-1].timestamp
        if record_ids and start[:10] == end[:10]:
            end = ""  # a run within one day: its first time is enough, and each token counts
        pages = (items[0].page, items[-1].page) if items[0].page else None
    return SourceRef(
        input_id=file.input_id,
        path=file.ref_path if with_path else None,
        line_start=place.line_start,
        line_end=place.line_end,
        byte_start=place.byte_start,
        byte_end=place.byte_end,
        content_hash=file.ref_hash,
        chunk_hash=digest(file.content.read(place.byte_start, place.byte_end)),
        timestamp_start=start or None,
        timestamp_end=end if end and end != start else None,
        page_start=pages[0] if pages else None,
        page_end=pages[1] if pages and pages[1] != pages[0] else None,
        commit=file.commit or None,
        record_ids=record_ids,
        derived=_derived(corpus, place, with_path=with_path),
    )


def _derived(corpus: Corpus, place: Place, *, with_path: bool) -> DerivedSpan | None:
    file = corpus.files[place.file]
    derived = file.derived
    if derived is None or place.first_item < 0:
        return None
    first, _ = enclosed(derived, place.byte_start, place.byte_end)
    before = sum(derived.size(n) + 1 for n in range(first, place.first_item))
    joined = derived.joined(place.first_item, place.last_item)
    lines: tuple[int, int] | None = None
    if derived.extractor in PACKED_TEXT:
        skipped = place.first_item * RUN_LINES + joined.count("\n", 0, place.char_start)
        within = joined.count("\n", place.char_start, max(place.char_start, place.char_end - 1))
        lines = (skipped + 1, skipped + 1 + within)
    return DerivedSpan(
        extractor=derived.extractor,
        version=derived.version,
        text_hash=text_digest(joined[place.char_start : place.char_end]),
        char_start=before + place.char_start,
        char_end=before + place.char_end,
        member=(file.member or None) if with_path else None,
        line_start=lines[0] if lines else None,
        line_end=lines[1] if lines and lines[1] != lines[0] else None,
    )


def collapsed_ref(corpus: Corpus, place: Place, decisive: SourceRef) -> CollapsedRef:
    """The lines of a duplicate, without what the item's decisive ref already says."""
    file = corpus.files[place.file]
    return CollapsedRef(
        input_id=None if file.input_id == decisive.input_id else file.input_id,
        path=None if decisive.path is None or file.ref_path == decisive.path else file.ref_path,
        line_start=place.line_start,
        line_end=place.line_end,
    )


def place_text(corpus: Corpus, place: Place) -> str:
    """The text of a place, derived or decoded."""
    file = corpus.files[place.file]
    if file.derived is not None and place.first_item >= 0:
        return file.derived.joined(place.first_item, place.last_item)[place.char_start : place.char_end]
    text = file.content.read(place.byte_start, place.byte_end).decode("utf-8", "replace")
    return text.removeprefix("\ufeff") if place.byte_start == 0 else text  # a mark of the encoding
