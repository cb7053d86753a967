"""Request bodies: bounded before anything is parsed, then JSON as RFC 8259 means it and no wider."""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any, NoReturn

from aiohttp import web

from broker.errors import BrokerCode, BrokerError

MAX_DEPTH = 64  # requests nest five levels
MAX_DIGITS = 30
BODY_SECONDS = 30.0  # a body that takes longer is a slow client's
_WINDOW = {"gzip": 31, "x-gzip": 31, "deflate": 47}  # zlib's wbits; 47 takes a zlib header too


def _bad(message: str) -> BrokerError:
    return BrokerError(BrokerCode.BAD_REQUEST, message)


def _too_large(limit: int) -> BrokerError:
    return BrokerError(
        BrokerCode.BODY_TOO_LARGE, f"The body is over {limit} bytes.", details={"limit": limit}
    )


async def read_body(request: web.Request) -> Any:
    """The JSON body of a request.

    Raises:
        BrokerError: BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, BAD_REQUEST.
    """
    limit: int = request.client_max_size
    if request.content_type not in {"application/json", "application/octet-stream"}:
        raise BrokerError(BrokerCode.UNSUPPORTED_MEDIA_TYPE, "Send the body as application/json.")
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            data = await _read(request, limit)
    except TimeoutError:
        raise _bad("The body took too long to arrive.") from None
    return loads(data)


async def _read(request: web.Request, limit: int) -> bytes:
    """The body, inflated, at most `limit` bytes of it held."""
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding != "identity" and encoding not in _WINDOW:
        raise BrokerError(BrokerCode.UNSUPPORTED_MEDIA_TYPE, "Content-Encoding is gzip, deflate or identity.")
    inflate = zlib.decompressobj(_WINDOW[encoding]) if encoding in _WINDOW else None
    parts, total = [], 0
    async for piece in request.content.iter_chunked(65_536):
        try:
            part = piece if inflate is None else inflate.decompress(piece, limit + 1 - total)
        except zlib.error:
            raise _bad("The body is not what its Content-Encoding says.") from None
        total += len(part)
        if total > limit or (inflate is not None and inflate.unconsumed_tail):
            raise _too_large(limit)
        parts.append(part)
    if inflate is not None and not inflate.eof:
        raise _bad("The compressed body is cut off.")
    return b"".join(parts)


def _no_constant(name: str) -> NoReturn:
    raise _bad(f"{name} is not JSON.")


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _bad(f"A number has more than {MAX_DIGITS} digits.")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")) or len(text) > MAX_DIGITS * 4:
        raise _bad("A number is out of range.")
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _bad("An object names a member twice.")
    return found


def _depth(text: str) -> int:
    """The deepest nesting of brackets outside strings."""
    depth = deepest = 0
    in_string = escaped = False
    for char in text:
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > MAX_DEPTH:
                return deepest
        elif char in "]}":
            depth -= 1
    return deepest


_decoder = json.JSONDecoder(
    parse_constant=_no_constant, parse_int=_integer, parse_float=_float, object_pairs_hook=_members
)


def loads(data: bytes) -> Any:
    """Parse JSON, refusing what parsers disagree on: duplicate members, NaN, lone surrogates, wild numbers.

    Raises:
        BrokerError: BAD_REQUEST.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise _bad("The body is not UTF-8.") from None
    # A cheap bound first: only a body with that many brackets can nest too deeply.
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise _bad(f"The body nests deeper than {MAX_DEPTH} levels.")
    try:
        value = _decoder.decode(text)
    except json.JSONDecodeError as exc:
        raise _bad(f"The body is not JSON: {exc.msg} at character {exc.pos}.") from None
    if "\\u" in text:
        _refuse_surrogates(value)
    return value


def _refuse_surrogates(value: Any) -> None:
    """A lone surrogate is no character; it would break every later encoding."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise _bad("A string holds a lone surrogate.") from None
