"""CSV and TSV: each row with the names of its columns."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from agentloop.types import Derived, Item

EXTRACTOR = "table"
VERSION = "1"
MAX_ROWS = 200_000
_ROW_LINES = 60  # a quoted field may hold line breaks; a longer row is damaged quoting
_SAMPLE = 16384


def extract_table(data: bytes, limit: int) -> Derived:  # at most as many cells as separators
    """One item a row, `column: value` joined by `; `, with the row's exact bytes and lines.

    Raises:
        ValueError: it is no table: fewer than two columns, no header, or rows of other widths.
    """
    rows = list(_rows(data))
    sample = data[:_SAMPLE].decode("utf-8", "replace")
    delimiter = max(",;\t|", key=sample.split("\n", 1)[0].count)
    parsed = [
        (start, end, line, _cells(data[start:end], delimiter)) for start, end, line in rows[: MAX_ROWS + 1]
    ]
    header = [" ".join(cell.split()) for cell in parsed[0][3]] if parsed else []
    body = parsed[1:]
    fits = sum(1 for _, _, _, cells in body[:200] if len(cells) == len(header))
    if len(header) < 2 or not body or not all(header[:2]) or fits * 10 < len(body[:200]) * 8:
        raise ValueError("no table with a header")
    items = [
        Item(text, start, end, line, line + data.count(b"\n", start, end - 1))
        for start, end, line, cells in body
        if (text := _text(header, cells))
    ]
    notes = (f"rows after the first {MAX_ROWS} are left out",) if len(rows) > MAX_ROWS + 1 else ()
    return Derived(EXTRACTOR, VERSION, tuple(items), notes)


def _rows(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Start, end and first line of each row; a row goes on while a quote is open."""
    start, line = 3 if data.startswith(b"\xef\xbb\xbf") else 0, 1
    while start < len(data):
        end = start
        lines = 0
        while True:
            cut = data.find(b"\n", end)
            end = len(data) if cut < 0 else cut + 1
            lines += 1
            closed = data.count(b'"', start, end) % 2 == 0
            if closed or end == len(data) or lines >= _ROW_LINES:
                break
        if data[start:end].strip():
            yield start, end, line
        line += lines
        start = end


def _cells(row: bytes, delimiter: str) -> list[str]:
    text = row.decode("utf-8", "replace").rstrip("\r\n")
    try:
        return next(csv.reader([text], delimiter=delimiter), [])
    except csv.Error:
        return text.split(delimiter)


def _text(header: list[str], cells: list[str]) -> str:
    names = [*header, *(f"column {n + 1}" for n in range(len(header), len(cells)))]
    pairs = (
        f"{name}: {' '.join(cell.split())}" for name, cell in zip(names, cells, strict=False) if cell.strip()
    )
    return "; ".join(pairs)
