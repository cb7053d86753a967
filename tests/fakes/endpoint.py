"""An OpenAI-compatible endpoint that misbehaves on request: a real aiohttp server on a loopback port.

A test gives it steps, one a request; the last one is repeated when `repeat_last` is set. A request beyond
the script is answered 410, so that a loop which asks too often shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web

Step = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


def completion(
    message: dict[str, Any], *, finish: str = "stop", model: str = "fake", usage: tuple[int, int] = (10, 5)
) -> dict[str, Any]:
    """The body of a chat completion."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
        },
    }


def body(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Step:
    """Answer with a JSON value."""

    async def step(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(value, status=status, headers=headers)

    return step


def says(text: str | None, **more: Any) -> Step:
    """Answer with a text; `more` are arguments of `completion`, or members of the message."""
    known = {key: more.pop(key) for key in ("finish", "model", "usage") if key in more}
    return body(completion({"content": text, **more}, **known))


def calls(*made: tuple[str, str], text: str | None = None, finish: str = "tool_calls") -> Step:
    """Answer with tool calls: pairs of a name and the raw text of its arguments."""
    tool_calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(made)
    ]
    return body(completion({"content": text, "tool_calls": tool_calls}, finish=finish))


def search(query: str) -> Step:
    """Answer with one good search."""
    return calls(("search_data", json.dumps({"query": query})))


def fails(status: int, message: str = "no", headers: dict[str, str] | None = None) -> Step:
    """Answer with an HTTP error."""
    return body({"error": {"message": message, "type": "error"}}, status=status, headers=headers)


def raw(content: bytes, headers: dict[str, str] | None = None) -> Step:
    """Answer 200 with these bytes, whatever they are."""

    async def step(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        return web.Response(body=content, headers={"content-type": "application/json", **(headers or {})})

    return step


async def resets(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
    """Close the connection without a reply."""
    assert request.transport is not None
    request.transport.abort()
    raise asyncio.CancelledError


def trickles(part: bytes, seconds: float) -> Step:
    """Answer 200 and then send `part` again and again, with a pause between, until the client leaves."""

    async def step(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while True:
                await response.write(part)
                await asyncio.sleep(seconds)
        return response

    return step


def streams(part: bytes, count: int) -> Step:
    """Answer 200 with `part` so many times, not held in one piece."""

    async def step(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            for _ in range(count):
                await response.write(part)
            await response.write_eof()
        return response

    return step


async def hangs(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
    """Never answer: wait until the client leaves."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


class FakeEndpoint:
    """The server. `asked` holds the decoded body of each request, in order."""

    def __init__(self, steps: Sequence[Step], *, repeat_last: bool = False) -> None:
        self._steps = list(steps)
        self._repeat = repeat_last
        self.asked: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.url = ""

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        asked = json.loads(await request.read())
        self.asked.append(asked)
        number = len(self.asked) - 1
        if number >= len(self._steps):
            if not self._repeat:
                return web.json_response({"error": {"message": "the script has ended"}}, status=410)
            number = len(self._steps) - 1
        return await self._steps[number](request, asked)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[FakeEndpoint]:
        """Serve while the block runs."""
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/v1"
        try:
            yield self
        finally:
            await runner.cleanup()
