"""Where chunks begin and what they are called, in code, prose, data and diffs."""

from __future__ import annotations

import pytest

from agentloop.budget import Ledger
from agentloop.chunking import chunk_corpus
from agentloop.chunking.windows import WINDOW_CHARS
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.types import Chunk, ChunkType, FileKind
from tests.unit.chunking_files import corpus, source_file


def chunks_of(text: str, kind: FileKind, language: str = "") -> list[tuple[Chunk, str]]:
    """The chunks of one text with their texts."""
    found = corpus(source_file(text.encode(), kind, language))
    return [(chunk, found.text(chunk)) for chunk in chunk_corpus(found, Ledger(SystemClock()), Caps())]


def python_module(functions: int, body_lines: int) -> str:
    """A module of functions, each with a comment and a decorator above it."""
    parts = [
        '"""A module."""\n\nimport os\nfrom typing import (\n    Any,\n    Callable,\n)\n'
        + "import sys\n" * 20
    ]
    for at in range(functions):
        body = "".join(f"    value_{line} = compute({line})\n" for line in range(body_lines))
        parts.append(f"\n\n# Comment of {at}.\n@decorator(\n    {at},\n)\ndef function_{at}(a, b):\n{body}")
    return "".join(parts)


def test_code_is_cut_above_the_comments_and_decorators_of_definitions() -> None:
    found = chunks_of(python_module(12, 14), FileKind.CODE, "python")
    assert found[0][0].type is ChunkType.IMPORTS
    assert found[0][1].rstrip().endswith("import sys")
    for chunk, text in found[1:]:
        assert text.lstrip().startswith("# Comment of ")
        assert len(text) <= WINDOW_CHARS
        assert chunk.name == " ".join(
            line.split("(")[0].removeprefix("def ") for line in text.splitlines() if line.startswith("def ")
        )
    names = " ".join(chunk.name for chunk, _ in found[1:]).split()
    assert names == [f"function_{at}" for at in range(12)]


def test_small_functions_share_a_chunk_and_large_ones_are_cut_inside() -> None:
    small = chunks_of(python_module(40, 1), FileKind.CODE, "python")
    assert len(small) < 20
    large = chunks_of(python_module(2, 200), FileKind.CODE, "python")
    assert len(large) > 6
    assert all(len(text) <= WINDOW_CHARS for _, text in large)


def test_a_definition_on_the_first_line_is_named() -> None:
    for text in ("def first():\n    pass\n", "\ufeffdef first():\n    pass\n", "def first(): pass"):
        assert chunks_of(text, FileKind.CODE, "python")[0][0].name == "first"


def test_methods_are_cut_where_no_top_level_definition_is_near() -> None:
    body = "".join(
        f"    def method_{at}(self):\n"
        + "".join(f"        self.x{line} = {line}\n" for line in range(20))
        + "\n"
        for at in range(20)
    )
    found = chunks_of("class Big:\n" + body, FileKind.CODE, "python")
    assert all(text.startswith("    def method_") for _, text in found[1:])


def test_windows_line_ends_are_cut_at_blank_lines_and_definitions() -> None:
    text = python_module(12, 14).replace("\n", "\r\n")
    found = chunks_of(text, FileKind.CODE, "python")
    assert found[1][1].lstrip().startswith("# Comment of ")
    assert "".join(text for _, text in found) == text


def test_text_that_is_not_ascii_gets_windows_of_as_many_characters() -> None:
    found = chunks_of("漢字漢字漢字漢字。\n\n" * 900, FileKind.TEXT)
    assert 1000 < len(found[0][1]) <= WINDOW_CHARS


MARKDOWN = """# Guide

Intro text.

## Install

Run it.

```sh
# not a heading
make
```

## Use

### Options

| a | b |
|---|---|
| 1 | 2 |

After the table.

Setext
------

Under setext.
"""


def test_markdown_sections_have_their_heading_path() -> None:
    found = chunks_of(MARKDOWN, FileKind.PROSE, "markdown")
    assert [(chunk.name, chunk.type) for chunk, _ in found] == [
        ("Guide", ChunkType.HEADING),
        ("Guide > Install", ChunkType.HEADING),
        ("Guide > Use > Options", ChunkType.HEADING),
        ("Guide > Use > Options", ChunkType.TABLE),
        ("Guide > Use > Options", ChunkType.PARAGRAPH),
        ("Guide > Setext", ChunkType.HEADING),
    ]
    assert found[2][1].startswith("## Use\n")
    assert found[3][1] == "| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert "# not a heading" in found[1][1]


def test_front_matter_is_no_heading() -> None:
    found = chunks_of("---\ntitle: x\n---\n# A\n\ntext\n", FileKind.PROSE, "markdown")
    assert [chunk.name for chunk, _ in found][-1] == "A"
    assert "title: x" not in {chunk.name for chunk, _ in found}


REST = """=====
Title
=====

Intro.

.. _label:

Section
=======

Text. See the link_.

.. _link: https://example.org/

Sub
---

=====  =====
a      b
=====  =====
1      2

3      4
=====  =====

+---+---+
| a | b |
+---+---+

End.
"""


def test_rest_sections_labels_and_tables() -> None:
    found = chunks_of(REST, FileKind.PROSE, "rst")
    assert [(chunk.name, chunk.type) for chunk, _ in found] == [
        ("Title", ChunkType.HEADING),
        ("Title > Section", ChunkType.HEADING),
        ("Title > Section > Sub", ChunkType.HEADING),
        ("Title > Section > Sub", ChunkType.TABLE),
        ("Title > Section > Sub", ChunkType.PARAGRAPH),
        ("Title > Section > Sub", ChunkType.TABLE),
        ("Title > Section > Sub", ChunkType.PARAGRAPH),
    ]
    assert found[1][1].startswith(".. _label:")
    assert "_link: https" in found[1][1]
    assert found[3][1].count("=====") == 6
    assert found[5][1] == "+---+---+\n| a | b |\n+---+---+\n"


def test_long_sections_pack_their_paragraphs() -> None:
    paragraph = "Some words that make a paragraph of prose. " * 6 + "\n\n"
    found = chunks_of("# A\n\n" + paragraph * 30, FileKind.PROSE, "markdown")
    assert all(text.endswith("\n\n") for _, text in found)
    assert all(1000 < len(text) <= WINDOW_CHARS for _, text in found[:-1])


def test_latex_sections() -> None:
    found = chunks_of("\\section{One}\ntext\n\\subsection{Two}\nmore\n", FileKind.PROSE, "latex")
    assert [chunk.name for chunk, _ in found] == ["One", "One > Two"]


def test_data_is_cut_at_top_level_keys() -> None:
    rows = "".join(f'  "key{at}": {{\n    "deep": "{"x" * 300}"\n  }},\n' for at in range(20))
    found = chunks_of("{\n" + rows + '  "last": 1\n}\n', FileKind.DATA, "json")
    assert len(found) > 3
    assert all(text.startswith('  "key') for _, text in found[1:])
    assert "key0" in found[0][0].name.split()


def test_rows_stay_whole() -> None:
    text = "".join(f"{at},{'v' * (at % 50)},end\n" for at in range(500))
    found = chunks_of(text, FileKind.DATA, "csv")
    assert all(text.endswith(",end\n") for _, text in found)


DIFF = """From 1234567890 Mon Sep 17 00:00:00 2001
Subject: [PATCH] Fix it

---
diff --git a/src/a.py b/src/a.py
index 1..2 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,4 @@ def f():
 x
+y
@@ -10,2 +11,2 @@
-z
+w
diff --git a/old.txt b/new.txt
similarity index 100%
rename from old.txt
rename to new.txt
diff --git a/c.py b/c.py
--- a/c.py
+++ b/c.py
@@ -1 +1 @@
-a
+b
--- b.c\t2020-01-01
+++ b.c\t2020-01-02
@@ -1 +1 @@
-a
+b
"""


def test_a_hunk_is_a_chunk_named_after_its_file() -> None:
    found = chunks_of(DIFF, FileKind.DIFF, "diff")
    assert [(chunk.name, chunk.type, text.count("@@ -")) for chunk, text in found] == [
        ("", ChunkType.WINDOW, 0),
        ("src/a.py", ChunkType.HUNK, 1),
        ("src/a.py", ChunkType.HUNK, 1),
        ("new.txt", ChunkType.WINDOW, 0),
        ("c.py", ChunkType.HUNK, 1),
        ("b.c", ChunkType.HUNK, 1),
    ]
    assert found[1][1].startswith("diff --git")
    assert found[2][1].startswith("@@ -10")


@pytest.mark.parametrize("kind", [FileKind.CODE, FileKind.PROSE, FileKind.DATA, FileKind.TEXT])
def test_an_unknown_language_is_still_cut_at_blank_lines(kind: FileKind) -> None:
    found = chunks_of(("some words here\n" * 20 + "\n") * 20, kind, "unheard-of")
    assert all(text.endswith("\n\n") for _, text in found)
