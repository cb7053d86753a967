"""Jupyter notebooks: the source of each cell and the text of its outputs, with the exact lines of both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agentloop.sources.records.pull import JsonPull, MalformedError, Mark
from agentloop.types import Derived, Item, Memory

EXTRACTOR = "notebook"
VERSION = "1"
_LINES = 40  # of a cell in one item
_HEADING = re.compile(r"(#{1,6})\s+(.+)")
_Line = tuple[str, Mark, Mark]


def extract_notebook(data: bytes, limit: int) -> Derived:  # text is never longer than its JSON
    """Items of at most 40 lines of a cell; a heading in a Markdown cell names what follows.

    Raises:
        ValueError: it is no notebook, or all its cells are empty.
    """
    pull = JsonPull(Memory(data))
    items: list[Item] = []
    headings: list[tuple[int, str]] = []
    try:
        for key in pull.members():
            if key == "cells" and pull.peek() == "[":
                for number in pull.elements():
                    items += _cell(pull, number + 1, headings)
            else:
                pull.value()
    except MalformedError as exc:
        if not items:
            raise ValueError(str(exc)) from None
    if not items:
        raise ValueError("no cell holds text")
    return Derived(EXTRACTOR, VERSION, tuple(items))


def _cell(pull: JsonPull, number: int, headings: list[tuple[int, str]]) -> Iterator[Item]:
    kind = ""
    lines: list[_Line] = []
    outputs: list[_Line] = []
    if pull.peek() != "{":
        pull.value()
        return
    for key in pull.members():
        if key == "cell_type":
            kind = str(pull.value())
        elif key == "source":
            lines = list(_lines(pull))
        elif key == "outputs" and pull.peek() == "[":
            for _ in pull.elements():
                outputs += _output(pull)
        else:
            pull.value()
    if kind == "markdown":
        for text, _, _ in lines:
            found = _HEADING.match(text)
            if found:
                headings[:] = [entry for entry in headings if entry[0] < len(found[1])]
                headings.append((len(found[1]), found[2].strip()))
    heading = " > ".join(title for _, title in headings)
    yield from _items(lines, f"{kind or 'raw'} cell {number}", heading)
    yield from _items(outputs, f"output of cell {number}", heading)


def _output(pull: JsonPull) -> list[_Line]:
    """The text of an output: streams, errors and `text/plain`; images and HTML are left out."""
    found: list[_Line] = []
    if pull.peek() != "{":
        pull.value()
        return found
    for key in pull.members():
        if key in ("text", "traceback"):
            found += _lines(pull)
        elif key == "data" and pull.peek() == "{":
            for mime in pull.members():
                if mime == "text/plain":
                    found += _lines(pull)
                else:
                    pull.value()
        else:
            pull.value()
    return found


def _lines(pull: JsonPull) -> Iterator[_Line]:
    """The lines of a `source`: a list with a string a line, or one string."""
    if pull.peek() != "[":
        start = pull.mark
        value: Any = pull.value()
        if isinstance(value, str) and value.strip():
            yield value.rstrip("\n"), start, pull.mark
        return
    for _ in pull.elements():
        start = pull.mark
        value = pull.value()
        if isinstance(value, str):
            yield value.rstrip("\r\n"), start, pull.mark


def _items(lines: list[_Line], scope: str, heading: str) -> Iterator[Item]:
    for at in range(0, len(lines), _LINES):
        run = lines[at : at + _LINES]
        text = "\n".join(line for line, _, _ in run)
        if text.strip():
            start, end = run[0][1], run[-1][2]
            text = text.encode("utf-8", "replace").decode("utf-8")
            yield Item(text, start.byte, end.byte, start.line, end.line, scope=scope, heading=heading)
