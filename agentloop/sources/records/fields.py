"""What the fields of a record mean: its text, who said it, when, and what is no text at all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
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
    deep: int = 0


def clean(text: str) -> str:
    """`text` with lone surrogates, which no encoder takes, as U+FFFD."""
    return _SURROGATE.sub("\ufffd", text) if _SURROGATE.search(text) else text


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
    for scale, low in ((1.0, 1e8), (1e3, 1e11), (1e6, 1e14)):
        if low <= value < low * 1000:
            return datetime.fromtimestamp(int(value / scale), UTC).isoformat()[:19] + "Z"
    return ""


def first_of(record: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str, Any]:
    """The first of `keys` that the record has with a value, whatever its case; ("", None) without one."""
    lower = {key.lower(): key for key in record}
    for key in keys:
        if key in lower and record[lower[key]] not in (None, "", [], {}):
            return lower[key], record[lower[key]]
    return "", None


def name_of(value: Any) -> str:
    """A speaker's or a container's name: the string itself, or the best name in an object."""
    if isinstance(value, str):
        return clean(value.strip())[:200]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, dict):
        return name_of(first_of(value, NAME_KEYS)[1])
    return ""


def is_binary(key: str, value: Any) -> bool:
    """Whether a value is data and no text: base64, a data URI, a pointer to an asset, numbers in bulk."""
    if isinstance(value, str):
        if len(value) < LONG_BLOB:
            return bool(_DATA_URI.match(value)) and ";base64" in value
        if _DATA_URI.match(value):
            return True
        return " " not in value[:LONG_BLOB] and _BASE64.fullmatch(value) is not None
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
