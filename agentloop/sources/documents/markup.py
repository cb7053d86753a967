"""Tags and text of HTML in linear time, whatever the input.

`html.parser` of the standard library takes quadratic time on broken markup: 24 kB of `<a ` cost it seven
seconds. Here each character is looked at a fixed number of times; broken tags are dropped, not repaired.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

Piece = tuple[str, str, int]
"""Kind (`text`, `start`, `end`), the text or the tag's name in lower case, and where it begins."""

_EVENT = re.compile(r"[<>\"']")
_NAME = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9:-]*)")
_RAW = {
    name: re.compile(rf"</{name}(?![A-Za-z0-9])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "xmp", "iframe", "noembed", "noframes")
}


def pieces(text: str) -> Iterator[Piece]:
    """The pieces of a page in order. Comments, declarations and the content of scripts are left out."""
    done = 0  # up to here everything is told
    at = 0
    while True:
        start = text.find("<", at)
        if start < 0:
            break
        if text.startswith(("<!", "<?"), start):
            comment = text.startswith("<!--", start)
            close = text.find("-->" if comment else ">", start + 2)
            end = len(text) if close < 0 else close + (3 if comment else 1)
            yield from _text(text, done, start)
            at = done = end
            continue
        name = _NAME.match(text, start)
        if name is None:
            at = start + 1
            continue
        yield from _text(text, done, start)
        end = _tag_end(text, name.end())
        tag = name[2].lower()
        yield ("end" if name[1] else "start", tag, start)
        if not name[1] and tag in _RAW:
            close_tag = _RAW[tag].search(text, end)
            end = close_tag.start() if close_tag else len(text)
        at = done = end
    yield from _text(text, done, len(text))


def _text(text: str, start: int, end: int) -> Iterator[Piece]:
    if start < end:
        yield ("text", unescape(text[start:end]), start)


def _tag_end(text: str, at: int) -> int:
    """Where a tag ends whose name ends at `at`: behind its `>`, or before the next `<` outside of quotes.

    A quote that never closes ends with the text, and so does the tag: nothing is read twice.
    """
    while True:
        event = _EVENT.search(text, at)
        if event is None:
            return len(text)
        char = event[0]
        if char == ">":
            return event.end()
        if char == "<":
            return event.start()
        value = text[max(0, event.start() - 2) : event.start()].rstrip()
        close = text.find(char, event.end()) if value.endswith("=") else event.start()
        if close < 0:
            return len(text)
        at = close + 1
