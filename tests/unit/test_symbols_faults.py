"""Inputs and accidents that a parser must survive: blow-ups, deep nesting, a killed worker, no grammar."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentloop.budget import Ledger
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.errors import Stage, WarningCode
from agentloop.index.symbols import SymbolParser
from agentloop.index.symbols.process import ParseFailed, ParseProcess
from agentloop.types import FileKind
from tests.unit.chunking_files import code, source_file

BLOW_UPS = [
    ("kotlin", b"val x = a" + b"?.b<C>(d)!!" * 12_000),
    ("swift", b"let x = a" + b"?.b<C>(d)!!" * 12_000),
    ("typescript", b"let x = a" + b"?.b<C>(d)!" * 12_000),
]


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(SystemClock())


@pytest.fixture
def parser(ledger: Ledger) -> Iterator[SymbolParser]:
    found = SymbolParser(Caps(parse_seconds=20), ledger)
    yield found
    found.close()


def children() -> set[int]:
    """The processes that this one has started and not reaped."""
    task = Path(f"/proc/{os.getpid()}/task")
    return {int(pid) for thread in task.iterdir() for pid in (thread / "children").read_text().split()}


@pytest.mark.parametrize(("language", "data"), BLOW_UPS)
def test_a_blow_up_is_killed_and_named(language: str, data: bytes, ledger: Ledger) -> None:
    parser = SymbolParser(Caps(parse_seconds=0.3), ledger)
    before = children()
    tail = b"\n\nfun after() {}\nfunc after() {}\nfunction after() {}\n"
    found = parser.symbols(code(data + tail, language, "src/bomb.x"))
    assert "after" in {symbol.name for symbol in found}
    assert [(code_, stage) for code_, _, stage in ledger.warnings] == [
        (WarningCode.CHUNKING_DEGRADED, Stage.CHUNKING)
    ]
    assert "src/bomb.x" in ledger.warnings[0][1]
    assert "0.3 s" in ledger.warnings[0][1]
    assert children() == before
    assert [s.name for s in parser.symbols(code("def fine(): pass\n", "python"))] == ["fine"]
    assert len(ledger.warnings) == 1
    parser.close()
    assert children() == before


def test_many_blow_ups_cost_a_bounded_time(ledger: Ledger) -> None:
    """After three time-outs in one language its other files get the outline; other languages go on."""
    parser = SymbolParser(Caps(parse_seconds=0.05), ledger)
    language, data = BLOW_UPS[0]
    for at in range(6):
        parser.symbols(code(data + b"\nfun f() {}\n" * (at + 1), language, f"bomb{at}.kt"))
    parser.close()
    messages = [message for _, message, _ in ledger.warnings]
    assert len(messages) == 6
    assert sum("0.05 s" in message for message in messages) == 3
    assert all(f"bomb{at}.kt" in messages[at] for at in range(6))
    assert ledger.get(Stage.CHUNKING, "parse_degraded") == 6


NESTED = [
    (
        "c",
        b"int shaft(void)\n"
        + b"{" * 16_384
        + b"\n;\n"
        + b"}" * 16_384
        + b"\n\nint after(void)\n{\n return 1;\n}\n",
    ),
    ("javascript", b"function after() {}\nexport const k = " + b"(" * 20_000 + b"1" + b")" * 20_000 + b";\n"),
    ("python", b"x = " + b"[" * 5_000 + b"]" * 5_000 + b"\n\ndef after():\n    return 1\n"),
    ("javascript", b"function after(){" * 20_000),
    ("rust", b"fn after() {}\nfn f() -> " + b"Vec<" * 20_000),
    ("python", b"def after():\n" + b"".join(b" " * at + b"def g():\n" for at in range(1, 1_500))),
    ("ruby", b"class A\n" * 1_000 + b"def after\nend\n" + b"end\n" * 1_000),
]


@pytest.mark.parametrize(("language", "data"), NESTED)
def test_deep_nesting_loses_no_definition(language: str, data: bytes, parser: SymbolParser) -> None:
    found = [symbol for symbol in parser.symbols(code(data, language)) if symbol.name == "after"]
    assert found
    assert all(len(symbol.parent) <= 400 for symbol in found)
    for symbol in found[:50]:
        assert b"after" in data[symbol.byte_start : symbol.byte_end]


def test_half_written_code_keeps_its_definitions(parser: SymbolParser) -> None:
    text = "class A {\n" + "fun f(x: Int = foo<Bar>(\n" * 3_000
    names = [symbol.name for symbol in parser.symbols(code(text, "kotlin"))]
    assert names.count("f") == 3_000


def test_minified_code_on_one_line(parser: SymbolParser) -> None:
    text = "".join(f"function f{at}(a,b){{return g{at}(a)+b}}" for at in range(3_000))
    file = code(text, "javascript")
    symbols = parser.symbols(file)
    assert len(symbols) == 3_000
    assert {symbol.line_end for symbol in symbols} == {1}
    assert text[symbols[7].byte_start : symbols[7].byte_end] == "function f7(a,b){return g7(a)+b}"
    [(name, span, inside)] = parser.callsites(file, {"g7"})
    assert (name, inside) == ("g7", symbols[7])
    assert "g7(a)" in text[span.byte_start : span.byte_end]
    assert span.byte_end - span.byte_start < 400


@pytest.mark.req("B9")
def test_odd_bytes_keep_offsets_and_lines(parser: SymbolParser) -> None:
    data = "\ufeffx = 'ż\u2028y'\r\n".encode() + b"# \xff\xfe \x00\rz\n" + b"def f():\r\n    return g()\r\n"
    file = code(data, "python")
    [symbol] = [s for s in parser.symbols(file) if s.name == "f"]
    assert data[symbol.byte_start : symbol.byte_end] == b"def f():\r\n    return g()"
    assert (symbol.line_start, symbol.line_end) == (3, 4)
    assert parser.enclosing(file, data.index(b"g()"), data.index(b"g()") + 1) == symbol
    assert parser.enclosing(file, 0, len(data)) is None


def test_a_worker_killed_from_outside_costs_one_file(parser: SymbolParser, ledger: Ledger) -> None:
    before = children()
    parser.symbols(code("def a(): pass\n", "python"))
    [pid] = children() - before
    os.kill(pid, signal.SIGKILL)
    assert [s.name for s in parser.symbols(code("def b(): pass\n", "python", "b.py"))] == ["b"]
    assert "b.py" in ledger.warnings[0][1]
    assert [s.name for s in parser.symbols(code("def c():\n  def d(): pass\n", "python"))] == ["c", "d"]
    assert len(ledger.warnings) == 1


def test_nothing_starts_before_it_is_needed_and_close_ends_it(ledger: Ledger) -> None:
    before = children()
    parser = SymbolParser(Caps(), ledger)
    assert parser.symbols(source_file(b"# A\n", FileKind.PROSE, "markdown")) == ()
    assert parser.symbols(code("a { color: red }\n", "css"))[0].name == "a"
    assert children() == before
    parser.warm()
    assert len(children() - before) == 1
    parser.close()
    assert children() == before
    assert [s.name for s in parser.symbols(code("def a(): pass\n", "python"))] == ["a"]
    assert children() == before


def test_a_forgotten_parser_leaves_no_child(ledger: Ledger) -> None:
    before = children()
    parser = SymbolParser(Caps(), ledger)
    parser.warm()
    del parser
    gc.collect()
    assert children() == before


@pytest.mark.req("F13")
def test_the_worker_ends_with_its_parent(tmp_path: Path) -> None:
    """A parent killed in the middle of a blow-up: the worker's own timer ends it."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, threading\n"
        "from agentloop.index.symbols.process import ParseProcess\n"
        "p = ParseProcess()\n"
        "p.ask(b'x = 1', 'python', 5)\n"
        "print(p._pid, flush=True)\n"
        "threading.Timer(0.2, lambda: os.kill(os.getpid(), 9)).start()\n"
        "p.ask(b'val x = a' + b'?.b<C>(d)!!' * 12_000, 'kotlin', 1.0)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert wait_gone(int(done.stdout))


def wait_gone(pid: int) -> bool:
    """Wait (bounded) until a process that isn't our child is gone or a zombie."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 30)[0])
    finally:
        os.close(descriptor)


def test_a_grammar_is_used_without_a_writable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache of unpacked grammars lies below a file: it can't be made."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SEMBLE_GRAMMARS_CACHE_DIR", str(tmp_path / "file" / "cache"))
    process = ParseProcess()
    assert process.ask(b"def f(): pass\n", "python", 20).rows[0][:2] == ["f", "function"]
    process.close()


def test_without_grammars_one_warning_says_so(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> list[str]:
        raise ParseFailed("tree_sitter isn't installed", unavailable=True)

    monkeypatch.setattr("agentloop.index.symbols.process._package_folders", missing)
    parser = SymbolParser(Caps(), ledger)
    for at in range(5):
        assert parser.symbols(code(f"def f{at}(): pass\n", "python"))[0].name == f"f{at}"
    messages = [message for _, message, _ in ledger.warnings]
    assert "tree_sitter isn't installed" in messages[0]
    assert len(messages) <= 2
    assert not any("sample.python" in message for message in messages)


def test_one_file_is_parsed_once(parser: SymbolParser, ledger: Ledger) -> None:
    file = code("def a(): pass\n", "python")
    assert parser.symbols(file) is parser.symbols(file)
    parser.callsites(file, {"a"})
    assert ledger.get(Stage.CHUNKING, "parsed") == 1


def test_two_hundred_thousand_lines(parser: SymbolParser) -> None:
    text = "".join(f"def f{at}(a):\n    '''Doc.'''\n    return g(a)\n\n\n" for at in range(40_000))
    symbols = parser.symbols(code(text, "python"))
    assert len(symbols) == 40_000
    last = symbols[-1]
    assert (last.name, last.line_start, last.line_end) == ("f39999", 199_996, 199_998)
