"""What every request passes, in one process: errors that tell nothing, silent connections, log lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from broker.auth import Authenticator
from broker.http_guard import GUARDS, Guards, guarded
from broker.logs import JsonLines
from broker.serve import _watched


def guards() -> Guards:
    return Guards(Authenticator(Path("none"), enabled=False), frozenset(), frozenset(), 1000, set())


@pytest.fixture
async def url(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    async def broken(request: web.Request) -> web.Response:
        raise RuntimeError("canary-secret in an exception")

    async def fine(request: web.Request) -> web.Response:
        return web.json_response({})

    monkeypatch.setattr("broker.serve.FIRST_REQUEST_SECONDS", 0.2)
    app = web.Application(middlewares=[guarded])
    found = app[GUARDS] = guards()
    app.router.add_get("/broken", broken)
    app.router.add_get("/fine", fine)
    runner = web.AppRunner(app)
    await runner.setup()
    assert runner.server is not None
    server = await asyncio.get_running_loop().create_server(
        _watched(runner.server, found.silent), "127.0.0.1", 0
    )
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    await runner.cleanup()


@pytest.mark.req("F9")
async def test_a_failure_tells_its_caller_an_id_and_nothing_else(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "broker")
    async with aiohttp.ClientSession(url) as http, http.get("/broken?token=canary-query") as response:
        assert response.status == 500
        body = await response.json()
    error_id = body["error"]["details"].pop("error_id")
    assert body["error"]["details"] == {}
    assert "canary" not in json.dumps(body)
    lines = [JsonLines().format(record) for record in caplog.records if record.name.startswith("broker")]
    told = [json.loads(line) for line in lines]
    assert any(line.get("error_id") == error_id and "RuntimeError" in line["trace"] for line in told)
    assert all("\n" not in line for line in lines)
    assert "canary-query" not in "".join(lines)


@pytest.mark.req("F6")
async def test_a_connection_that_says_nothing_is_closed_and_a_speaking_one_is_not(url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    silent, writer = await asyncio.open_connection(host, int(port))
    halting, half = await asyncio.open_connection(host, int(port))
    half.write(b"GET /fine HTTP/1.1\r\nHost: 127")
    speaking, speaker = await asyncio.open_connection(host, int(port))
    ask = f"GET /fine HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    speaker.write(ask)
    assert (await speaking.readline()).startswith(b"HTTP/1.1 200")
    for reader in (silent, halting):
        async with asyncio.timeout(10):
            with_reset: Any = await asyncio.gather(reader.read(), return_exceptions=True)
        assert with_reset[0] == b"" or isinstance(with_reset[0], ConnectionError)
    speaker.write(ask)
    async with asyncio.timeout(10):
        await speaking.readuntil(b"HTTP/1.1 200")
    for one in (writer, half, speaker):
        one.close()
        with contextlib.suppress(ConnectionError):
            await one.wait_closed()
