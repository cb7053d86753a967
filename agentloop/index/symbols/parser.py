"""Symbols of files, parsed when they are asked for and kept as long as the request.

All parsing happens in a worker process that ends after `Caps.parse_seconds` of processor time, for some
small inputs keep tree-sitter busy for minutes and a crash in a grammar must not end the request.
"""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentloop.budget import Ledger
from agentloop.chunking.languages import canonical
from agentloop.chunking.outline import import_targets
from agentloop.config import Caps
from agentloop.errors import Stage, WarningCode
from agentloop.index.symbols.ahead import Ahead, Turns
from agentloop.index.symbols.fallback import Lines, outline_symbols, with_outline
from agentloop.index.symbols.kept import KeptParses
from agentloop.index.symbols.process import Answer, ParseFailed, ParseProcess
from agentloop.index.symbols.tags import TAGS
from agentloop.types import FileKind, SourceFile, Span, Symbol

AHEAD_BYTES = 128_000
"""Larger files are not parsed before they are asked for: who asks for another would wait for them."""
_FAILURES = 3
"""After so many failures in a row that aren't time-outs, no further worker is started."""
_TIMEOUTS = 3
"""After so many time-outs in one language, its further files of the request get the outline at once."""


@dataclass(frozen=True)
class _Parsed:
    """What is known of one file: symbols by start, and where each name is called."""

    symbols: tuple[Symbol, ...]
    calls: dict[str, list[int]] | None  # None: not parsed, look by regular expression
    errors: bool = False  # the grammar saw syntax errors


class SymbolParser:
    """Definitions and calls of the files of one request. Safe to use from several threads."""

    def __init__(self, caps: Caps, ledger: Ledger, kept: KeptParses | None = None) -> None:
        """Cheap: no process starts before the first file is parsed.

        Args:
            caps: `parse_seconds` bounds each file.
            ledger: gets `CHUNKING_DEGRADED` warnings, and the counters `parsed`, `parse_reused` and
                `parse_degraded`.
            kept: outputs of earlier requests.
        """
        self._kept = kept
        self._seconds = caps.parse_seconds
        self._ledger = ledger
        self._cache: dict[tuple[str, str], _Parsed] = {}
        self._process: ParseProcess | None = None
        self._failures = 0
        self._timeouts: Counter[str] = Counter()
        self._turns = Turns()
        self._ahead = Ahead(self._parse_ahead)
        # not asked for yet: what the worker gave, and whether an earlier request had kept it
        self._ready: dict[tuple[str, str], tuple[Answer | ParseFailed, bool]] = {}

    def warm(self) -> None:
        """Start the worker now (about 60 ms on another core), so that the first file needn't wait for it."""
        with self._turns.urgent(), contextlib.suppress(ParseFailed):  # the first file that is parsed tells
            self._worker()

    def ahead(self, files: Iterable[SourceFile]) -> None:
        """Parse files that will likely be asked for, meanwhile; nothing is told of those that are not."""
        self._ahead.add([f for f in files if _parseable(f) and f.size <= AHEAD_BYTES])

    def symbols(self, file: SourceFile) -> tuple[Symbol, ...]:
        """The definitions of a file in order of their start; empty for what isn't source code."""
        return self._parsed(file).symbols

    def enclosing(self, file: SourceFile, byte_start: int, byte_end: int) -> Symbol | None:
        """The smallest definition that holds the whole span, if any."""
        return _enclosing(self.symbols(file), byte_start, byte_end)

    def callsites(self, file: SourceFile, names: Collection[str]) -> list[tuple[str, Span, Symbol | None]]:
        """Where a file calls one of `names`, in order: name, span of the line, enclosing definition."""
        parsed = self._parsed(file)
        data = file.content.read(0, file.content.size)
        places = sorted(
            _regex_calls(data, names) if parsed.calls is None else _known_calls(parsed.calls, names)
        )
        lines = Lines(data)
        found = []
        for offset, name in places:
            start, end, line = lines.around(offset)
            found.append((name, Span(start, end, line, line), _enclosing(parsed.symbols, offset, offset + 1)))
        return found

    def calls(self, file: SourceFile) -> Mapping[str, Sequence[int]]:
        """For each called name the byte offsets of its calls; empty for a file that could not be parsed."""
        return self._parsed(file).calls or {}

    def has_errors(self, file: SourceFile) -> bool:
        """Whether the grammar of its language sees syntax errors; false for what can't be parsed here."""
        return self._parsed(file).errors

    def bounded(self, what: str) -> None:
        """Warn that an analysis over many files left some out: `CHUNKING_DEGRADED` with `what` was cut."""
        self._ledger.warn(WarningCode.CHUNKING_DEGRADED, what, Stage.CHUNKING)

    def close(self) -> None:
        """End the worker. Symbols found so far stay readable, and files not parsed yet get an outline."""
        self._ahead.stop()
        if self._process is not None:
            self._process.kill()  # nobody waits for what it is at
        with self._turns.urgent():
            self._failures = _FAILURES
            if self._process is not None:
                self._process.close()
                self._process = None
        self._ahead.join()

    def _parsed(self, file: SourceFile) -> _Parsed:
        if file.kind is not FileKind.CODE or file.derived is not None:
            return _Parsed((), {})
        key = (file.content_hash, file.language)
        found = self._cache.get(key)
        if found is None:
            with self._turns.urgent():
                found = self._cache.get(key)
                if found is None:
                    found = self._cache[key] = self._parse(file)
        return found

    def _parse_ahead(self, file: SourceFile) -> bool:
        """Have a file's answer ready. False where the worker failed: the one who asks meets that again."""
        language = canonical(file.language)
        key = (file.content_hash, language)
        with self._turns.ahead():
            if key in self._ready or (file.content_hash, file.language) in self._cache:
                return True
            kept = self._kept
            found = None if kept is None else kept.get(*key)
            if found is None:
                try:
                    answer = self._worker().ask(
                        file.content.read(0, file.content.size), language, self._seconds
                    )
                except ParseFailed as failure:
                    self._process = None
                    if not failure.unavailable:
                        self._ready[key] = failure, False
                    return not failure.unavailable
                if kept is not None:
                    kept.put(*key, answer)
            self._ready[key] = (answer, False) if found is None else (found, True)
        return True

    def _parse(self, file: SourceFile) -> _Parsed:
        data = file.content.read(0, file.content.size)
        language = canonical(file.language)
        if language not in TAGS:
            return _Parsed(outline_symbols(data, language), None)
        try:
            answer = self._answer(file, data, language)
        except ParseFailed as failure:
            self._ledger.add(Stage.CHUNKING, parse_degraded=1)
            self._ledger.warn(WarningCode.CHUNKING_DEGRADED, _degraded(file, failure), Stage.CHUNKING)
            return _Parsed(outline_symbols(data, language), None)
        lines = Lines(data)
        symbols = []
        for name, kind, parent, start, end, signature, doc in answer.rows:
            first, last = lines.number(start), lines.number(max(start, end - 1))
            symbols.append(Symbol(name, kind, parent, start, end, first, last, signature, doc))
        if answer.errors:
            symbols = with_outline(symbols, outline_symbols(data, language))
        return _Parsed(tuple(symbols), answer.calls, answer.errors)

    def _answer(self, file: SourceFile, data: bytes, language: str) -> Answer:
        """What the parser says of a file, now or in an earlier request."""
        kept, key = self._kept, (file.content_hash, language)
        ready, reused = self._ready.pop(key, (None, False))
        if ready is None and kept is not None:
            ready = kept.get(*key)
            reused = ready is not None
        if reused and isinstance(ready, Answer):
            self._ledger.add(Stage.CHUNKING, parse_reused=1)
            return ready
        fresh = ready is None
        answer = self._ask(data, language, ready)
        self._ledger.add(Stage.CHUNKING, parsed=1)
        if kept is not None and fresh:
            kept.put(*key, answer)
        return answer

    def _ask(self, data: bytes, language: str, ready: Answer | ParseFailed | None = None) -> Answer:
        """The worker's answer, now or `ready`. A worker that died takes no other file with it."""
        if self._timeouts[language] >= _TIMEOUTS:
            raise ParseFailed(f"{_TIMEOUTS} {language} files before it took too long to parse")
        try:
            if self._failures < _FAILURES and ready is not None:
                if isinstance(ready, ParseFailed):
                    raise ready
                answer = ready
            else:
                answer = self._worker().ask(data, language, self._seconds)
        except ParseFailed as failure:
            if failure is not ready:
                self._process = None
            self._failures += failure.unavailable
            self._timeouts[language] += not failure.unavailable
            raise
        self._failures = 0
        return answer

    def _worker(self) -> ParseProcess:
        if self._failures >= _FAILURES:
            raise ParseFailed("no parser is available", unavailable=True)
        if self._process is None:
            self._process = ParseProcess()
        return self._process


def _parseable(file: SourceFile) -> bool:
    return file.kind is FileKind.CODE and file.derived is None and canonical(file.language) in TAGS


def import_edges(file: SourceFile) -> list[str]:
    """The raw import targets of a file of code, in order, each once; relative ones as written."""
    if file.kind is not FileKind.CODE or file.derived is not None:
        return []
    return import_targets(file.content.read(0, file.content.size), file.language)


def _degraded(file: SourceFile, failure: ParseFailed) -> str:
    """The warning for a file whose symbols come from the outline."""
    if failure.unavailable:
        return f"Definitions come from a simple outline: {failure}."
    path = file.path if file.path.isprintable() else ascii(file.path)
    return f"{file.input_id}:{path}: {failure}; its definitions come from a simple outline."


def _enclosing(symbols: tuple[Symbol, ...], byte_start: int, byte_end: int) -> Symbol | None:
    """The smallest symbol around a span. Symbols are sorted by start, and outer ones come first."""
    at = bisect_right(symbols, byte_start, key=_start)
    holding = (symbol for symbol in symbols[:at] if symbol.byte_end >= byte_end)
    return min(
        holding, key=lambda symbol: (symbol.byte_end - symbol.byte_start, symbol.byte_start), default=None
    )


def _start(symbol: Symbol) -> int:
    return symbol.byte_start


def _known_calls(calls: dict[str, list[int]], names: Collection[str]) -> list[tuple[int, str]]:
    return [(offset, name) for name in set(names) for offset in calls.get(name, ())]


def _regex_calls(data: bytes, names: Collection[str]) -> list[tuple[int, str]]:
    """Calls in a file that wasn't parsed: a name before an opening parenthesis, not at its definition."""
    found = []
    for name in set(names):
        pattern = re.compile(
            rb"(?<![\w$])" + re.escape(name.encode("utf-8", "surrogateescape")) + rb"[ \t]*+\("
        )
        found += [(match.start(), name) for match in pattern.finditer(data)]
    return found
