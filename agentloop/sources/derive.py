"""Which extractor makes text of a file, and what the file is then."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentloop.request import InputType
from agentloop.sources import records, utf16
from agentloop.sources.classify import Class, NameGuess, classify, guess
from agentloop.sources.documents.compressed import format_of
from agentloop.sources.documents.html import is_page
from agentloop.sources.documents.spans import TooMuchError
from agentloop.sources.extractors import extract, version_of
from agentloop.sources.languages import MIME, PICTURE_DIRS
from agentloop.sources.opening import Refused
from agentloop.types import Content, Derived, FileKind, SkipReason, Trait

_NO_RECORDS = frozenset({Trait.TEST, Trait.VENDORED, Trait.GENERATED, Trait.LOCK, Trait.EXAMPLE})
_MAIL = frozenset({"eml", "mbox"})
_SAMPLE_ITEMS = 200
_TABLE_BYTES = 2_000_000  # a larger table is searched as the text it is
RECORD_BYTES_PER_CHAR = 32  # of export around a character of text; more is no export of text


@dataclass(frozen=True, slots=True)
class Given:
    """What is known of a file before its text is made: its name's guess, its bytes, the caller's hint."""

    folder: str
    name: str
    guessed: NameGuess
    found: Class
    content: Content
    hint: InputType
    named: bool


def may_be_records(guessed: NameGuess, hint: InputType, head: bytes) -> bool:
    """Whether it is worth looking for records: JSON by name, or by its first byte where the name is silent.

    Fixtures and vendored data stay data unless the caller says `records`.
    """
    if hint is not InputType.RECORDS and guessed.traits & _NO_RECORDS:
        return False
    if guessed.language in ("json", "jsonl"):
        return True
    return not guessed.sure and head.lstrip()[:1] in (b"[", b"{")


def may_be_streamed(guessed: NameGuess, hint: InputType, head: bytes) -> bool:
    """Whether a file too large to hold may be read record by record: JSON and mail."""
    return guessed.language in _MAIL or may_be_records(guessed, hint, head)


def has_binary_extractor(guessed: NameGuess, head: bytes) -> bool:
    """Whether a file that looks binary may hold text all the same."""
    return bool(
        utf16.wide_encoding(head)
        or format_of(head)
        or head.startswith(b"%PDF-")
        or (head.startswith(b"PK\x03\x04") and guessed.language == "docx")
    )


def derive(given: Given, record_chars: int, limit: int) -> tuple[Class, Derived | None]:
    """The class of the file and its derived text, if it needs an extractor.

    Args:
        given: the file.
        record_chars: how many characters of records are still allowed.
        limit: how many bytes or characters an extraction may give.

    Raises:
        Refused: it is binary and no extractor reads it, it is damaged, a bomb, or its records hold binary
            data only.
    """
    head = given.content.read(0, 1 << 16)
    if given.found.binary or head.startswith(b"%PDF-"):
        return _binary(given, head, limit)
    if may_be_records(given.guessed, given.hint, head[:64]):
        return _records(given, record_chars)
    extractor = _text_extractor(given, head)
    if not extractor:
        return given.found, None
    if extractor == "mail":
        return _mail(given, record_chars)
    try:
        derived = extract(extractor, version_of(extractor), _all(given), limit)
    except TooMuchError as exc:
        raise Refused(SkipReason.BOMB, str(exc)) from None
    except ValueError:
        return _as_source(given.found), None
    return replace(given.found, kind=FileKind.DOCUMENT), derived


def _mail(given: Given, record_chars: int) -> tuple[Class, Derived | None]:
    from agentloop.sources.documents.mail import extract_mailbox

    try:
        derived = extract_mailbox(given.content, record_chars)
    except ValueError:
        return _as_source(given.found), None
    return replace(given.found, kind=FileKind.RECORDS), derived


def _text_extractor(given: Given, head: bytes) -> str:
    """The extractor for a file that is text: its markup or encoding hides what it says."""
    language = given.found.language
    if language == "html" and (is_page(head) or given.hint is InputType.DOCUMENT):
        return "html"
    if language in ("csv", "tsv") and given.content.size <= _TABLE_BYTES:
        return "table"
    return "mail" if language in _MAIL else "notebook" if language == "notebook" else ""


def _as_source(found: Class) -> Class:
    """A document that its extractor can't read is searched as the text it is."""
    return replace(found, kind=FileKind.TEXT) if found.kind is FileKind.DOCUMENT else found


def _all(given: Given) -> bytes:
    return given.content.read(0, given.content.size)


def _binary(given: Given, head: bytes, limit: int) -> tuple[Class, Derived]:
    if utf16.wide_encoding(head):
        derived = utf16.extract_wide(_all(given), limit)
        return _class_of_text(given.guessed, derived), derived
    if not given.named and given.hint is not InputType.DOCUMENT:
        _refuse_asset(given)
    if head.startswith(b"%PDF-"):
        extractor = "pdf"
    elif head.startswith(b"PK\x03\x04") and given.guessed.language == "docx":
        extractor = "docx"
    elif format_of(head):
        extractor = "compressed"
    else:
        raise Refused(SkipReason.BINARY)
    try:
        derived = extract(extractor, version_of(extractor), _all(given), limit)
    except TooMuchError as exc:
        raise Refused(SkipReason.BOMB, str(exc)) from None
    except ValueError as exc:
        reason = SkipReason.BINARY if extractor == "compressed" else SkipReason.MALFORMED
        raise Refused(reason, str(exc)) from None
    if extractor == "compressed":
        inner = guess("", given.name.rsplit(".", 1)[0])
        found = _class_of_text(inner, derived)
        log = given.hint is InputType.LOG
        return (replace(found, kind=FileKind.LOG, language="log") if log else found), derived
    found = Class(FileKind.DOCUMENT, extractor, MIME[extractor], given.found.traits)
    return found, derived


def _refuse_asset(given: Given) -> None:
    """Fixtures of tests and PDFs in folders of pictures are no documents of the folder that holds them.

    Raises:
        Refused: it is one.
    """
    if given.guessed.traits & {Trait.TEST, Trait.VENDORED}:
        raise Refused(SkipReason.BINARY, "a fixture, by its folder")
    if given.guessed.language == "pdf" and not PICTURE_DIRS.isdisjoint(given.folder.lower().split("/")):
        raise Refused(SkipReason.BINARY, "a picture, by its folder")


def _class_of_text(guessed: NameGuess, derived: Derived) -> Class:
    """What a file with this derived text is, by its name and the text's beginning."""
    text = "\n".join(item.text for item in derived.items[:_SAMPLE_ITEMS])
    found = replace(classify(guessed, text.encode("utf-8", "replace")), binary=False)
    return _as_source(found)


def _records(given: Given, record_chars: int) -> tuple[Class, Derived | None]:
    told = given.hint is InputType.RECORDS
    if not told and not records.looks_like_records(given.content):
        return given.found, None
    try:
        derived = records.extract_records(given.content, record_chars)
    except records.BinaryOnlyError as exc:
        raise Refused(SkipReason.BINARY, str(exc)) from None
    except ValueError:
        return given.found, None
    language = given.guessed.language or "json"
    if language not in ("json", "jsonl"):
        language = "json"
    return Class(FileKind.RECORDS, language, MIME[language], given.found.traits), derived
