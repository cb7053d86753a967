"""Which extractor makes text of a file, and what the file is then."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentloop.request import InputType
from agentloop.sources import records, utf16
from agentloop.sources.classify import Class, NameGuess, classify
from agentloop.sources.languages import MIME
from agentloop.sources.opening import Refused
from agentloop.types import Content, Derived, FileKind, SkipReason, Trait

_NO_RECORDS = frozenset({Trait.TEST, Trait.VENDORED, Trait.GENERATED, Trait.LOCK, Trait.EXAMPLE})
_SAMPLE_ITEMS = 200
RECORD_BYTES_PER_CHAR = 32  # of export around a character of text; more is no export of text


@dataclass(frozen=True, slots=True)
class Given:
    """What is known of a file before its text is made: its name's guess, its bytes, the caller's hint."""

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


def derive(given: Given, record_chars: int) -> tuple[Class, Derived | None]:
    """The class of the file and its derived text, if it needs an extractor.

    Raises:
        Refused: it is binary and no extractor reads it, or its records hold binary data only.
    """
    head = given.content.read(0, 1 << 16)
    if given.found.binary:
        return _wide(given, head)
    if may_be_records(given.guessed, given.hint, head[:64]):
        return _records(given, record_chars)
    return given.found, None


def _wide(given: Given, head: bytes) -> tuple[Class, Derived]:
    if not utf16.wide_encoding(head):
        raise Refused(SkipReason.BINARY)
    derived = utf16.extract_wide(given.content.read(0, given.content.size))
    text = "\n".join(item.text for item in derived.items[:_SAMPLE_ITEMS])
    return replace(classify(given.guessed, text.encode("utf-8", "replace")), binary=False), derived


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
    return Class(FileKind.RECORDS, language, MIME[language], given.found.traits), derived
