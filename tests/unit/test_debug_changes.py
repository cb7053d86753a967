"""Recent changes name the functions that they touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentloop.budget import Ledger
from agentloop.chunking import chunk_corpus
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.errors import AgentloopError
from agentloop.index.symbols import SymbolParser
from agentloop.request import parse_request
from agentloop.tasks.codegraph import CodeGraph
from agentloop.tasks.debug.changes import changed_functions
from tests.source_case import find
from tests.unit.test_sources_git import commit, git

BEFORE = "".join(f"def f{n}(x):\n    y = x + {n}\n    return y\n\n\n" for n in range(60))


@pytest.fixture
def parser() -> Iterator[SymbolParser]:
    parser = SymbolParser(Caps(), Ledger(SystemClock()))
    yield parser
    parser.close()


def touched(root: Path, parser: SymbolParser, **params: object) -> dict[str, list[str]]:
    corpus = find(root)
    chunks = chunk_corpus(corpus, Ledger(SystemClock()), Caps())
    graph = CodeGraph(corpus, chunks, parser)
    ref = {"type": "repo", "uri": str(root)}
    request = parse_request(
        {"task_type": "debug_with_local_context", "problem": "p", "input_refs": [ref], "task_params": params}
    )
    return {graph.symbol(f).name: c for f, c in changed_functions(corpus, graph, request).items()}


def test_commits_and_edits_name_their_functions(tmp_path: Path, parser: SymbolParser) -> None:
    git(tmp_path, "init", "-q")
    commit(tmp_path, "import", 1, **{"a.py": BEFORE})
    assert touched(tmp_path, parser) == {}
    second = commit(tmp_path, "second", 2, **{"a.py": BEFORE.replace("x + 5\n", "x - 5\n")})
    third_text = BEFORE.replace("x + 5\n", "x - 5\n").replace("x + 9\n", "x - 9\n")
    third = commit(tmp_path, "third", 3, **{"a.py": third_text})
    assert touched(tmp_path, parser) == {"f9": [third[:10]]}
    assert touched(tmp_path, parser, changed_since="HEAD~2") == {"f9": [third[:10]], "f5": [second[:10]]}
    (tmp_path / "a.py").write_text(third_text.replace("x - 9\n", "x * 9\n").replace("x + 30\n", "x\n"))
    assert touched(tmp_path, parser) == {"f9": ["uncommitted edits"], "f30": ["uncommitted edits"]}
    assert touched(tmp_path, parser, retrieval_strategies=["bm25"]) == {}
    with pytest.raises(AgentloopError):
        touched(tmp_path, parser, changed_since="--output=x")


def test_two_commits_of_one_second_keep_their_order(tmp_path: Path, parser: SymbolParser) -> None:
    for n in range(6):  # the ids of commits differ from repository to repository: any order would show
        root = tmp_path / str(n)
        root.mkdir()
        git(root, "init", "-q")
        commit(root, f"import {n}", 1, **{"a.py": BEFORE})
        second = commit(root, "second", 1, **{"a.py": BEFORE.replace("x + 5\n", "x - 5\n")})
        assert touched(root, parser) == {"f5": [second[:10]]}


def test_a_change_of_everything_says_nothing(tmp_path: Path, parser: SymbolParser) -> None:
    git(tmp_path, "init", "-q")
    commit(tmp_path, "import", 1, **{"a.py": BEFORE})
    commit(tmp_path, "reformatted", 2, **{"a.py": BEFORE.replace(" + ", "+")})
    assert touched(tmp_path, parser) == {}
    assert len(touched(tmp_path, parser, changed_since="2024-03-02")) == 60
