"""Mail: EML files and mboxes, one item a message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import parsedate_to_datetime

from agentloop.sources.documents.html import extract_html
from agentloop.sources.documents.spans import LIBRARY_ERRORS, anchor
from agentloop.sources.records.newest import Newest
from agentloop.types import Content, Derived, Item, Memory

EXTRACTOR = "mail"
VERSION = "1"
_FROM = re.compile(rb"^From [^\n]{1,300}$", re.MULTILINE)
_LONGEST_FROM = 320  # bytes from the start of such a line to behind its end
_BEFORE = 4  # bytes that show whether a line is blank
_BLOCK = 1 << 20
_MAX_MESSAGE = 64 << 20  # a larger one is all attachments
_YEAR = re.compile(rb"\d{4}")
_MAX_HEADER = 4096  # bytes of one header; parsers of longer ones take quadratic time
_MAX_BOUNDARIES = 5000
_CONTENT_HEADER = re.compile(
    rb"^content-[a-z-]{1,40}[ \t]*:[^\n]*+(?:\n[ \t][^\n]*+)*+", re.IGNORECASE | re.MULTILINE
)
_SHOWN = ("Subject", "To", "Cc")  # sender and date are fields of the item
_MAX_PARTS = 200
_REPLY = re.compile(r"(?:\s*(?:re|fwd?|aw|sv|odp)\s*(?:\[\d+\])?\s*:)+\s*", re.IGNORECASE)


def extract_mail(data: bytes, limit: int) -> Derived:
    """As `extract_mailbox`, without a cap: text is never longer than the mail. For verification.

    Raises:
        ValueError: no message has text.
    """
    return extract_mailbox(Memory(data), len(data) + 1)


def extract_mailbox(content: Content, max_chars: int) -> Derived:
    """A message's chosen headers and its text; HTML is read only where no plain text is.

    One message is held at a time. Attachments are left out and named. The span begins with the message's
    headers and has at most 60 lines. The scope is the subject without `Re:`, so that a thread has one.
    The text of all items is at most `max_chars` characters: the newest messages are kept.

    Raises:
        ValueError: no message has text.
    """
    newest = Newest(max_chars)
    attachments = damaged = 0
    for start, end, line in _messages(content):
        try:
            if end - start > _MAX_MESSAGE:
                raise ValueError("too large")
            raw = content.read(start, end)
            message = _parsed(raw)
            found = _item(raw, message, start, line)
            attachments += sum(1 for _ in _attachments(message))
        except LIBRARY_ERRORS:
            damaged += 1
            continue
        if found.text.strip():
            newest.append(found)
    if not newest.total:
        raise ValueError("no message holds text")
    kept = newest.kept()
    left_out = {"attachments": attachments, "damaged messages": damaged}
    told = [f"{what} are left out ({count})" for what, count in left_out.items() if count]
    return Derived(EXTRACTOR, VERSION, kept, (*newest.notes("messages", len(kept)), *told))


def _messages(content: Content) -> Iterator[tuple[int, int, int]]:
    """Start, end and first line of each message; one where no line separates them as in an mbox."""
    if content.read(0, 5) != b"From ":
        yield 0, content.size, 1
        return
    head, line, counted = 0, 1, 0
    for start in _starts(content):
        if 0 < head < start:
            yield head, start, line
        head = start + content.read(start, start + _LONGEST_FROM).find(b"\n") + 1
        line += _newlines(content, counted, head)
        counted = head
    if 0 < head < content.size:
        yield head, content.size, line


def _starts(content: Content) -> Iterator[int]:
    """Where a `From ` line with a year begins a message: at the start, or behind a blank line."""
    for at in range(0, content.size, _BLOCK):
        low = max(0, at - _BEFORE)
        data = content.read(low, at + _BLOCK + _LONGEST_FROM)
        for found in _FROM.finditer(data):
            start = low + found.start()
            if (
                at <= start < at + _BLOCK
                and _YEAR.search(found[0])
                and (not start or _opens(data, found.start()))
            ):
                yield start


def _newlines(content: Content, start: int, end: int) -> int:
    return sum(content.read(at, min(at + _BLOCK, end)).count(b"\n") for at in range(start, end, _BLOCK))


def _parsed(raw: bytes) -> Message:
    """The message, its overlong content headers dropped: the library takes quadratic time on them.

    Raises:
        ValueError: very many parts.
    """
    if raw.count(b"\n--") > _MAX_BOUNDARIES:
        raise ValueError("too many parts")
    short = _CONTENT_HEADER.sub(lambda found: found[0] if len(found[0]) <= _MAX_HEADER else b"", raw)
    return message_from_bytes(short)


def _opens(data: bytes, at: int) -> bool:
    """Whether a blank line stands before a place."""
    return data[max(0, at - 2) : at] == b"\n\n" or data[max(0, at - 3) : at] == b"\n\r\n"


def _item(raw: bytes, message: Message, start: int, line: int) -> Item:
    headers = [f"{name}: {_header(message, name)}" for name in _SHOWN if _header(message, name)]
    subject = _header(message, "Subject")
    text = "\n".join(headers) + "\n\n" + _body(message)
    _, size, first, last = anchor(raw, 0, len(raw), line)
    return Item(
        text.strip().encode("utf-8", "replace").decode("utf-8"),
        start,
        start + size,
        first,
        last,
        record_id=_header(message, "Message-ID").strip("<>")[:200] or f"message {line}",
        scope=_REPLY.sub("", subject, count=1) if _REPLY.match(subject) else subject,
        timestamp=_date(message),
        speaker=_header(message, "From").split("<")[0].strip(' "') or _header(message, "From").strip("<>"),
    )


def _header(message: Message, name: str) -> str:
    """A header in one line; raw UTF-8 and encoded words are decoded, what can't be is empty."""
    low = name.lower()
    raw = next((str(value) for key, value in message.raw_items() if key.lower() == low), "")
    if len(raw) > _MAX_HEADER:
        return ""
    text = raw.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if "=?" in text:
        try:
            text = str(make_header(decode_header(text)))
        except (*LIBRARY_ERRORS, MessageError):  # encoded words in a charset that nobody knows
            return ""
    return " ".join(text.split())[:500]


def _date(message: Message) -> str:
    try:
        when = parsedate_to_datetime(_header(message, "Date"))
        zoned = when.tzinfo is not None
        return (when.astimezone(UTC) if zoned else when).isoformat()[:19] + ("Z" if zoned else "")
    except LIBRARY_ERRORS:
        return ""


def _attachments(message: Message) -> Iterator[Message]:
    for number, part in enumerate(message.walk()):
        if number < _MAX_PARTS and part.get_content_disposition() == "attachment":
            yield part


def _body(message: Message) -> str:
    plain: list[str] = []
    pages: list[str] = []
    for number, part in enumerate(message.walk()):
        if number >= _MAX_PARTS or part.is_multipart() or part.get_content_disposition() == "attachment":
            continue
        kind = part.get_content_type()
        if kind in ("text/plain", "text/html"):
            (plain if kind == "text/plain" else pages).append(_decoded(part))
    if plain:
        return "\n".join(plain)
    shown = []
    for page in pages:
        try:
            shown += [item.text for item in extract_html(page.encode(), len(page) * 4).items]
        except ValueError:
            continue
    return "\n".join(shown)


def _decoded(part: Message) -> str:
    payload = part.get_payload(decode=True)
    raw = payload if isinstance(payload, bytes) else b""
    try:
        return raw.decode(part.get_content_charset() or "utf-8", "replace").replace("\r\n", "\n")
    except LookupError:
        return raw.decode("utf-8", "replace").replace("\r\n", "\n")
