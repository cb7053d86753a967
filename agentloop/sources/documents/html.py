"""HTML: what a reader sees, block by block, with the lines of each block."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from agentloop.sources.documents.markup import pieces
from agentloop.types import Derived, Item

EXTRACTOR = "html"
VERSION = "1"
_BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "br", "caption", "dd", "details", "div",
        "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5",
        "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "summary", "table",
        "tbody", "thead", "title", "tr", "ul",
    }
)  # fmt: skip
_UNSEEN = frozenset({"script", "style", "template", "noscript", "svg", "head"})
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())  # noqa: SIM905
_HEADING = re.compile(r"h([1-6])")
_ITEM_CHARS = 1500
_ITEM_LINES = 60
_DOCUMENT = re.compile(
    rb"\s*+(?:(?><!--.*?-->)\s*+)*+<(?:!doctype\s+html|html[\s>])", re.IGNORECASE | re.DOTALL
)
_TEMPLATE = re.compile(rb"\{%|\{\{|<\?php|<%|\$\{|<script[^>]+text/x-template", re.IGNORECASE)


def is_page(data: bytes) -> bool:
    """Whether HTML is a page for readers and no template: those are searched as the source they are."""
    return _DOCUMENT.match(data[:4096]) is not None and _TEMPLATE.search(data[:65536]) is None


def extract_html(data: bytes, limit: int) -> Derived:  # text is never longer than its page
    """Visible text, packed by heading; an item spans the lines from its first to its last block.

    Raises:
        ValueError: no text is visible.
    """
    text = data.decode("utf-8", "replace")
    reader = _Reader()
    reader.feed(text)
    starts = [0]
    at = data.find(b"\n")
    while at >= 0:
        starts.append(at + 1)
        at = data.find(b"\n", at + 1)
    items = _pack(reader.blocks, starts, len(data))
    if not items:
        raise ValueError("it shows no text")
    return Derived(EXTRACTOR, VERSION, items)


@dataclass(slots=True)
class _Block:
    """Text and the lines, 1-based, between which it stands."""

    text: str
    first: int
    last: int
    level: int = 0


class _Reader:
    """Collects blocks of visible text."""

    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self._words: list[str] = []
        self._first = self._last = 0
        self._level = 0
        self._unseen: list[str] = []
        self._pre = 0
        self._line = 1

    def feed(self, text: str) -> None:
        """Read a whole page."""
        counted = 0
        for kind, content, at in pieces(text):
            self._line += text.count("\n", counted, at)
            counted = at
            if kind == "text":
                self._data(content)
            elif kind == "start":
                self._start(content)
            else:
                self._end(content)
        self.end_block()

    def _start(self, tag: str) -> None:
        """Blocks end what was before them; cells of a row are kept apart."""
        if tag in _BLOCKS:
            self.end_block()
        if tag in _UNSEEN and tag not in _VOID and not (tag == "head" and self._unseen):
            self._unseen.append(tag)
        heading = _HEADING.fullmatch(tag)
        if heading or tag == "title":
            self._level = int(heading[1]) if heading else 1
        if tag == "title" and self._unseen == ["head"]:
            self._unseen = []
        self._pre += tag == "pre"
        if tag in ("td", "th") and self._words:
            self._words.append(" | ")

    def _end(self, tag: str) -> None:
        """As the start of a block."""
        if tag in self._unseen:
            while self._unseen and self._unseen.pop() != tag:
                pass
        if tag in _BLOCKS:
            self.end_block()
        self._pre -= tag == "pre" and self._pre > 0

    def _data(self, data: str) -> None:
        """Text counts where it is seen."""
        if self._unseen or not data.strip():
            if self._words and data:
                self._words.append(" ")
            return
        line = self._line
        lead = len(data) - len(data.lstrip("\n\r \t"))
        if not self._words:
            self._first = line + data.count("\n", 0, lead)
        self._words.append(data)
        self._last = line + data.rstrip().count("\n")

    def end_block(self) -> None:
        """Keep the text collected so far as one block."""
        text = "".join(self._words)
        text = text.strip("\n") if self._pre else " ".join(text.split())
        if text.strip(" |"):
            self.blocks.append(_Block(text, self._first, self._last, self._level))
        self._words.clear()
        self._level = 0


def _pack(blocks: list[_Block], starts: list[int], size: int) -> tuple[Item, ...]:
    items: list[Item] = []
    path: list[tuple[int, str]] = []
    held: list[_Block] = []
    size_held = 0

    def flush() -> None:
        if not held:
            return
        first, last = held[0].first, max(held[-1].last, held[0].first)
        last = min(last, first + _ITEM_LINES - 1)
        end = starts[last] if last < len(starts) else size
        start = starts[min(first, len(starts)) - 1]
        heading = " > ".join(title for _, title in path)
        items.append(
            Item(
                "\n".join(b.text for b in held),
                start,
                end,
                first,
                bisect_right(starts, end - 1),
                heading=heading,
            )
        )
        held.clear()

    for block in blocks:
        large = size_held + len(block.text) > _ITEM_CHARS
        long = bool(held) and block.last - held[0].first >= _ITEM_LINES
        if block.level or large or long:
            flush()
            size_held = 0
        if block.level:
            path[:] = [entry for entry in path if entry[0] < block.level]
            path.append((block.level, block.text))
        held.append(block)
        size_held += len(block.text)
    flush()
    return tuple(items)
