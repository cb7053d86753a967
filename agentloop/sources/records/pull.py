"""A pull parser for large JSON: values one after another, each with its exact bytes and lines.

The standard decoder works in C on a window of text; when a value reaches over the window's end, the
window grows. So a file of any size is read with little more memory than its largest value takes.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from agentloop.types import Content

_WINDOW = 1 << 20
_LARGEST_VALUE = 64 << 20  # one message or conversation; a larger one is malformed for us
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder(strict=False)
# integers over Python's limit of 4,300 digits stay text instead of failing their record
_LENIENT = json.JSONDecoder(strict=False, parse_int=str)


class MalformedError(ValueError):
    """The text is no JSON from the byte `at` on, or nested too deeply."""

    def __init__(self, at: int) -> None:
        super().__init__(f"no JSON at byte {at}")
        self.at = at


@dataclass(frozen=True, slots=True)
class Mark:
    """A position: byte offset and 1-based line."""

    byte: int
    line: int


class JsonPull:
    """Reads JSON from a place in a file onwards. `value` takes a whole value, `enter` steps into one."""

    def __init__(self, content: Content, start: int = 0, line: int = 1, end: int | None = None) -> None:
        self._content = content
        self._end = content.size if end is None else end
        self._loaded = start  # bytes up to here are in the window
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text = ""
        self._ascii = True
        self._at = 0  # position in the window, in characters
        self._counted = 0  # position in the window that `_byte` and `_line` stand for
        self._byte = start
        self._line = line
        if start == 0 and content.read(0, 3) == codecs.BOM_UTF8:
            self._loaded = self._byte = 3

    @property
    def mark(self) -> Mark:
        """Where the next unread character is."""
        if self._counted != self._at:
            passed = self._text[self._counted : self._at]
            self._byte += len(passed) if self._ascii else len(passed.encode("utf-8", "surrogateescape"))
            self._line += passed.count("\n")
            self._counted = self._at
        return Mark(self._byte, self._line)

    def peek(self) -> str:
        """The next character that is no white space, "" at the end."""
        while True:
            text = self._text
            self._at = at = _SPACE.match(text, self._at).end()  # type: ignore[union-attr]
            if at < len(text):
                return text[at]
            if not self._grow(_WINDOW):
                return ""

    def take(self, char: str) -> None:
        """Step over `char`, which must be next.

        Raises:
            MalformedError: something else is.
        """
        if self.peek() != char:
            raise MalformedError(self.mark.byte)
        self._at += 1

    def value(self) -> Any:
        """Take the next value.

        Raises:
            MalformedError: there is none, it is too deep or too large.
        """
        found, self._at = self._next()
        return found

    def glance(self) -> tuple[Any, Callable[[], None]]:
        """The next value, and a function that takes it; without that it can be stepped into."""
        found, end = self._next()

        def take() -> None:
            self._at = end

        return found, take

    def _next(self) -> tuple[Any, int]:
        """Decode the next value; the end is its position in the window.

        Raises:
            MalformedError: there is none, it is too deep or too large.
        """
        if not self.peek():
            raise MalformedError(self.mark.byte)
        size = _WINDOW
        while True:
            try:
                found, end = self._decode()
            except json.JSONDecodeError:
                found, end = None, -1
            except RecursionError:
                raise MalformedError(self.mark.byte) from None
            # a number that ends with the window may go on behind it
            if 0 <= end < len(self._text) or (end >= 0 and not self._grow(size)):
                return found, end
            if end < 0 and (size > _LARGEST_VALUE or not self._grow(size)):
                raise MalformedError(self.mark.byte)
            size *= 2

    def _decode(self) -> tuple[Any, int]:
        try:
            return _DECODER.raw_decode(self._text, self._at)
        except json.JSONDecodeError:
            raise
        except ValueError:
            return _LENIENT.raw_decode(self._text, self._at)

    def elements(self) -> Iterator[int]:
        """Step into an array: yields each element's number; the caller takes it before the next."""
        self.take("[")
        number = 0
        while self.peek() != "]":
            if number:
                self.take(",")
                self.peek()
            yield number
            number += 1
        self.take("]")

    def members(self) -> Iterator[str]:
        """Step into an object: yields each key; the caller takes its value before the next."""
        self.take("{")
        first = True
        while self.peek() != "}":
            if not first:
                self.take(",")
            first = False
            if self.peek() != '"':
                raise MalformedError(self.mark.byte)
            key = self.value()
            self.take(":")
            self.peek()
            yield key
        self.take("}")

    def _grow(self, size: int) -> bool:
        """Read up to `size` more bytes, forget what was passed; False at the end of the file."""
        data = self._content.read(self._loaded, min(self._loaded + size, self._end))
        if not data:
            return False
        _ = self.mark  # counts up to here, before what was passed is forgotten
        self._loaded += len(data)
        final = self._loaded >= self._end
        self._text = self._text[self._at :] + self._decoder.decode(data, final)
        self._at = self._counted = 0
        self._ascii = self._text.isascii()
        return True
