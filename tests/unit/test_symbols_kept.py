"""Parse outputs in the cache: the same symbols without a parser, by content, namespace and version."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentloop.budget import Ledger
from agentloop.cache import FileCache
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.errors import Stage
from agentloop.index.symbols import KeptParses, SymbolParser
from agentloop.index.symbols.process import ParseProcess
from tests.unit.chunking_files import code

TEXT = "class Cart:\n    def total(self):\n        return price(self)\n\n\ndef price(cart):\n    return 1\n"


def parsed(kept: KeptParses, text: str = TEXT) -> tuple[object, object, dict[str, int]]:
    """Symbols, calls and counters of one file by a parser of its own."""
    ledger = Ledger(SystemClock())
    parser = SymbolParser(Caps(), ledger, kept)
    try:
        file = code(text.encode(), "python")
        return parser.symbols(file), parser.calls(file), dict(ledger.counters.get(Stage.CHUNKING, {}))
    finally:
        parser.close()


def test_a_second_request_needs_no_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = FileCache(tmp_path)
    symbols, calls, counters = parsed(KeptParses(cache, "red"))
    assert counters == {"parsed": 1}
    assert [symbol.name for symbol in symbols] == ["Cart", "total", "price"]  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(ParseProcess, "ask", lambda *_: pytest.fail("a parser was asked"))
        assert parsed(KeptParses(cache, "red")) == (symbols, calls, {"parse_reused": 1})
    assert parsed(KeptParses(cache, "red"), TEXT + "\n")[2] == {"parsed": 1}, "another content"


@pytest.mark.req("F1")
def test_parses_are_kept_apart_by_namespace(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    parsed(KeptParses(cache, "red"))
    assert parsed(KeptParses(cache, "blue"))[2] == {"parsed": 1}
