"""A pull parser for large JSON: values one after another, each with its exact bytes and lines.

The standard decoder works in C on a window of text; when a value reaches over the window's end, the
window grows. So a file of any size is read with little more memory than its largest value takes.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from json.scanner import make_scanner
from typing import Any, NamedTuple

from agentloop.types import Content

_WINDOW = 1 << 20
_LARGEST_VALUE = 64 << 20  # one message or conversation; a larger one is malformed for us
_LONGEST_TOKEN = 16  # -Infinity, \\ud83d\\ude00
_SPACE = re.compile(r"[ \t\n\r]*")
# a key without escapes, and its colon, up to a value that has begun: nearly all keys of exports
_FIRST_KEY = re.compile(r'[ \t\n\r]*"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*(?=[^ \t\n\r])')
_NEXT_KEY = re.compile(r'[ \t\n\r]*,[ \t\n\r]*"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*(?=[^ \t\n\r])')
_DECODER = json.JSONDecoder(strict=False)
_scan: Callable[[str, int], tuple[Any, int]] = make_scanner(_DECODER)  # type: ignore[arg-type]  # typeshed
# integers over Python's limit of 4,300 digits stay text instead of failing their record
_LENIENT = json.JSONDecoder(strict=False, parse_int=str)


class Mark(NamedTuple):
    """A position: byte offset and 1-based line."""

    byte: int
    line: int


class MalformedError(ValueError):
    """The text is no JSON from the place `at` on, or nested too deeply."""

    def __init__(self, at: Mark) -> None:
        super().__init__(f"no JSON at byte {at.byte}")
        self.at = at


class JsonPull:
    """Reads JSON from a place in a file onwards. `value` takes a whole value, `members` steps into one."""

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
        counted, at = self._counted, self._at
        if counted != at:
            text = self._text
            if self._ascii:
                self._byte += at - counted
            else:
                self._byte += len(text[counted:at].encode("utf-8", "surrogateescape"))
            self._line += text.count("\n", counted, at)
            self._counted = at
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
            raise MalformedError(self.mark)
        self._at += 1

    def value(self) -> Any:
        """Take the next value.

        Raises:
            MalformedError: there is none, it is too deep or too large.
        """
        found, self._at = self.glance()
        return found

    def glance(self) -> tuple[Any, int]:
        """The next value and its end, for `skip`; without that it can be stepped into.

        Raises:
            MalformedError: there is none, it is too deep or too large.
        """
        try:
            found, end = _scan(self._text, self._at)
        except (StopIteration, ValueError, RecursionError):
            return self._glance_far()
        return (found, end) if end < len(self._text) else self._glance_far()

    def skip(self, end: int) -> None:
        """Take a value that `glance` has seen, and nothing was taken since."""
        self._at = end

    def _glance_far(self) -> tuple[Any, int]:
        """As `glance`, for what the window does not hold yet, white space and odd numbers."""
        if not self.peek():
            raise MalformedError(self.mark)
        size = _WINDOW
        while True:
            try:
                found, end = self._decode()
            except json.JSONDecodeError as exc:
                if self._is_final(exc):
                    raise MalformedError(self.mark) from None
                found, end = None, -1
            except RecursionError:
                raise MalformedError(self.mark) from None
            # a number that ends with the window may go on behind it
            if 0 <= end < len(self._text) or (end >= 0 and not self._grow(size)):
                return found, end
            if end < 0 and (size > _LARGEST_VALUE or not self._grow(size)):
                raise MalformedError(self.mark)
            size *= 2

    def _is_final(self, error: json.JSONDecodeError) -> bool:
        """Whether more text can't mend it: it lies before the window's end, and is no string left open."""
        return not error.msg.startswith("Unterminated") and error.pos < len(self._text) - _LONGEST_TOKEN

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
        pattern, first = _FIRST_KEY, True
        while True:
            found = pattern.match(self._text, self._at)
            if found:
                self._at = found.end()
                yield found[1]
            elif self.peek() == "}":
                break
            else:
                yield self._key(first)
            pattern, first = _NEXT_KEY, False
        self.take("}")

    def _key(self, first: bool) -> str:
        """A key with escapes, or at the end of the window."""
        if not first:
            self.take(",")
        if self.peek() != '"':
            raise MalformedError(self.mark)
        key: str = self.value()
        self.take(":")
        self.peek()
        return key

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
