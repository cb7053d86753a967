"""The loop: limits, refusals, repeats, malformed calls, the tools-free turn, retries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from agentloop.loop.limits import Limits
from agentloop.loop.loop import Outcome, run
from agentloop.loop.messages import FinalTurn, Message, ModelError, Reply, ToolCall, Usage
from agentloop.loop.scripted import ScriptedModel, ScriptExhausted, Step
from agentloop.loop.tools import Toolbox
from agentloop.searcher import Passage, ReadResult, SearchResult

START = (Message("system", "rules"), Message("user", "Question: where?"))
FINAL = FinalTurn("Write the final reply.", {"type": "object", "properties": {}})


class HeldClock:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.at = 0.0

    def monotonic(self) -> float:
        return self.at

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


class Shelf:
    """A searcher over three passages."""

    def __init__(self) -> None:
        self.queries: list[str] = []

    def search(self, query: str) -> SearchResult:
        self.queries.append(query)
        passages = [Passage(f"c{n}", "", "a.txt", n, n, 1.0 / n, f"line {n} {query}") for n in (1, 2)]
        return SearchResult([] if "nothing" in query else passages, "stemmed" if "near" in query else "")

    def read(self, ref: str) -> ReadResult:
        if ref != "c1":
            raise KeyError(ref)
        return ReadResult("c1", "in1", "a.txt", 1, 3, "one\ntwo\nthree", True, "", "c2")


def call(tool: str, arguments: str) -> ToolCall:
    return ToolCall("x", tool, arguments)


def searches(*queries: str) -> Reply:
    return Reply(tool_calls=tuple(call("search_data", json.dumps({"query": q})) for q in queries))


async def play(
    steps: Sequence[Step], *, limits: Limits | None = None, final: FinalTurn | None = None
) -> tuple[Outcome, ScriptedModel, Shelf, list[float]]:
    model, shelf, slept = ScriptedModel(steps), Shelf(), []
    clock = HeldClock()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.at += seconds

    outcome = await run(model, Toolbox(shelf), START, limits or Limits(), clock, final=final, sleep=sleep)
    return outcome, model, shelf, slept


async def test_a_text_without_calls_is_the_answer() -> None:
    outcome, model, _, _ = await play([searches("a"), Reply("It is here.")])
    assert (outcome.text, outcome.stop_reason) == ("It is here.", "answered")
    assert (outcome.tool_calls, outcome.turns, outcome.failure) == (1, 2, "")
    assert model.left == 0


async def test_each_call_of_a_turn_counts_and_the_rest_is_refused_inline() -> None:
    outcome, model, shelf, _ = await play(
        [searches("a", "b", "c"), Reply("done")], limits=Limits(max_tool_calls=2), final=FINAL
    )
    assert shelf.queries == ["a", "b"]
    assert (outcome.tool_calls, outcome.refused, outcome.stop_reason) == (2, 1, "max_tool_calls")
    results = [json.loads(m.content) for m in model.asked[1].messages if m.role == "tool"]
    assert [r["calls_left"] for r in results] == [1, 0, 0]
    assert "budget" in results[2]["error"]


async def test_the_last_turn_offers_no_tools_and_only_its_text_is_the_answer() -> None:
    narrated = Reply("Let me look.", searches("a").tool_calls)
    outcome, model, _, _ = await play(
        [narrated, Reply("The answer.", searches("b").tool_calls)],
        limits=Limits(max_tool_calls=1),
        final=FINAL,
    )
    assert outcome.text == "The answer."
    assert model.asked[1].tools == ()
    assert model.asked[1].messages[-1].content == FINAL.instruction
    assert outcome.tool_calls == 1  # the calls of a reply to a request without tools are ignored


async def test_zero_calls_means_one_turn_without_tools() -> None:
    outcome, model, shelf, _ = await play([Reply("By heart.")], limits=Limits(max_tool_calls=0))
    assert (outcome.text, outcome.turns, shelf.queries) == ("By heart.", 1, [])
    assert model.asked[0].tools == ()


@pytest.mark.req("E2")
async def test_a_repeated_call_is_refused_and_counted() -> None:
    same = [searches("same"), searches("  same ")]
    outcome, model, shelf, _ = await play(
        [*same, *same, Reply("enough")], limits=Limits(max_tool_calls=4), final=FINAL
    )
    assert shelf.queries == ["same"]
    assert (outcome.tool_calls, outcome.stop_reason, outcome.text) == (4, "max_tool_calls", "enough")
    assert "before" in json.loads(model.asked[2].messages[-1].content)["error"]


@pytest.mark.req("E1")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search_data", "{not json"),
        ("search_data", '{"query": 5}'),
        ("search_data", '{"query": "  "}'),
        ("search_data", '["a"]'),
        ("search_data", '{"query": "a", "path": "/etc"}'),
        ("search_data", "[" * 100_000),
        ("delete_data", '{"query": "a"}'),
        ("", ""),
    ],
)
async def test_a_malformed_call_is_told_and_history_stays_json(name: str, arguments: str) -> None:
    bad = Reply(tool_calls=(call(name, arguments),))
    outcome, model, shelf, _ = await play([bad, Reply("ok")])
    assert (outcome.text, outcome.tool_calls, shelf.queries) == ("ok", 1, [])
    sent = model.asked[1].messages
    asked = next(m for m in sent if m.tool_calls)
    assert all(isinstance(json.loads(c.arguments), dict) for c in asked.tool_calls)
    assert {c.id for c in asked.tool_calls} == {m.tool_call_id for m in sent if m.role == "tool"}
    assert "error" in json.loads(sent[-1].content)


@pytest.mark.req("E1")
async def test_three_malformed_turns_in_a_row_end_the_loop() -> None:
    bad = Reply(tool_calls=(call("search_data", "{"),))
    outcome, model, _, _ = await play([bad, bad, searches("good"), bad, bad, bad], limits=Limits(20))
    assert (outcome.text, outcome.stop_reason, model.left) == ("", "format_errors", 0)
    assert outcome.failure


@pytest.mark.req("E1")
async def test_a_hundred_calls_at_once_stay_within_the_budget() -> None:
    outcome, model, shelf, _ = await play([searches(*map(str, range(100))), Reply("ok")], final=FINAL)
    assert len(shelf.queries) == outcome.tool_calls == 6
    assert outcome.refused == 94
    sent = model.asked[1].messages
    asked = next(m for m in sent if m.tool_calls)
    assert [c.id for c in asked.tool_calls] == [m.tool_call_id for m in sent if m.role == "tool"]


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    "empty",
    [Reply(""), Reply("  \n"), Reply("", reasoning="hm"), Reply("half", finish_reason="length")],
)
async def test_a_reply_without_an_answer_is_retried_twice_at_most(empty: Reply) -> None:
    outcome, _, _, slept = await play([empty, empty, Reply("third")])
    assert (outcome.text, outcome.retries, len(slept)) == ("third", 2, 2)
    outcome, model, _, _ = await play([empty] * 3)
    assert (outcome.text, outcome.stop_reason, model.left) == ("", "model_unavailable", 0)


@pytest.mark.req("E3")
async def test_narration_leads_to_the_last_turn_and_is_never_the_answer() -> None:
    model, shelf = ScriptedModel([Reply("I will look."), Reply("I looked."), Reply("{}")]), Shelf()

    async def sleep(seconds: float) -> None: ...

    outcome = await run(
        model,
        Toolbox(shelf),
        START,
        Limits(),
        HeldClock(),
        final=FINAL,
        accepts=lambda text: text == "{}",
        sleep=sleep,
    )
    assert (outcome.text, outcome.turns) == ("{}", 2)
    assert [a.tools == () for a in model.asked] == [False, True, True]


@pytest.mark.req("E5")
async def test_a_failed_call_is_retried_alone_and_the_loop_is_not_replayed() -> None:
    busy = ModelError("429", retryable=True, retry_after=86_400)
    outcome, model, shelf, slept = await play([searches("a"), busy, searches("b"), Reply("ok")])
    assert outcome.text == "ok"
    assert shelf.queries == ["a", "b"]
    assert slept == [Limits().max_backoff_seconds]
    assert model.asked[1].messages == model.asked[2].messages


@pytest.mark.req("E5")
async def test_back_off_stays_inside_the_deadline() -> None:
    busy = ModelError("429", retryable=True, retry_after=60)
    outcome, model, _, slept = await play([busy], limits=Limits(seconds=4))
    assert (outcome.stop_reason, slept, model.left) == ("model_unavailable", [], 0)


async def test_an_error_that_can_not_pass_is_not_retried() -> None:
    outcome, _, _, slept = await play([searches("a"), ModelError("401")])
    assert (outcome.failure, slept, outcome.tool_calls) == ("401", [], 1)


async def test_time_that_runs_out_forces_the_last_turn() -> None:
    model, clock = ScriptedModel([searches("a"), Reply("in time")]), HeldClock()

    class Slow(Shelf):
        def search(self, query: str) -> SearchResult:
            clock.at += 80
            return super().search(query)

    outcome = await run(model, Toolbox(Slow()), START, Limits(seconds=100), clock, final=FINAL)
    assert (outcome.text, outcome.stop_reason, model.asked[1].tools) == ("in time", "time", ())


async def test_a_deadline_that_has_passed_asks_nothing() -> None:
    outcome, model, _, _ = await play([], limits=Limits(seconds=0))
    assert (outcome.stop_reason, outcome.turns, model.asked) == ("deadline", 0, [])


async def test_turns_are_bounded() -> None:
    outcome, _, _, _ = await play(
        [searches("a"), searches("b"), Reply("ok")], limits=Limits(max_turns=2), final=FINAL
    )
    assert (outcome.stop_reason, outcome.text) == ("max_turns", "ok")


async def test_usage_is_the_sum_of_all_calls_also_of_those_that_failed() -> None:
    used = Usage(10, 2)
    empty = Reply("", usage=used)
    outcome, _, _, _ = await play([empty, Reply("ok", usage=used)])
    assert outcome.usage == Usage(20, 4)


async def test_the_trace_shows_every_call_and_no_time() -> None:
    steps = [
        searches("a", "nothing"),
        Reply(tool_calls=(call("read_data", '{"ref": "c1"}'), call("read_data", '{"ref": "c9"}'))),
        Reply("ok"),
    ]
    outcome, _, _, _ = await play(steps)
    again, _, _, _ = await play(steps)
    assert outcome.trace == again.trace
    logged = [
        (c["tool"], c["argument"], c["status"]) for turn in outcome.trace for c in turn.get("calls", [])
    ]
    assert logged == [
        ("search_data", "a", "ok"),
        ("search_data", "nothing", "ok"),
        ("read_data", "c1", "ok"),
        ("read_data", "c9", "failed"),
    ]


async def test_a_script_that_runs_out_is_an_error_of_the_test() -> None:
    with pytest.raises(ScriptExhausted):
        await play([searches("a")])
