"""The outline and the imports by regular expressions, and that no input stalls them."""

from __future__ import annotations

import pytest

from agentloop.budget import Ledger
from agentloop.chunking import chunk_corpus, import_targets, outline
from agentloop.chunking.languages import DEFINITIONS, IMPORTS, canonical
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.index.symbols import import_edges
from agentloop.types import FileKind
from tests.unit.chunking_files import code, corpus, source_file

EXPECTED = {
    "python": ("from a.b import (c,\n d)\nimport x, y as z\nfrom . import q\n", ["a.b", "x", "y", "."]),
    "javascript": ("import a from './a.js'\nimport 'b'\nconst c = require(\"c\")\nexport * from '../d'\n"
                   "await import('e')\n", ["./a.js", "b", "c", "../d", "e"]),
    "go": ('import "fmt"\nimport (\n\t"os"\n\tx "a.b/c"\n)\n', ["fmt", "os", "a.b/c"]),
    "rust": (
        "use std::io::Read;\npub use crate::a;\nmod inner;\nmod b {}\n",
        ["std::io::Read", "crate::a", "inner"],
    ),
    "java": ("import a.b.C;\nimport static a.D.*;\n", ["a.b.C", "a.D.*"]),
    "kotlin": ("import a.b.C\n", ["a.b.C"]),
    "c": ('#include <stdio.h>\n# include "a/b.h"\n', ["stdio.h", "a/b.h"]),
    "cpp": ("#include <vector>\n", ["vector"]),
    "csharp": ("using System.Text;\nusing X = A.B;\n", ["System.Text", "A.B"]),
    "ruby": ("require 'json'\nrequire_relative \"../a\"\n", ["json", "../a"]),
    "php": ("<?php\nuse A\\B;\nrequire_once('c.php');\n", ["A\\B", "c.php"]),
    "swift": ("import Foundation\n@testable import App\n", ["Foundation", "App"]),
    "scala": ("import a.b._\n", ["a.b._"]),
    "bash": ("source ./a.sh\n. b.sh\n", ["./a.sh", "b.sh"]),
    "haskell": ("import qualified Data.Map as M\n", ["Data.Map"]),
    "elixir": ("  alias A.B\n", ["A.B"]),
    "proto": ('import "a/b.proto";\n', ["a/b.proto"]),
    "dart": ("import 'dart:io';\n", ["dart:io"]),
    "lua": ('local a = require("a.b")\n', ["a.b"]),
    "zig": ('const std = @import("std");\n', ["std"]),
    "tsx": ("import { A } from '@/a'\n", ["@/a"]),
}  # fmt: skip


@pytest.mark.parametrize("language", sorted(EXPECTED))
def test_imports(language: str) -> None:
    text, expected = EXPECTED[language]
    assert import_targets(text, language) == expected
    assert import_edges(code(text, language)) == expected


def test_what_is_not_code_imports_nothing() -> None:
    assert import_edges(source_file(b"import a\n", FileKind.PROSE, "python")) == []
    assert import_targets("import a\n", "unheard-of") == []


def test_outline_offsets_are_bytes_of_the_line() -> None:
    text = "x = 'ż'\n\n  class A:\n    async def f(self): pass\n"
    data = text.encode()
    found = outline(text, "py")
    assert [(d.name, d.kind) for d in found] == [("x", "constant"), ("A", "class"), ("f", "function")]
    assert [data[d.byte_offset :].lstrip()[:5] for d in found] == [b"x = '", b"class", b"async"]
    assert outline(data, "python") == found


@pytest.mark.parametrize(
    ("language", "text", "names"),
    [
        ("c", "int\nfoo (int a)\n{\n}\nstatic void *bar(void) {\n", ["foo", "bar"]),
        ("c", "  return foo(a);\n  if (x) {\n  }\n", []),
        ("java", "    public static void main(String[] a) {\n    if (x) {\n    new A() {\n", ["main"]),
        ("csharp", "    public new async Task<int> Go(int a) {\n    public int B() => 3;\n", ["Go", "B"]),
        ("javascript", "  if (a) {\n  return f(b) {\n  foo(a) {\n  while (x) {\n", ["foo"]),
        ("javascript", "export const useA = <T,>(x: T) => {\nlet b = 3\n", ["useA"]),
        ("rust", "impl<T: Copy> fmt::Display for Foo<T> {\n pub(crate) async fn go<T>() {\n", ["Foo", "go"]),
        ("go", "func (s *Store[T]) Put(k string) {\n", ["Put"]),
        ("kotlin", "suspend fun <T> List<T>.second(): T {\n", ["second"]),
        ("sql", "create table if not exists `a.b` (\n", ["`a.b`"]),
    ],
)  # fmt: skip
def test_outline_of_harder_lines(language: str, text: str, names: list[str]) -> None:
    assert [d.name for d in outline(text, language)] == names


def test_aliases_name_one_language() -> None:
    assert canonical("C++") == "cpp"
    assert outline("fn a() {}\n", "rs") == outline("fn a() {}\n", "rust")


HOSTILE = [
    b"a ", b"a::", b"a.b", b"a<", b"`", b"\n```", b"= =\n", b"|\n", b"+---\n", b"a\n=\n", b".. _a:\n\n", b"(",
    b"a(b\n", b"import (\n", b"@a\n", b"# a\n", b"\n", b" ", b"\t\n", b"--- a\n", b"struct a\n",
    b"public static final ",
    b"'\"", b"a", b"template <", b'"a": ', b"let a\n", b"def f(\n", b"a:\n", b"\\section{", b"- ", b"from a ",
    b"impl for ",
]  # fmt: skip


@pytest.mark.req("D1")
@pytest.mark.parametrize("part", HOSTILE, ids=repr)
def test_no_text_stalls_the_chunker(part: bytes) -> None:
    """160 kB of what makes careless patterns quadratic or worse: the suite's time-out would end it."""
    data = part * (160_000 // len(part))
    for language in ("markdown", "rst", "latex"):
        chunk_corpus(corpus(source_file(data, FileKind.PROSE, language)), Ledger(SystemClock()), Caps())
    for language in ("json", "yaml", "toml"):
        chunk_corpus(corpus(source_file(data, FileKind.DATA, language)), Ledger(SystemClock()), Caps())
    chunk_corpus(corpus(source_file(data, FileKind.DIFF)), Ledger(SystemClock()), Caps())
    for language in ("python", "javascript", "cpp", "java"):
        chunk_corpus(corpus(source_file(data, FileKind.CODE, language)), Ledger(SystemClock()), Caps())


@pytest.mark.req("D1")
@pytest.mark.parametrize("language", sorted({*DEFINITIONS, *IMPORTS}))
def test_no_language_has_a_slow_pattern(language: str) -> None:
    for part in HOSTILE:
        data = part * (20_000 // len(part))
        outline(data, language)
        import_targets(data, language)
