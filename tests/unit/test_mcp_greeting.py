"""The first answers of a stdio server are those that the SDK would give, and nothing else is answered."""

from __future__ import annotations

import json
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from broker.mcp.greeting import HANDSHAKE, MOST_LINES, Greeting
from broker.mcp.port import Port
from broker.mcp.server import make_server

CLIENT = {"name": "test", "version": "1"}
ENVELOPE = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": CLIENT,
    }
}


def request(number: int | str, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
    return found if params is None else {**found, "params": params}


def hello(version: str) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": CLIENT}
    return request(0, "initialize", params)


INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


async def by_sdk(messages: list[dict[str, Any]]) -> list[Any]:
    """What the SDK's server answers."""

    async def no_port(ctx: Any) -> Port:
        raise AssertionError("a list needs no broker")

    server = make_server(no_port, None)
    to_server, reading = anyio.create_memory_object_stream[SessionMessage | Exception](10)
    writing, from_server = anyio.create_memory_object_stream[SessionMessage](10)
    answers = []
    async with anyio.create_task_group() as group, to_server, from_server:
        group.start_soon(server.run, reading, writing, server.create_initialization_options())
        for message in messages:
            parsed = types.jsonrpc_message_adapter.validate_json(json.dumps(message), by_name=False)
            await to_server.send(SessionMessage(parsed))
            if "id" in message:
                answer = (await from_server.receive()).message
                answers.append(answer.model_dump(mode="json", by_alias=True, exclude_unset=True))
        await to_server.aclose()
    return answers


def by_us(messages: list[dict[str, Any]]) -> list[Any]:
    """What the greeting answers."""
    greeting = Greeting()
    replies = [greeting.reply(json.dumps(message)) for message in messages]
    assert None not in replies
    return [json.loads(reply) for reply in replies if reply]


@pytest.mark.parametrize("version", [*HANDSHAKE, "2020-01-01"])
async def test_the_handshake_is_the_sdks(version: str) -> None:
    messages = [hello(version), INITIALIZED, request("two", "tools/list"), request(3, "ping")]
    assert by_us(messages) == await by_sdk(messages)


async def test_the_modern_lists_are_the_sdks() -> None:
    messages = [request(1, "server/discover", ENVELOPE), request(2, "tools/list", ENVELOPE)]
    assert by_us(messages) == await by_sdk(messages)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "not json",
        "[" * 100_000,
        "[]",
        json.dumps({"id": 1, "method": "tools/list"}),
        json.dumps(request(1, "tools/list")),
        json.dumps(request(1, "tools/call", {"name": "rag_compress"})),
        json.dumps(request(1, "initialize", {"protocolVersion": 1})),
        json.dumps({**hello("2025-11-25"), "id": None}),
        json.dumps({**hello("2025-11-25"), "id": True}),
        json.dumps({**hello("2025-11-25"), "extra": 1}),
        json.dumps(request(1, "server/discover", {"_meta": {}})),
        json.dumps(request(1, "prompts/list", ENVELOPE)),
    ],
)
def test_what_is_not_in_form_is_left_to_the_sdk(line: str) -> None:
    greeting = Greeting()
    assert greeting.reply(line) is None
    assert not greeting.lines


def test_generations_are_not_mixed() -> None:
    greeting = Greeting()
    assert greeting.reply(json.dumps(hello("2025-11-25")))
    assert greeting.reply(json.dumps(request(1, "tools/list", ENVELOPE))) is None
    modern = Greeting()
    assert modern.reply(json.dumps(request(1, "tools/list", ENVELOPE)))
    assert modern.reply(json.dumps(hello("2025-11-25"))) is None


def test_a_client_that_keeps_asking_gets_the_sdk() -> None:
    greeting = Greeting()
    greeting.reply(json.dumps(hello("2025-11-25")))
    replies = [greeting.reply(json.dumps(request(n, "ping"))) for n in range(1, MOST_LINES + 1)]
    assert replies[-1] is None
    assert len(greeting.lines) == len(greeting.answered) == MOST_LINES
