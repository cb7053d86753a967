"""Wire forms, context and accounts over the whole pipeline: what an endpoint is sent, what comes of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentloop.api import compress, make_request
from agentloop.errors import AgentloopError
from agentloop.loop.brains import open_model
from agentloop.loop.endpoint import EndpointModel
from agentloop.loop.places import ModelPlaces
from agentloop.pipeline import Environment, Outcome
from tests.fakes import endpoint as fake
from tests.fakes.endpoint import FakeEndpoint
from tests.fakes.model_requests import QUESTION, ask, claims, codes, final, profile, ref_of, write_data


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path)


async def test_a_good_model_leads_with_its_claims(data: Path) -> None:
    ref = await ref_of(data, "net.py")
    good = "connect waits at most 30 seconds for the host."
    outcome, server = await ask(
        data,
        [fake.search("connect timeout"), final((good, [ref]), answer=[(good, [ref])])],
        params={"answer": True},
    )
    first = outcome.released["payload"]["evidence"][0]
    assert (first["kind"], first["claim"], first["source_refs"][0]["path"]) == ("model_claim", good, "net.py")
    assert outcome.released["payload"]["answer"][0]["text"] == good
    assert "MODEL_UNAVAILABLE" not in codes(outcome)
    assert set(server.paths) == {"/v1/chat/completions"}


@pytest.mark.req("E9")
async def test_e9_an_overflow_is_retried_with_less_and_says_what_was_left_out(data: Path) -> None:
    for n in range(12):
        (data / f"long{n}.md").write_text(f"# Part {n}\n\n" + f"connect waits for host {n} again. " * 40)
    overflow = fake.fails(400, "the request exceeds the available context size")
    searches = [fake.search(f"connect host {n}") for n in range(4)]
    outcome, server = await ask(
        data, [*searches, overflow, final()], context_tokens=8192, max_output_tokens=512
    )
    assert "MODEL_UNAVAILABLE" not in codes(outcome)
    first, second = (json.dumps(asked["messages"]) for asked in server.asked[-2:])
    assert len(second) <= len(first)
    assert outcome.loop is not None


@pytest.mark.req("E9")
async def test_e9_prompts_are_fitted_and_a_marker_says_so(data: Path) -> None:
    for n in range(12):
        (data / f"long{n}.md").write_text(f"# Part {n}\n\n" + f"connect waits for host {n} again. " * 40)
    searches = [fake.search(f"connect host {n}") for n in range(5)]
    outcome, server = await ask(data, [*searches, final()], context_tokens=2600, max_output_tokens=256)
    sent = [m["content"] for m in server.asked[-1]["messages"] if m["role"] == "tool"]
    assert any("left out" in content for content in sent)
    assert "left out" not in sent[-1]
    assert outcome.loop is not None
    assert any(turn.get("left_out") for turn in outcome.loop.trace["turns"])


@pytest.mark.req("E10")
async def test_e10_only_flat_schemas_are_sent(data: Path) -> None:
    for wire in ("native", "json"):
        async with FakeEndpoint(
            [fake.says('{"action":"answer","input":"","claims":[]}')], repeat_last=True
        ).serving() as server:
            model = EndpointModel(profile(server.url, wire=wire))
            await compress(
                make_request(QUESTION, [data], task_params={"answer": True}), Environment(model=model)
            )
            sent = [s for asked in server.asked for s in schemas(asked)]
        assert sent
        for schema in sent:
            assert "pattern" not in json.dumps(schema)
            for member in schema["properties"].values():
                inner = member.get("items", member)
                assert inner["type"] in {"string", "integer", "number", "boolean"}
                assert inner.get("maxLength", 0) < 2000


def schemas(asked: dict[str, Any]) -> list[dict[str, Any]]:
    found = [tool["function"]["parameters"] for tool in asked.get("tools", [])]
    if "response_format" in asked:
        found.append(asked["response_format"]["json_schema"]["schema"])
    return found


async def test_native_and_json_with_the_same_decisions_give_the_same_pack(data: Path) -> None:
    ref = await ref_of(data, "net.py")
    stated = "connect waits at most 30 seconds for the host."
    native, _ = await ask(data, [fake.search("connect"), final((stated, [ref]))])
    action = fake.says('{"action": "search_data", "input": "connect"}')
    answer = fake.says(json.dumps({"action": "answer", "input": "", "claims": [f"{stated} [{ref}]"]}))
    flat, server = await ask(data, [action, answer], wire="json")
    assert "tools" not in server.asked[0]
    assert without_provenance(native) == without_provenance(flat)
    assert claims(native)[0] == stated


def without_provenance(outcome: Outcome) -> dict[str, Any]:
    return {key: value for key, value in outcome.released.items() if key != "provenance"}


async def test_calls_tokens_seconds_and_money_are_accounted(data: Path) -> None:
    prices = {"prompt_per_million": 2.0, "completion_per_million": 10.0, "currency": "EUR"}
    outcome, _ = await ask(data, [fake.search("connect"), final()], prices=prices)
    cost = outcome.released["provenance"]["cost"]
    assert (cost["model_calls"], cost["prompt_tokens"], cost["completion_tokens"]) == (2, 20, 10)
    assert cost["micro_eur"] == 20 * 2 + 10 * 10


async def test_a_relay_without_tool_traffic_refuses_agentic_and_serves_the_rest(data: Path) -> None:
    with pytest.raises(AgentloopError, match="relay carries no tool traffic"):
        await ask(data, [], relays_tools=False)
    outcome, server = await ask(data, [], relays_tools=False, params={"mode": "single_shot"})
    assert outcome.released["payload"]["evidence"]
    assert server.asked == []


async def test_auto_probes_once_and_remembers(data: Path, tmp_path: Path) -> None:
    toml = tmp_path / "mine.toml"
    for probe, wire in ((fake.calls(("ping", '{"word": "ready"}')), "native"), (fake.says("ready"), "json")):
        home = tmp_path / wire
        async with FakeEndpoint(
            [probe, fake.says('{"action":"answer","input":"","claims":[]}')], repeat_last=True
        ).serving() as server:
            toml.write_text(f'endpoint = "{server.url}"\nmodel = "m"\n')
            places = ModelPlaces(home)
            for _ in range(2):
                with open_model(str(toml), places) as model:
                    outcome = await compress(make_request(QUESTION, [data]), Environment(model=model))
                    assert isinstance(model, EndpointModel)
                    assert model.wire == wire
                    assert "MODEL_UNAVAILABLE" not in codes(outcome)
        probes = [a for a in server.asked if any(t["function"]["name"] == "ping" for t in a.get("tools", []))]
        assert len(probes) == 1


async def test_cancelling_a_request_leaves_no_task_behind(data: Path) -> None:
    async with FakeEndpoint([fake.hangs], repeat_last=True).serving() as server:
        model = EndpointModel(profile(server.url))
        task = asyncio.create_task(compress(make_request(QUESTION, [data]), Environment(model=model)))
        while not server.asked:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
