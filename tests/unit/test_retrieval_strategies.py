"""Exact strings, regular expressions, stack frames and definitions over real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentloop.retrieval import exact, frames, regex
from agentloop.retrieval.chunkmap import ChunkMap
from tests.unit.retrieval_case import corpus_of, ranked, session_of, write

PYTHON_TRACE = """Traceback (most recent call last):
  File "/srv/app/shop/views.py", line 12, in show
    total(cart)
  File "/srv/app/shop/cart.py", line 3, in total
    raise KeyError(sku)
KeyError: 'A7'
"""


def test_frames_of_common_languages() -> None:
    text = (
        "\tat com.acme.Shop.total(Shop.java:42)\n"
        "    at Object.<anonymous> (/srv/app/cart.js:10:5)\n"
        "\t/go/src/m/main.go:12 +0x1d\n"
        "thread 'main' panicked at src/main.rs:10:5\n"
        "   at Shop.Cart.Total(Item i) in C:\\src\\Cart.cs:line 7\n"
        "#0 0x12 in total cart.c:9\n"
        "cart.rb:10:in `total'\n"
        "#0 /app/cart.php(11): total()\n"
    )
    found = {(frame.path.replace("\\", "/").rpartition("/")[2], frame.line) for frame in frames.frames(text)}
    assert found >= {
        ("Shop.java", 42), ("cart.js", 10), ("main.go", 12), ("main.rs", 10), ("Cart.cs", 7), ("cart.c", 9),
        ("cart.rb", 10), ("cart.php", 11),
    }  # fmt: skip
    java = next(frame for frame in frames.frames(text) if frame.line == 42)
    assert java.path == "com/acme/Shop.java"


def test_the_innermost_python_frame_comes_first() -> None:
    found = frames.frames(PYTHON_TRACE)
    assert [(frame.line, frame.depth) for frame in found] == [(3, 0), (12, 1)]


@pytest.mark.req("D1")
def test_long_lines_hold_no_frames() -> None:
    assert frames.frames("a1b2" * 50_000 + "\ncart.py:3\n") == frames.frames("cart.py:3\n")


def test_frames_find_files_whose_prefix_differs(tmp_path: Path) -> None:
    body = "def total(cart):\n    sku = cart[0]\n    raise KeyError(sku)\n"
    write(
        tmp_path,
        {
            "src/shop/cart.py": body,
            "src/other/cart.py": body.replace("total", "count"),
            "src/shop/views.py": "import shop\n" * 10 + "def show(cart):\n    total(cart)\n",
        },
    )
    with session_of(tmp_path, f"Why does this fail?\n\n{PYTHON_TRACE}") as session:
        _, paths = ranked(session)
    assert paths[0] == "src/shop/cart.py"
    assert paths.index("src/shop/views.py") < paths.index("src/other/cart.py")


def test_exact_strings_are_counted_by_chunk_and_word(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "x = backoff\n# backoff_limit\n", "b.md": "no such thing\n"})
    corpus, chunks = corpus_of(tmp_path)
    found = exact.scan(corpus, chunks, ChunkMap(chunks), ["backoff", "ackof", "thing here"])
    assert [(one.places, sum(one.whole.values())) for one in found] == [(2, 1), (2, 0), (0, 0)]


def test_a_literal_across_two_blocks_is_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "BLOCK", 64)
    write(tmp_path, {"a.txt": "filler line\n" * 5 + "needle_in_hay\n" + "filler line\n" * 20})
    corpus, chunks = corpus_of(tmp_path)
    (found,) = exact.scan(corpus, chunks, ChunkMap(chunks), ["needle_in_hay"])
    assert found.places == 1


def test_regular_expressions_match_bytes_and_derived_text(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a.py": "retry_1 = 0\nretry_2 = 1\n",
            "b.py": "retry = 0\n",
            "chat.jsonl": '{"id": "1", "text": "set retry_3 please"}\n{"id": "2", "text": "no"}\n',
        },
    )
    corpus, chunks = corpus_of(tmp_path)
    found = regex.matches(corpus, chunks, ChunkMap(chunks), r"retry_\d")
    by_path = {corpus.files[chunks[n].file].path: count for n, count in found.items()}
    assert by_path == {"a.py": 2, "chat.jsonl": 1}


@pytest.mark.req("D1")
def test_a_regular_expression_that_backtracks_elsewhere_is_linear_here(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "a" * 5_000 + "\n"})
    corpus, chunks = corpus_of(tmp_path)
    assert regex.matches(corpus, chunks, ChunkMap(chunks), r"(a+)+b") == {}


def test_a_regular_expression_that_rg_refuses_is_a_warning(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "value = 1\n"})
    with session_of(tmp_path, "/value(/") as session:
        _, paths = ranked(session)
        assert paths == ["a.py"]  # its words were searched instead
    corpus, chunks = corpus_of(tmp_path)
    with pytest.raises(regex.RegexUnavailable):
        regex.matches(corpus, chunks, ChunkMap(chunks), "value(")


def test_a_name_ranks_its_definition_and_cites_all_of_it(tmp_path: Path) -> None:
    define = "import os\n\n\nclass Depends:\n    def go(self):\n        return os.sep\n"
    uses = "\n".join(f"def use{n}():\n    return Depends() or Depends\n" for n in range(12))
    write(tmp_path, {"params.py": define, "uses.py": uses, "factory.py": "def Depends(x):\n    return x\n"})
    with session_of(tmp_path, "Depends") as session:
        ranking, paths = ranked(session)
    best = ranking.candidates[0]
    assert paths[:2] == ["params.py", "factory.py"]  # a class before a function of a capitalised name
    assert best.symbol is not None
    assert (best.symbol.name, best.focus[0].line_start, best.focus[0].line_end) == ("Depends", 4, 6)


def test_callers_are_found_one_step_away(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "lib.py": "def settle_ledger(x):\n    return audit_rows(x)\n",
            "rows.py": "def audit_rows(x):\n    return x\n",
            "app.py": "from lib import settle_ledger\n\n\ndef nightly():\n    settle_ledger(1)\n",
            "other.py": "def nothing():\n    return 0\n",
        },
    )
    with session_of(tmp_path, "settle_ledger") as session:
        ranking, paths = ranked(session)
    assert paths[0] == "lib.py"
    assert {"app.py", "rows.py"} <= set(paths)
    assert "tree_sitter" in ranking.strategies


def test_a_frame_beyond_the_end_of_its_file_points_nowhere(tmp_path: Path) -> None:
    write(tmp_path, {"shop/cart.py": "def total(cart):\n    return 0\n"})
    _, chunks = corpus_of(tmp_path)
    where = ChunkMap(chunks)
    assert where.at_line(0, 2) == 0
    assert where.at_line(0, 3) is None
    with session_of(tmp_path, 'Why? File "/srv/shop/cart.py", line 400, in total') as session:
        ranking = session.rank()
    assert "stack_trace_path" not in ranking.strategies


@pytest.mark.req("D2")
@pytest.mark.parametrize("question", ['why "\ud800x"', "/\ud800x/", "/a\0b/", "`a\0b` here"])
def test_searches_that_are_no_unicode_text_are_answered(tmp_path: Path, question: str) -> None:
    write(tmp_path, {"a.md": "here is text\n"})
    with session_of(tmp_path, "text") as session:
        session.search(question)
        assert len(session.rank().candidates) == 1
