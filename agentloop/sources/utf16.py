"""UTF-16 and UTF-32 text, with or without a byte order mark, as one item a line.

An item's bytes are its line between `\\n` characters; its line numbers count the 0x0A bytes of the
original, as everywhere, which for these encodings may differ from what an editor shows.
"""

from __future__ import annotations

from agentloop.types import Derived, Item

EXTRACTOR = "utf-16"
VERSION = "1"
_MARKS = (
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_SNIFF = 4096
_PRINTABLE = bytes(range(0x20, 0x7F)) + b"\t\n\r"


def wide_encoding(data: bytes) -> str:
    """The codec of wide text, or "" for anything else.

    Without a mark, text is taken for UTF-16 when nearly all units of its first 4 KiB are printable Latin
    characters: one byte of each pair is then 0 and the other is text.
    """
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return codec if _decodes(data[: _SNIFF * 4], codec) else ""
    head = data[:_SNIFF]
    head = head[: len(head) // 2 * 2]
    if len(head) < 8:
        return ""
    for codec, zero, text in (("utf-16-le", head[1::2], head[0::2]), ("utf-16-be", head[0::2], head[1::2])):
        if zero.count(0) * 10 < len(zero) * 9:
            continue
        if len(text.translate(None, _PRINTABLE)) * 10 <= len(text):
            return codec if _decodes(head, codec) else ""
    return ""


def _decodes(data: bytes, codec: str) -> bool:
    width = 4 if "32" in codec else 2
    text = data[: len(data) // width * width].decode(codec, "replace")
    odd = sum(
        1 for char in text if char == "\ufffd" or (ord(char) < 32 and char not in "\t\n\r\f\x1b\x08\x07")
    )
    return bool(text) and odd * 20 <= len(text)


def extract_wide(data: bytes, limit: int) -> Derived:
    """One item a line, without its line end and without the byte order mark.

    Raises:
        ValueError: the bytes are no UTF-16 or UTF-32 text.
    """
    codec = wide_encoding(data)
    if not codec:
        raise ValueError("no UTF-16 or UTF-32 text")
    width = 4 if "32" in codec else 2
    newline = "\n".encode(codec)
    items: list[Item] = []
    start, line = 0, 1
    while start < len(data):
        found = data.find(newline, start)
        while found >= 0 and (found - start) % width:
            found = data.find(newline, found + 1)
        end = len(data) if found < 0 else found + width
        text = data[start:end].decode(codec, "replace").removeprefix("\ufeff").rstrip("\r\n")
        last = line + data.count(b"\n", start, end - 1)
        items.append(Item(text, start, end, line, last))
        line = last + (data[end - 1] == 0x0A)
        start = end
    return Derived(EXTRACTOR, VERSION, tuple(items))
