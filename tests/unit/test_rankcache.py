"""Rankings in the cache: another budget starts at compression; what differs, or may not be kept, doesn't."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentloop import answer
from agentloop.api import compress_sync, make_request
from agentloop.cache import FileCache
from agentloop.cache import rankings as rankcache
from agentloop.config import Policy
from agentloop.environment import Environment, Outcome
from agentloop.errors import Stage
from tests.integration.broker_server import small_tree

QUESTION = "how long does it back off?"


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    monkeypatch.setattr(rankcache, "LEAST_CHUNKS", 0)
    return Environment(cache=FileCache(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_tree(tmp_path / "data")


def ask(root: Path, env: Environment, question: str = QUESTION, **more: Any) -> Outcome:
    return compress_sync(make_request(question, [root], **more), env)


def reused(outcome: Outcome) -> bool:
    return bool(outcome.ledger.get(Stage.RERANKING, "reused"))


def content(outcome: Outcome) -> list[object]:
    released = {name: value for name, value in outcome.released.items() if name != "provenance"}
    artifacts = {name: data for name, data in outcome.artifacts.items() if name != "evidence_pack.json"}
    return [released, artifacts, outcome.ranking]


@pytest.mark.parametrize("mode", ["agentic", "single_shot"])
def test_another_budget_starts_at_compression(
    root: Path, env: Environment, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    params = {"mode": mode}
    assert not reused(ask(root, env, task_params=params))
    with monkeypatch.context() as patch:
        patch.setattr(answer, "RetrievalSession", lambda *_: pytest.fail("it searched again"))
        small = {"final_evidence_pack_budget": 700, "per_chunk_compression_budget": 200}
        again = ask(root, env, task_params=params, constraints=small)
    assert reused(again)
    plain = ask(root, Environment(), task_params=params, constraints=small)
    assert content(again) == content(plain)
    assert again.ledger.counters[Stage.RETRIEVAL] == plain.ledger.counters[Stage.RETRIEVAL]


def test_what_shapes_a_ranking_is_in_its_key(root: Path, env: Environment) -> None:
    ask(root, env)
    assert not reused(ask(root, env, "which header?"))
    assert not reused(ask(root, env, constraints={"retrieved_chunk_budget": 300}))
    assert not reused(ask(root, env, task_params={"max_tool_calls": 1}))
    assert not reused(ask(root, replace(env, policy=Policy(namespace="other"))))
    assert reused(ask(root, env))
    (root / "src" / "retry.py").write_text("def back_off(n):\n    return 45\n")
    assert not reused(ask(root, env))


def test_nothing_of_conversations_is_kept(root: Path, env: Environment, tmp_path: Path) -> None:
    (root / "talk.jsonl").write_text('{"speaker": "a", "text": "canary-42 is our fee code"}\n' * 3)
    records = {"retrieval_strategies": ["bm25"]}
    ask(root, env, "fee code", task_params=records)
    assert not reused(ask(root, env, "fee code", task_params=records))
    files = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert b"canary-42" not in b"".join(p.read_bytes() for p in files)
    ask(root, env)
    assert reused(ask(root, env)), "a question that finds none of them"
