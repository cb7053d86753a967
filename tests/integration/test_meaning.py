"""Embeddings and reranking over a real HTTP server: what they find, what they cost, how they fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentloop.api import compress, make_request
from agentloop.cache import Cache, FileCache, NoCache
from agentloop.config import Policy
from agentloop.loop.profiles import Profile
from agentloop.loop.semantic import EndpointEmbedder, EndpointReranker
from agentloop.pipeline import Environment, Outcome
from tests.fakes.endpoint import FakeEndpoint, Step, fails, hangs, raw, resets, streams
from tests.fakes.meaning import DIMENSIONS, scores, vectors
from tests.unit.retrieval_case import write

NOTES = {
    "a.md": "# Trip\n\nThe station is closed, so the train leaves from the depot.\n",
    "b.md": "# House\n\nThe boiler makes a banging noise at dawn.\n",
    "c.md": "# Kitchen\n\nLet the dough rest, then the bread is airy.\n",
    "d.md": "# Workshop\n\nThe bike has a new tyre.\n",
}
POLISH = "Dlaczego kopciuch rzęzi?"  # why does the boiler rattle: in no note, nor in the lexicon
ENGLISH = "Why does the boiler make a noise?"


def profile(url: str, kind: str, **more: Any) -> Profile:
    values = {"name": "m", "kind": kind, "endpoint": url, "model": "fake", "timeout_seconds": 5.0}
    return Profile.model_validate({**values, "dimensions": DIMENSIONS, **more})


async def ask(
    root: Path,
    question: str,
    url: str = "",
    *,
    rerank: str = "",
    cache: Cache | None = None,
    policy: Policy | None = None,
    mode: str = "single_shot",
    strategies: tuple[str, ...] = ("bm25", "embeddings"),
    **more: Any,
) -> Outcome:
    """One request; `url` serves embeddings, `rerank` scores, `more` are members of both profiles."""
    params = {"mode": mode, "retrieval_strategies": list(strategies)}
    env = Environment(
        policy=policy or Policy(),
        embedder=EndpointEmbedder(profile(url, "embeddings", **more), pauses=(0.0, 0.0)) if url else None,
        reranker=EndpointReranker(profile(rerank, "rerank", **more), pauses=(0.0, 0.0)) if rerank else None,
        cache=cache or NoCache(),
    )
    return await compress(make_request(question, [root], task_params=params), env)


def paths(outcome: Outcome) -> list[str]:
    return [outcome.corpus.files[outcome.chunks[c.chunk].file].path for c in outcome.ranking.candidates]


def warned(outcome: Outcome, code: str) -> str:
    """The message of the one warning with a code, empty without one."""
    found = [w["message"] for w in outcome.released["payload"]["warnings"] if w["code"] == code]
    assert len(found) <= 1
    return found[0] if found else ""


def payload(outcome: Outcome) -> str:
    return json.dumps(outcome.released["payload"], sort_keys=True)


async def test_a_question_in_another_language_finds_its_answer(tmp_path: Path) -> None:
    write(tmp_path, NOTES)
    without = await ask(tmp_path, POLISH, strategies=("bm25",))
    assert paths(without) == []
    async with FakeEndpoint([vectors()], repeat_last=True).serving() as server:
        for mode in ("single_shot", "agentic"):
            outcome = await ask(tmp_path, POLISH, server.url, mode=mode)
            assert paths(outcome)[0] == "b.md"
            best = outcome.released["payload"]["evidence"][0]
            assert best["claim"] == "House: The boiler makes a banging noise at dawn."
            assert best["source_refs"][0]["path"] == "b.md"
            assert "embeddings" in outcome.ranking.strategies
            assert not warned(outcome, "STRATEGY_UNAVAILABLE")


async def test_same_request_same_pack_cached_or_not(tmp_path: Path) -> None:
    write(tmp_path / "notes", NOTES)
    cache = FileCache(tmp_path / "cache")
    async with FakeEndpoint([vectors()], repeat_last=True).serving() as server:
        fresh = await ask(tmp_path / "notes", ENGLISH, server.url, batch=2)
        assert [len(asked["input"]) for asked in server.asked] == [1, 2, 2]
        assert server.asked[0]["encoding_format"] == "float"
        first = await ask(tmp_path / "notes", ENGLISH, server.url, cache=cache)
        calls = len(server.asked)
        kept = await ask(tmp_path / "notes", ENGLISH, server.url, cache=cache)
        assert [asked["input"] for asked in server.asked[calls:]] == [[ENGLISH]]  # only the question is new
    assert payload(fresh) == payload(first) == payload(kept)


async def test_another_model_or_length_shares_no_vector(tmp_path: Path) -> None:
    write(tmp_path / "notes", NOTES)
    cache = FileCache(tmp_path / "cache")
    async with FakeEndpoint([vectors()], repeat_last=True).serving() as server:
        for more in ({}, {"model_version": "2"}, {"passage_prefix": "passage: "}, {"model": "other"}):
            calls = len(server.asked)
            await ask(tmp_path / "notes", ENGLISH, server.url, cache=cache, **more)
            assert len(server.asked) == calls + 2


async def test_records_are_cached_only_where_policy_says_so(tmp_path: Path) -> None:
    turns = [{"id": f"m{n}", "text": text} for n, text in enumerate(NOTES.values())]
    write(tmp_path / "in", {"chat.jsonl": "".join(json.dumps(turn) + "\n" for turn in turns)})
    cache = FileCache(tmp_path / "cache")
    async with FakeEndpoint([vectors()], repeat_last=True).serving() as server:
        for policy, computed in ((Policy(), 4), (Policy(), 4), (Policy(cache_records=True), 4),
                                 (Policy(cache_records=True), 0)):  # fmt: skip
            calls = len(server.asked)
            await ask(tmp_path / "in", ENGLISH, server.url, cache=cache, policy=policy)
            assert sum(len(asked["input"]) for asked in server.asked[calls:]) == 1 + computed
            assert bool(cache.stats()) is policy.cache_records


async def test_only_lexical_candidates_of_a_larger_corpus_are_embedded(tmp_path: Path) -> None:
    write(tmp_path, NOTES | {f"n{n}.md": f"# Plain {n}\n\nNothing of interest here.\n" for n in range(9)})
    async with FakeEndpoint([vectors()], repeat_last=True).serving() as server:
        await ask(tmp_path, ENGLISH, server.url, candidates=3)
        sent = [text for asked in server.asked[1:] for text in asked["input"]]
        assert 0 < len(sent) <= 3
        assert any("boiler" in text for text in sent)
        calls = len(server.asked)
        await ask(tmp_path, ENGLISH, server.url, candidates=3, embed_all=True)
        assert sum(len(asked["input"]) for asked in server.asked[calls + 1 :]) == 13


async def test_without_a_profile_the_strategy_is_named_as_unavailable(tmp_path: Path) -> None:
    outcome = await ask(write(tmp_path, NOTES), ENGLISH)
    assert "embeddings" in warned(outcome, "STRATEGY_UNAVAILABLE")
    assert paths(outcome)[0] == "b.md"


def each(change: Callable[[dict[str, Any]], Any]) -> Callable[[list[dict[str, Any]]], Any]:
    return lambda rows: [{**row, **change(row)} for row in rows]


FAILURES: dict[str, tuple[Step, str]] = {
    "an error": (fails(500), "answered 500"),
    "refused": (fails(401), "answered 401"),
    "silence": (hangs, "time"),
    "reset": (resets, "can't be reached"),
    "no JSON": (raw(b"<html>"), "not JSON"),
    "a list": (raw(b"[]"), "not a JSON object"),
    "endless": (streams(b"[" * 65536, 100), "longer than"),
    "too few": (vectors(lambda rows: rows[1:]), "another number of vectors"),
    "wrong length": (vectors(each(lambda row: {"embedding": [1.0]})), "8 dimensions"),
    "NaN": (vectors(each(lambda row: {"embedding": [float("nan")] * DIMENSIONS})), "no finite number"),
    "a huge number": (vectors(each(lambda row: {"embedding": [10**400] * DIMENSIONS})), "no finite number"),
    "text": (vectors(each(lambda row: {"embedding": ["1"] * DIMENSIONS})), "no finite number"),
    "a place twice": (vectors(each(lambda row: {"index": 0})), "which text"),
    "no rows": (vectors(lambda rows: {"a": 1}), "another number of vectors"),
}


@pytest.mark.parametrize("kind", FAILURES)
async def test_a_failing_endpoint_leaves_the_words_and_a_warning(tmp_path: Path, kind: str) -> None:
    write(tmp_path, NOTES)
    plain = await ask(tmp_path, ENGLISH, strategies=("bm25",))
    step, told = FAILURES[kind]
    # the question gets its vector, the passages get the trouble
    async with FakeEndpoint([vectors(), step], repeat_last=True).serving() as server:
        seconds = 0.3 if kind == "silence" else 30.0
        outcome = await ask(tmp_path, ENGLISH, server.url, total_seconds=seconds)
        if kind in {"an error", "refused"}:
            assert len(server.asked) == (4 if kind == "an error" else 2)  # two retries, or none
    assert told in warned(outcome, "STRATEGY_UNAVAILABLE")
    assert paths(outcome) == paths(plain)
    assert outcome.ranking.strategies == plain.ranking.strategies
    assert outcome.released["payload"]["evidence"] == plain.released["payload"]["evidence"]


async def test_what_words_and_meaning_both_find_first_stays_first(tmp_path: Path) -> None:
    write(tmp_path, NOTES)
    known = "Dlaczego piec hałasuje?"  # the lexicon has the boiler
    assert paths(await ask(tmp_path, known, strategies=("bm25",))) == ["b.md"]
    async with FakeEndpoint([vectors()], repeat_last=True).serving() as server:
        found = (await ask(tmp_path, known, server.url)).ranking.candidates
    assert found[0].ranks == {"bm25": 1, "embeddings": 1}
    assert found[0].score > found[1].score


async def test_a_short_failure_is_retried(tmp_path: Path) -> None:
    write(tmp_path, NOTES)
    steps = [fails(503), fails(429, headers={"retry-after": "0"}), vectors()]
    async with FakeEndpoint(steps, repeat_last=True).serving() as server:
        outcome = await ask(tmp_path, POLISH, server.url)
    assert not warned(outcome, "STRATEGY_UNAVAILABLE")
    assert paths(outcome)[0] == "b.md"


TWINS = {f"{n}.md": f"# Note {n}\n\nThe boiler was checked in week {n}{extra}.\n"
         for n, extra in ((1, ""), (2, ""), (3, ", as wanted"))}  # fmt: skip


async def test_a_reranker_lifts_what_it_prefers_and_is_cached(tmp_path: Path) -> None:
    write(tmp_path / "in", TWINS)
    cache = FileCache(tmp_path / "cache")
    plain = await ask(tmp_path / "in", "boiler checked", strategies=("bm25",))
    assert paths(plain)[0] != "3.md"
    async with FakeEndpoint([scores()], repeat_last=True).serving() as server:
        first = await ask(
            tmp_path / "in", "boiler checked", rerank=server.url, strategies=("bm25",), cache=cache
        )
        assert paths(first)[0] == "3.md"
        assert server.paths == ["/v1/rerank"]
        assert server.asked[0]["query"] == "boiler checked"
        assert server.asked[0]["top_n"] == len(server.asked[0]["documents"]) == 3
        again = await ask(
            tmp_path / "in", "boiler checked", rerank=server.url, strategies=("bm25",), cache=cache
        )
        assert len(server.asked) == 1
    assert payload(first) == payload(again)
    assert sorted(c.score for c in first.ranking.candidates) == sorted(
        c.score for c in plain.ranking.candidates
    )


RERANK_FAILURES: dict[str, tuple[Step, str]] = {
    "an error": (fails(500), "answered 500"),
    "too few": (scores(lambda rows: rows[1:]), "another number of scores"),
    "NaN": (scores(each(lambda row: {"relevance_score": float("nan")})), "no finite number"),
    "none": (scores(each(lambda row: {"relevance_score": None})), "no finite number"),
    "another place": (scores(each(lambda row: {"index": row["index"] + 1})), "which text"),
}


@pytest.mark.parametrize("kind", RERANK_FAILURES)
async def test_a_failing_reranker_leaves_the_rules_and_a_warning(tmp_path: Path, kind: str) -> None:
    write(tmp_path, TWINS)
    plain = await ask(tmp_path, "boiler checked", strategies=("bm25",))
    step, told = RERANK_FAILURES[kind]
    async with FakeEndpoint([step], repeat_last=True).serving() as server:
        outcome = await ask(tmp_path, "boiler checked", rerank=server.url, strategies=("bm25",))
    assert told in warned(outcome, "RERANK_FAILED")
    assert paths(outcome) == paths(plain)


async def test_the_key_is_sent_and_never_told(tmp_path: Path) -> None:
    write(tmp_path, NOTES)
    async with FakeEndpoint([fails(401, "bad key s3cr3t")], repeat_last=True).serving() as server:
        embedder = EndpointEmbedder(profile(server.url, "embeddings"), "s3cr3t")
        request = make_request(
            ENGLISH, [tmp_path], task_params={"retrieval_strategies": ["embeddings", "bm25"]}
        )
        outcome = await compress(request, replace(Environment(), embedder=embedder))
    assert "s3cr3t" not in json.dumps(outcome.released)
