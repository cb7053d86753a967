"""Mail: EML files and mboxes, one item a message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC
from email import message_from_bytes
from email.message import EmailMessage, Message
from email.policy import default as default_policy
from email.utils import parsedate_to_datetime

from agentloop.sources.documents.html import extract_html
from agentloop.sources.documents.spans import LIBRARY_ERRORS, TooMuchError, anchor
from agentloop.types import Derived, Item

EXTRACTOR = "mail"
VERSION = "1"
_FROM = re.compile(rb"^From [^\n]{1,300}$", re.MULTILINE)
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
    """A message's chosen headers and its text; HTML is read only where no plain text is.

    Attachments are left out and named. The span begins with the message's headers and has at most 60
    lines. The scope is the subject without `Re:`, so that a thread has one.

    Raises:
        TooMuchError: over `limit` characters of text.
        ValueError: no message has text.
    """
    items: list[Item] = []
    size = attachments = damaged = 0
    for start, end, line in _messages(data):
        try:
            message = _parsed(data[start:end])
            found = _item(data, message, start, end, line)
            attachments += sum(1 for _ in _attachments(message))
        except LIBRARY_ERRORS:
            damaged += 1
            continue
        size += len(found.text)
        if size > limit:
            raise TooMuchError(f"over {limit} characters of text")
        if found.text.strip():
            items.append(found)
    if not items:
        raise ValueError("no message holds text")
    left_out = {"attachments": attachments, "damaged messages": damaged}
    notes = tuple(f"{what} are left out ({count})" for what, count in left_out.items() if count)
    return Derived(EXTRACTOR, VERSION, tuple(items), notes)


def _messages(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Start, end and first line of each message; one where no line separates them as in an mbox."""
    if not data.startswith(b"From "):
        yield 0, len(data), 1
        return
    starts = [
        found.start()
        for found in _FROM.finditer(data)
        if _YEAR.search(found[0]) and _opens(data, found.start())
    ]
    line, counted = 1, 0
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        head = data.find(b"\n", start) + 1
        line += data.count(b"\n", counted, head)
        counted = head
        if 0 < head < end:
            yield head, end, line


def _parsed(raw: bytes) -> EmailMessage:
    """The message, its overlong content headers dropped: the library takes quadratic time on them.

    Raises:
        ValueError: very many parts.
    """
    if raw.count(b"\n--") > _MAX_BOUNDARIES:
        raise ValueError("too many parts")
    short = _CONTENT_HEADER.sub(lambda found: found[0] if len(found[0]) <= _MAX_HEADER else b"", raw)
    return message_from_bytes(short, policy=default_policy)


def _opens(data: bytes, at: int) -> bool:
    """A `From ` line begins a message behind a blank line only."""
    return at == 0 or data[max(0, at - 2) : at] == b"\n\n" or data[max(0, at - 3) : at] == b"\n\r\n"


def _item(data: bytes, message: EmailMessage, start: int, end: int, line: int) -> Item:
    headers = [f"{name}: {_header(message, name)}" for name in _SHOWN if _header(message, name)]
    subject = _header(message, "Subject")
    text = "\n".join(headers) + "\n\n" + _body(message)
    return Item(
        text.strip().encode("utf-8", "replace").decode("utf-8"),
        *anchor(data, start, end, line),
        record_id=_header(message, "Message-ID").strip("<>")[:200] or f"message {line}",
        scope=_REPLY.sub("", subject, count=1) if _REPLY.match(subject) else subject,
        timestamp=_date(message),
        speaker=_header(message, "From").split("<")[0].strip(' "') or _header(message, "From").strip("<>"),
    )


def _header(message: EmailMessage, name: str) -> str:
    raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
    if len(str(raw)) > _MAX_HEADER:
        return ""
    try:
        value = message.get(name)
    except LIBRARY_ERRORS:  # headers that the library can't parse
        return ""
    return " ".join(str(value).split())[:500] if value is not None else ""


def _date(message: EmailMessage) -> str:
    try:
        when = parsedate_to_datetime(_header(message, "Date"))
        zoned = when.tzinfo is not None
        return (when.astimezone(UTC) if zoned else when).isoformat()[:19] + ("Z" if zoned else "")
    except LIBRARY_ERRORS:
        return ""


def _attachments(message: EmailMessage) -> Iterator[EmailMessage]:
    for number, part in enumerate(message.walk()):
        if (
            number < _MAX_PARTS
            and isinstance(part, EmailMessage)
            and part.get_content_disposition() == "attachment"
        ):
            yield part


def _body(message: EmailMessage) -> str:
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
