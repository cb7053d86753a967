"""The misbehaving endpoint behaves as it says, seen by a plain HTTP client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from tests.fakes import endpoint as fake
from tests.fakes.endpoint import FakeEndpoint, Step


async def post(url: str) -> tuple[int, Any, dict[str, str]]:
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{url}/chat/completions", json={"model": "m"}) as reply,
    ):
        return reply.status, json.loads(await reply.read()), dict(reply.headers)


async def test_steps_are_played_in_order_and_requests_are_kept() -> None:
    steps = [
        fake.says("one", finish="length"),
        fake.search("two"),
        fake.fails(429, headers={"Retry-After": "3"}),
    ]
    async with FakeEndpoint(steps).serving() as server:
        replies = [await post(server.url) for _ in range(4)]
    assert [status for status, _, _ in replies] == [200, 200, 429, 410]
    assert replies[0][1]["choices"][0]["finish_reason"] == "length"
    called = replies[1][1]["choices"][0]["message"]["tool_calls"][0]["function"]
    assert json.loads(called["arguments"]) == {"query": "two"}
    assert replies[2][2]["Retry-After"] == "3"
    assert server.asked == [{"model": "m"}] * 4
    assert set(server.paths) == {"/v1/chat/completions"}


async def test_the_last_step_can_be_repeated() -> None:
    async with FakeEndpoint([fake.says("again", model="x")], repeat_last=True).serving() as server:
        replies = [await post(server.url) for _ in range(3)]
    assert {body["model"] for _, body, _ in replies} == {"x"}


@pytest.mark.parametrize(
    "step", [fake.resets, fake.hangs, fake.trickles(b" ", 0.01)], ids=["reset", "hang", "drip"]
)
async def test_what_never_answers_gives_no_reply(step: Step) -> None:
    async with FakeEndpoint([step], repeat_last=True).serving() as server:
        with pytest.raises((aiohttp.ClientError, TimeoutError)):
            async with asyncio.timeout(0.5):
                await post(server.url)


async def test_a_long_reply_has_its_length() -> None:
    async with (
        FakeEndpoint([fake.streams(b"x" * 1000, 50)]).serving() as server,
        aiohttp.ClientSession() as client,
        client.post(f"{server.url}/x", json={}) as reply,
    ):
        assert len(await reply.read()) == 50_000
