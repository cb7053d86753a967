"""Definitions and calls in real syntax of each language that has a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentloop.budget import Ledger
from agentloop.chunking.languages import DEFINITIONS
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.index.symbols import SymbolParser, outline
from agentloop.index.symbols.tags import TAGS
from agentloop.types import Symbol
from tests.unit.chunking_files import code

FOLDER = Path(__file__).parent / "symbols"
LANGUAGES = sorted(path.stem for path in FOLDER.glob("*.txt"))


@pytest.fixture(scope="module")
def parser() -> Iterator[SymbolParser]:
    """One worker for the whole module: as in a request."""
    found = SymbolParser(Caps(parse_seconds=20), Ledger(SystemClock()))
    yield found
    found.close()


def sample(language: str) -> tuple[str, list[str], list[str]]:
    """Source, expected definitions (`kind owner.name first-last`) and expected called names."""
    text = (FOLDER / f"{language}.txt").read_text()
    source, rest = text.split("\n==== definitions\n")
    definitions, calls = rest.split("==== calls\n")
    return source, definitions.splitlines(), calls.split()


def written(symbol: Symbol) -> str:
    """A symbol as the samples write it."""
    owner = f"{symbol.parent}." if symbol.parent else ""
    return f"{symbol.kind} {owner}{symbol.name} {symbol.line_start}-{symbol.line_end}"


def test_every_table_has_a_sample() -> None:
    assert set(LANGUAGES) == set(TAGS)
    assert set(TAGS) <= set(DEFINITIONS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_definitions(language: str, parser: SymbolParser) -> None:
    source, definitions, _ = sample(language)
    assert [written(symbol) for symbol in parser.symbols(code(source, language))] == definitions


@pytest.mark.parametrize("language", LANGUAGES)
def test_calls(language: str, parser: SymbolParser) -> None:
    source, _, calls = sample(language)
    file = code(source, language)
    found = parser.callsites(file, {*calls, "no_such_name"})
    assert sorted({name for name, _, _ in found}) == calls
    for name, span, _ in found:
        assert name.encode() in file.content.read(span.byte_start, span.byte_end)
        assert source.encode().count(b"\n", 0, span.byte_start) + 1 == span.line_start


@pytest.mark.parametrize("language", LANGUAGES)
def test_spans_hold_the_name_and_the_signature_begins_there(language: str, parser: SymbolParser) -> None:
    source, _, _ = sample(language)
    data = source.encode()
    for symbol in parser.symbols(code(source, language)):
        text = data[symbol.byte_start : symbol.byte_end].decode()
        assert symbol.name in text
        assert symbol.signature
        assert "\n" not in symbol.signature
        assert symbol.signature.split()[0] in text
        assert symbol.line_end - symbol.line_start == text.count("\n") - text.endswith("\n")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_outline_names_the_top_level_definitions(language: str) -> None:
    """The regular expressions see at least what stands at the start of a line outside any body."""
    source, definitions, _ = sample(language)
    named = {name for found in outline(source, language) for name in (found.name, *found.name.split("::"))}
    lines = source.splitlines()
    for definition in definitions:
        kind, name, span = definition.split()
        line = lines[int(span.split("-")[0]) - 1]
        if "." in name or line[:1].isspace() or kind in _OUTLINE_SKIPS:
            continue
        assert any(name in found or found.endswith((f".{name}", f":{name}")) for found in named), definition


_OUTLINE_SKIPS = {"type", "variable", "signature", "constant", "struct"}
"""Kinds that an outline may miss: names that don't stand at the start of their line."""


def test_docs_and_decorators(parser: SymbolParser) -> None:
    found = {s.name: s for s in parser.symbols(code(sample("python")[0], "python"))}
    assert found["load"].doc == "Read it."
    assert found["load"].signature == "def load(path: str) -> bytes"
    assert parser.symbols(code(sample("rust")[0], "rust"))[0].doc == "A point."
    assert parser.symbols(code(sample("c")[0], "c"))[5].doc == "Adds two numbers."
    assert {s.name: s.doc for s in parser.symbols(code(sample("ruby")[0], "ruby"))}["get"] == "Reads a key."


def test_a_comment_in_a_signature_is_left_out(parser: SymbolParser) -> None:
    found = parser.symbols(code("def f(a):\n    # why\n    return a\n", "python"))
    assert found[0].signature == "def f(a)"
    assert found[0].doc == ""


def test_a_long_doc_ends_with_a_sentence(parser: SymbolParser) -> None:
    doc = "One sentence. " + "word " * 300
    found = parser.symbols(code(f'def f():\n    """{doc}"""\n', "python"))
    assert found[0].doc == "One sentence."
