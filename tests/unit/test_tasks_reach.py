"""What a test may reach, and which lines led to where it stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentloop.budget import Ledger
from agentloop.chunking import chunk_corpus
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.index.symbols import SymbolParser
from agentloop.tasks.codegraph import CodeGraph, Function
from agentloop.tasks.debug.reachable import Reachable
from agentloop.tasks.debug.slices import AFTER, BEFORE, SLICED, line_weights
from agentloop.tasks.uses import How, plain, uses
from tests.source_case import find

CODE = '''class Base:
    def size(self):
        return self.count()

    def count(self):
        return 0


class Box(Base):
    def count(self):
        return 1

    def __len__(self):
        return 2


class Other(Base):
    def count(self):
        """Box.__len__ is not called here."""
        return 3


def outer():
    def inner():
        return 4

    return inner


def inner():
    return 5
'''
TESTS = """from code_under import Box, outer


def test_size():
    box = Box()
    assert box.size() == 1


def test_len():
    box = Box()
    assert len(box) == 2


def test_outer():
    assert outer()() == 4
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[CodeGraph]:
    (tmp_path / "code_under.py").write_text(CODE)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(TESTS)
    corpus = find(tmp_path)
    parser = SymbolParser(Caps(), Ledger(SystemClock()))
    yield CodeGraph(corpus, chunk_corpus(corpus, Ledger(SystemClock()), Caps()), parser)
    parser.close()


def reached(graph: CodeGraph, test: str) -> set[str]:
    (start,) = graph.named(test)
    weights = Reachable(graph).reach(start).weights
    return {f"{graph.symbol(f).parent}.{graph.symbol(f).name}".lstrip(".") for f in weights}


def test_members_are_those_of_the_classes_that_are_made(graph: CodeGraph) -> None:
    found = reached(graph, "test_size")
    assert {"Box", "Base.size", "Box.count"} <= found
    assert not {"Other.count", "Base.count", "Other"} & found


def test_operators_reach_the_methods_they_call(graph: CodeGraph) -> None:
    assert "Box.__len__" in reached(graph, "test_len")
    assert "Box.__len__" not in reached(graph, "test_size")


def test_a_bare_name_means_what_its_scope_says(graph: CodeGraph) -> None:
    found = reached(graph, "test_outer")
    assert "outer.inner" in found
    assert "inner" not in found


def test_bases_and_owners(graph: CodeGraph) -> None:
    (box,) = graph.named("Box")
    count = graph.lookup(box, "count")
    assert count is not None
    assert graph.owner(count) == box
    assert graph.lookup(box, "size") == Function(box.file, CODE.index("def size"))


def test_only_what_led_to_the_failing_line_weighs() -> None:
    text = "\n".join(
        [
            "def test_it():",
            "    left = make()",
            "    noise()",
            "    result = join(left)",
            "    assert check(",
            "        result",
            "    )",
            "    later()",
        ]
    )
    weights = line_weights(text, 10, 15)
    assert [weights[n] for n in range(11, 18)] == [SLICED, BEFORE, SLICED, 1.0, 1.0, 1.0, AFTER]


def test_handlers_of_the_failing_block_ran_and_held_blocks_count() -> None:
    tried = "try:\n    call()\nexcept Bad:\n    handle()\nrest()\n"
    assert line_weights(tried, 1, 2)[4] == SLICED
    held = "with raises(Bad):\n    call()\nrest()\n"
    assert line_weights(held, 1, 1)[2] == 1.0


def test_words_of_comments_and_strings_are_no_uses() -> None:
    text = plain('aa.bb(cc)  # dd()\n\'ee()\' + """ff()\n gg()""" + hh()\n', "python")
    assert text.count("\n") == 3
    found = {(use.name, use.how, use.line) for use in uses(text, 1, "python") if use.how is not How.OPERATOR}
    bare = {("aa", How.BARE, 1), ("cc", How.BARE, 1), ("hh", How.BARE, 3)}
    assert found == {("bb", How.MEMBER, 1), *bare}
