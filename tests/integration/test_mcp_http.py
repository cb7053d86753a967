"""`/mcp` of a real broker process, with the SDK's own client and with requests that it would never send."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from mcp.shared.exceptions import MCPError

from broker.auth import create_token
from tests.integration.broker_server import Server, server
from tests.integration.mcp_client import (
    MODES,
    VERSIONS,
    TasksExtension,
    asking,
    http_client,
    task_call,
    text_of,
)

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("mcphttp")) as found:
        yield found


@pytest.fixture(scope="module")
def other(broker: Server) -> str:
    """The token of somebody in another namespace."""
    return create_token(broker.home, "mallory", namespace="elsewhere")


async def post(url: str, token: str | None, body: Any, **headers: str) -> tuple[int, dict[str, str], str]:
    """One raw POST; status, headers, text."""
    given = dict(ACCEPT) | ({"Authorization": f"Bearer {token}"} if token else {}) | headers
    data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/mcp", data=data, headers=given) as answer,
    ):
        return answer.status, {k.lower(): v for k, v in answer.headers.items()}, await answer.text()


@pytest.mark.parametrize("mode", MODES)
async def test_from_question_to_evidence(broker: Server, mode: Any) -> None:
    progress: list[float] = []

    async def heard(percent: float, total: float | None, message: str | None) -> None:
        progress.append(percent)

    async with http_client(broker.url, broker.token, mode) as client:
        assert client.protocol_version == VERSIONS[mode]
        asked = asking(broker.roots, f"how does back_off work? ({mode})")
        result = await client.call_tool("rag_compress", asked, progress_callback=heard)
        assert not result.is_error, text_of(result)
        assert "src/retry.py:1-3" in text_of(result)
        assert progress
        assert progress == sorted(progress)
        refused = await client.call_tool("rag_compress", asking(Path("/etc")))
        assert refused.is_error
        assert "BROKER_ALLOWED_ROOTS" in text_of(refused)
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("rm_rf", {})


async def test_two_clients_at_once_and_each_other_s_jobs_unseen(broker: Server, other: str) -> None:
    async with (
        http_client(broker.url, broker.token, "legacy") as ours,
        http_client(broker.url, other, "auto") as theirs,
    ):
        mine, yours = await asyncio.gather(
            ours.call_tool("rag_compress", asking(broker.roots, "whose parser is this?")),
            theirs.call_tool("rag_compress", asking(broker.roots, "whose parser is that?")),
        )
        for result, client in ((mine, theirs), (yours, ours)):
            assert not result.is_error, text_of(result)
            job_id = result.structured_content["provenance"]["job_id"]
            foreign = await client.call_tool("fetch_result", {"job_id": job_id})
            unknown = await client.call_tool("fetch_result", {"job_id": "job_00000000000000000000000000"})
            assert foreign.structured_content == unknown.structured_content
            assert foreign.structured_content["error"]["code"] == "NOT_FOUND"


async def test_who_goes_away_mid_job_fetches_later(broker: Server) -> None:
    asked = asking(broker.roots, "a question whose client goes away?")
    async with http_client(broker.url, broker.token, "auto") as client:
        with anyio.move_on_after(0.3):
            await client.call_tool("rag_compress", asked)
    async with broker.client() as direct:
        job = (await direct.list())["jobs"][0]
        assert (await direct.wait(job["job_id"], 60))["state"] == "succeeded"
    async with http_client(broker.url, broker.token, "legacy") as client:
        result = await client.call_tool("fetch_result", {"job_id": job["job_id"]})
        assert result.structured_content["payload"]["query"] == asked["query"]


@pytest.mark.req("F7")
@pytest.mark.parametrize("token", [None, "wrong-token-of-some-length", "x"])
async def test_without_a_valid_token_there_is_nothing(broker: Server, token: str | None) -> None:
    status, headers, text = await post(broker.url, token, HELLO)
    assert status == 401
    assert headers["www-authenticate"].startswith("Bearer")
    assert "mcp-session-id" not in headers
    assert "wrong-token" not in text + broker.errors()


@pytest.mark.req("F8")
@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}]
)
async def test_a_foreign_host_or_origin_is_refused(broker: Server, headers: dict[str, str]) -> None:
    status, _, _ = await post(broker.url, broker.token, HELLO, **headers)
    assert status == 403


@pytest.mark.req("F8")
async def test_a_session_is_of_the_one_who_opened_it(broker: Server, other: str) -> None:
    status, headers, _ = await post(broker.url, broker.token, HELLO)
    assert status == 200
    session = {"Mcp-Session-Id": headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    assert (await post(broker.url, other, ping, **session))[0] == 404
    unknown = {**session, "Mcp-Session-Id": "0" * 32}
    assert (await post(broker.url, broker.token, ping, **unknown))[0] == 404
    assert (await post(broker.url, broker.token, ping, **session))[0] == 200


async def test_a_task_is_of_the_one_who_began_it(broker: Server, other: str) -> None:
    extension = TasksExtension()
    async with http_client(broker.url, broker.token, "auto", extensions=[extension]) as client:
        asked = asking(broker.roots, "a task over http?", wait_for_result=False)
        await client.call_tool("rag_compress", asked)
        (task,) = extension.seen
        assert (await task_call(client, "get", task.task_id))["status"] in {"working", "completed"}
        async with http_client(broker.url, other, "auto", extensions=[TasksExtension()]) as theirs:
            for method in ("get", "update", "cancel"):
                with pytest.raises(MCPError) as refused:
                    await task_call(theirs, method, task.task_id)
                assert refused.value.error.code == -32602
        async with broker.client() as direct:
            assert (await direct.wait(task.task_id, 60))["state"] == "succeeded"
        done = await task_call(client, "get", task.task_id)
        assert done["result"]["structuredContent"]["payload"]["query"] == asked["query"]


@pytest.mark.parametrize("mode", MODES)
async def test_tasks_are_for_clients_that_declare_them(broker: Server, mode: Any) -> None:
    async with http_client(broker.url, broker.token, mode) as client:
        with pytest.raises(MCPError) as refused:
            await task_call(client, "get", "job_00000000000000000000000000")
        assert refused.value.error.code == (-32601 if mode == "legacy" else -32021)


async def test_bodies_that_are_no_message(broker: Server) -> None:
    for body in (b"", b"{", b"[]", b"\xff\xfe", b"[" * 50_000, b'{"jsonrpc":"2.0"}'):
        status, _, text = await post(broker.url, broker.token, body)
        assert status == 400, body
        assert "Traceback" not in text
    status, _, _ = await post(broker.url, broker.token, b" " * (5 << 20))
    assert status == 413
    assert (await post(broker.url, broker.token, HELLO))[0] == 200


async def test_the_broker_stops_with_open_streams(tmp_path: Path) -> None:
    with server(tmp_path) as found:
        async with http_client(found.url, found.token, "legacy") as client:
            await client.list_tools()
            process = found.process
            assert process is not None
            process.terminate()
            assert await asyncio.to_thread(process.wait, 30) == 0


async def test_oauth_clients_find_where_to_get_a_token(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text('{"keys": []}')
    resource = "https://broker.example/mcp"
    environ = {
        "BROKER_OAUTH_ISSUER": "https://login.example",
        "BROKER_OAUTH_RESOURCE": resource,
        "BROKER_OAUTH_JWKS_FILE": str(keys),
    }
    with server(tmp_path / "oauth", **environ) as found:
        status, headers, _ = await post(found.url, None, HELLO)
        assert status == 401
        assert "/.well-known/oauth-protected-resource/mcp" in headers["www-authenticate"]
        path = "/.well-known/oauth-protected-resource/mcp"
        async with aiohttp.ClientSession() as session, session.get(f"{found.url}{path}") as answer:
            assert (await answer.json())["resource"] == resource
        assert (await post(found.url, found.token, HELLO))[0] == 200
