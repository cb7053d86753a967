"""What the fields of a record mean: its text, who said it, when, and what is no text at all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

TEXT_KEYS = (
    "text", "content", "contents", "body", "message", "msg", "utterance", "transcript", "prompt",
    "completion", "question", "answer", "response", "comment", "note", "value",
)  # fmt: skip
ID_KEYS = ("id", "_id", "uuid", "guid", "message_id", "messageid", "msg_id", "client_msg_id")
TIME_KEYS = (
    "timestamp", "create_time", "created_at", "createdat", "created", "date", "datetime", "time", "ts",
    "sent_at", "sent", "published", "published_at", "updated_at", "update_time", "timestamp_ms",
    "date_unixtime",
)  # fmt: skip
SPEAKER_KEYS = (
    "speaker",
    "user_profile",
    "author",
    "role",
    "sender",
    "sender_name",
    "from",
    "user",
    "username",
    "name",
)
NAME_KEYS = (
    "real_name",
    "display_name",
    "nickname",
    "global_name",
    "name",
    "username",
    "role",
    "login",
    "id",
)
TITLE_KEYS = ("title", "name", "subject", "topic", "channel", "session", "thread", "group")
RESERVED = re.compile(r"[$@].*|_(?!id$).*|schema|schema_?version|etag|checksum|signature|hash", re.IGNORECASE)
VECTOR_KEYS = frozenset({"embedding", "embeddings", "vector", "vectors"})
POINTERS = frozenset(
    {"image_asset_pointer", "audio_asset_pointer", "video_container_asset_pointer", "asset_pointer"}
)
MAX_DEPTH = 64
_PLAIN_TYPES = ("message", "text", "Default")  # what exports call a message that is nothing special
LONG_BLOB = 160  # characters of base64 or hex without a break that no prose has

_MAX_SHAPE = 64  # keys of a record whose shape is worth remembering

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}\s*")
_DATA_URI = re.compile(r"data:[\w.+/-]*[;,]")
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?\s?(?:Z|UTC|[+-]\d\d:?\d\d)?)?")
_NUMBER = re.compile(r"\d{9,17}(?:\.\d+)?")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class LeftOut:
    """Fields that gave no text, by name: for the notes that a model gets."""

    binary: Counter[str] = field(default_factory=Counter)
    reserved: Counter[str] = field(default_factory=Counter)
    branches: int = 0  # messages of regenerated answers and edits that are not the chosen branch
    malformed: int = 0
    first_malformed: int = 0  # line of the first of them
    broken_line: int = 0  # of an array, from which on it is no JSON; 0: none
    deep: int = 0

    def broken(self, line: int) -> None:
        """Count a record that is no JSON."""
        self.malformed += 1
        self.first_malformed = self.first_malformed or line


def clean(text: str) -> str:
    """`text` with lone surrogates, which no encoder takes, as U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return _SURROGATE.sub("\ufffd", text)


def iso_time(value: Any) -> str:
    """A time as ISO 8601: strings that are it already, and epoch seconds, milli- or microseconds; or ""."""
    if isinstance(value, str):
        value = value.strip()
        found = _ISO.match(value)
        if found:
            return found[0].replace(" ", "T", 1).removesuffix("TUTC").replace(" ", "")
        if not _NUMBER.fullmatch(value):
            return ""
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    for scale, low in ((1, 1e8), (1000, 1e11), (1_000_000, 1e14)):
        if low <= value < low * 1000:
            days, seconds = divmod(int(value / scale), 86_400)
            minutes = seconds // 60
            return f"{_day(days)}T{minutes // 60:02}:{minutes % 60:02}:{seconds % 60:02}Z"
    return ""


@lru_cache(maxsize=1024)
def _day(days: int) -> str:
    """The date so many days after 1970-01-01."""
    return datetime.fromtimestamp(days * 86_400, UTC).date().isoformat()


def first_of(record: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str, Any]:
    """The first of `keys` that the record has with a value, whatever its case; ("", None) without one."""
    own = tuple(record)
    for key in _present(own, keys) if len(own) <= _MAX_SHAPE else _present.__wrapped__(own, keys):
        value = record[key]
        if value is not None and value not in ("", [], {}):
            return key, value
    return "", None


@lru_cache(maxsize=512)  # records of one file have a few shapes
def _present(own: tuple[str, ...], keys: tuple[str, ...]) -> tuple[str, ...]:
    """Which of a record's keys are among `keys`, in the order of `keys`."""
    lower = {key.lower(): key for key in own}
    return tuple(lower[key] for key in keys if key in lower)


def name_of(value: Any) -> str:
    """A speaker's or a container's name: the string itself, or the best name in an object."""
    while isinstance(value, dict):
        value = first_of(value, NAME_KEYS)[1]
    if isinstance(value, str):
        return clean(value.strip())[:200]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def is_binary(key: str, value: Any) -> bool:
    """Whether a value is data and no text: base64, a data URI, a pointer to an asset, numbers in bulk."""
    if isinstance(value, str):
        if value.startswith("data:") and _DATA_URI.match(value):
            return len(value) >= LONG_BLOB or ";base64" in value
        return len(value) >= LONG_BLOB and " " not in value[:LONG_BLOB] and bool(_BASE64.fullmatch(value))
    if isinstance(value, dict):
        return value.get("content_type") in POINTERS or value.get("type") == "Buffer"
    if isinstance(value, list):
        bulk = len(value) >= 32 and all(isinstance(v, int | float) for v in value[:64])
        return bulk or (
            key.lower() in VECTOR_KEYS and bool(value) and isinstance(value[0], int | float | list)
        )
    return False


def harvest(value: Any, left: LeftOut, key: str = "", depth: int = 0) -> Iterator[str]:
    """The text of a value, in order: strings as they are, short fields as `key: value`."""
    if value is None or value == "":
        return
    if is_binary(key, value):
        left.binary[key or "value"] += 1
    elif isinstance(value, str):
        text = clean(value.strip())
        if text:
            plain = not key or key.lower() in TEXT_KEYS or key.lower() in TITLE_KEYS or " " in text
            yield text if plain else f"{key}: {text}"
    elif isinstance(value, int | float):
        if key:
            yield f"{key}: {str(value).lower() if isinstance(value, bool) else value}"
    elif depth >= MAX_DEPTH:
        left.deep += 1
    elif isinstance(value, dict):
        yield from _harvest_object(value, left, depth)
    elif isinstance(value, list):
        for member in value:
            yield from harvest(member, left, key, depth + 1)


def _harvest_object(record: Mapping[str, Any], left: LeftOut, depth: int) -> Iterator[str]:
    main = [key for key in record if key.lower() in TEXT_KEYS]
    for key in [*main, *(key for key in record if key not in main)]:
        if RESERVED.fullmatch(key):
            left.reserved[key] += 1
        elif key != "type" or record[key] not in _PLAIN_TYPES:
            yield from harvest(record[key], left, key, depth + 1)
