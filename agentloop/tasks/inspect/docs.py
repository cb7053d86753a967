"""Docs that name what the code does not have: a function or file in backticks that exists nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agentloop.types import Corpus, FileKind, SourceFile

MAX_DOC_BYTES = 1 << 20
MAX_NAMES = 200  # of one question: each costs a scan of the code
_CALL = re.compile(rb"`([A-Za-z_]\w{3,60})\(\)`")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A line of a doc and the name that the code lacks."""

    file: SourceFile
    name: str
    byte_start: int
    byte_end: int
    line: int


def mismatches(docs: Iterable[SourceFile], corpus: Corpus) -> Iterator[Mismatch]:
    """Names written as calls in `docs`, `` `name()` ``, that no code file of the corpus holds as a word.

    Only names whose neighbours in the same doc do exist count: a doc about another project disagrees with
    nothing.
    """
    named: list[tuple[SourceFile, bytes, int]] = []
    for file in docs:
        if file.kind is FileKind.PROSE and file.derived is None and file.size <= MAX_DOC_BYTES:
            data = file.content.read(0, file.content.size)
            named += [(file, m[1], m.start()) for m in _CALL.finditer(data)]
    wanted = {name for _, name, _ in named[:MAX_NAMES]}
    known = _known(wanted, corpus)
    at_home = {file.index for file, name, _ in named if name in known}
    for file, name, start in named[:MAX_NAMES]:
        if name in known or file.index not in at_home:
            continue
        data = file.content.read(0, file.content.size)
        first = data.rfind(b"\n", 0, start) + 1
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield Mismatch(file, name.decode(), first, end, data.count(b"\n", 0, first) + 1)


def _known(names: set[bytes], corpus: Corpus) -> set[bytes]:
    """The names that some code or data file holds."""
    left = set(names)
    found: set[bytes] = set()
    for file in corpus.files:
        if not left:
            break
        if file.kind in (FileKind.CODE, FileKind.DATA) and file.derived is None:
            data = file.content.read(0, file.content.size)
            here = {name for name in left if name in data}
            found |= here
            left -= here
    return found
