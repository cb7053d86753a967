"""Files parsed before they are asked for: the same answers, told only when asked for, nothing left behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from agentloop.budget import Ledger
from agentloop.cache import FileCache
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.errors import Stage
from agentloop.index.symbols import KeptParses, SymbolParser
from agentloop.index.symbols.process import ParseProcess
from agentloop.types import SourceFile
from tests.unit.chunking_files import code
from tests.unit.test_symbols_faults import BLOW_UPS, children

FILES = [code(f"def f{n}():\n    return g{n}()\n".encode(), "python", f"f{n}.py") for n in range(5)]


def counters(ledger: Ledger) -> dict[str, int]:
    """What parsing told."""
    return dict(ledger.counters.get(Stage.CHUNKING, {}))


def worked_ahead(parser: SymbolParser, files: list[SourceFile]) -> None:
    """Have files parsed, and wait until they are."""
    parser.ahead(files)
    parser._ahead.join()


def test_answers_are_the_same_and_told_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, ledger = SymbolParser(Caps(), Ledger(SystemClock())), Ledger(SystemClock())
    parser = SymbolParser(Caps(), ledger)
    expected = [(plain.symbols(file), plain.calls(file)) for file in FILES[:2]]
    plain.close()
    worked_ahead(parser, FILES)
    assert counters(ledger) == {}
    with monkeypatch.context() as patch:
        patch.setattr(ParseProcess, "ask", lambda *_: pytest.fail("a parser was asked"))
        assert [(parser.symbols(file), parser.calls(file)) for file in FILES[:2]] == expected
    assert counters(ledger) == {"parsed": 2}
    parser.close()


def test_what_was_kept_earlier_is_told_as_reused(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    first = SymbolParser(Caps(), Ledger(SystemClock()), KeptParses(cache, "red"))
    worked_ahead(first, FILES[:1])
    first.close()
    ledger = Ledger(SystemClock())
    second = SymbolParser(Caps(), ledger, KeptParses(cache, "red"))
    worked_ahead(second, FILES[:1])
    assert [symbol.name for symbol in second.symbols(FILES[0])] == ["f0"]
    assert counters(ledger) == {"parse_reused": 1}
    second.close()


def test_a_blow_up_is_told_only_where_it_is_asked_for() -> None:
    language, data = BLOW_UPS[0]
    bomb = code(data[:120_000] + b"\nfun after() {}\n", language, "bomb.kt")
    ledger = Ledger(SystemClock())
    parser = SymbolParser(Caps(parse_seconds=0.2), ledger)
    worked_ahead(parser, [bomb, *FILES[:1]])
    assert ledger.warnings == []
    assert [symbol.name for symbol in parser.symbols(FILES[0])] == ["f0"]
    assert "after" in {symbol.name for symbol in parser.symbols(bomb)}
    assert ["0.2 s" in message for _, message, _ in ledger.warnings] == [True]
    parser.close()


def test_closing_ends_what_is_parsed_ahead() -> None:
    before = children()
    language, data = BLOW_UPS[0]
    bombs = [code(data[:120_000] + b"\n" * n, language, f"bomb{n}.kt") for n in range(3)]
    parser = SymbolParser(Caps(parse_seconds=60), Ledger(SystemClock()))
    parser.ahead([*FILES, *bombs])
    parser.symbols(FILES[-1])
    parser.close()
    assert children() == before
    assert not any(thread.name == "parse-ahead" for thread in threading.enumerate())
