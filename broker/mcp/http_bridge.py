"""`/mcp` on the broker's own HTTP server: streamable HTTP of the SDK, an ASGI application, under aiohttp.

Host, Origin and token were checked by `http_guard` before a request comes here; the caller goes along in the
ASGI scope. The SDK binds each session to it, and every call goes to the service as that caller. The SDK is
imported and its session manager started by the first request: a broker that serves no agent pays nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from aiohttp import web

from broker.auth import Principal
from broker.http_guard import CALLER
from broker.oauth import METADATA_PATH, JwtVerifier

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from broker.mcp.port import Port
    from broker.service import Service

Message = MutableMapping[str, Any]
Application = Callable[
    [dict[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]
EVENT_STREAM = b"text/event-stream"
CALLER_KEY = "agentloop.caller"
LOOK_SECONDS = 0.5  # between two looks whether a client that waits is still there
DROPPED_HEADERS = frozenset({"authorization", "cookie"})  # checked before; nothing behind has use for them
MAX_SESSIONS = 1000
DAY_MS = 86_400_000


class Exchange:
    """One aiohttp request as ASGI's `receive` and `send`."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self._request = request
        self._body: bytes | None = body
        self._response: web.StreamResponse | None = None
        self._start: Message = {}

    async def receive(self) -> Message:
        """The body, then, once the client is gone, that it is."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        while self._request.transport is not None and not self._request.transport.is_closing():  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)  # aiohttp has no event for it
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """A part of the response; a stream begins with the first part that isn't the last."""
        if message["type"] == "http.response.start":
            self._start = message
            if any(k == b"content-type" and v.startswith(EVENT_STREAM) for k, v in message["headers"]):
                await self._begin()  # at once: its first event may be long in coming
            return
        data, more = message.get("body", b""), message.get("more_body", False)
        if self._response is None and not more:
            self._response = web.Response(body=data, status=self._start["status"], headers=self._headers())
            return
        if self._response is None:
            await self._begin()
        assert self._response is not None  # noqa: S101 - _begin() made it
        with contextlib.suppress(ConnectionResetError):  # `receive` tells the application
            if data:
                await self._response.write(data)
            if not more:
                await self._response.write_eof()

    async def _begin(self) -> None:
        self._response = web.StreamResponse(status=self._start["status"], headers=self._headers())
        await self._response.prepare(self._request)

    def _headers(self) -> list[tuple[str, str]]:
        """The response's headers, but for those of the connection, which is aiohttp's."""
        pairs = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in self._start.get("headers", ())]
        return [(k, v) for k, v in pairs if k.lower() not in {"content-length", "connection"}]

    @property
    def response(self) -> web.StreamResponse:
        """What came of it; an application that sent nothing had no client left."""
        return self._response if self._response is not None else web.Response(status=499)


def scope_of(request: web.Request, **more: Any) -> dict[str, Any]:
    """The ASGI scope of a request."""
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    headers = [
        (k.lower().encode("latin-1"), v.encode("latin-1", "replace"))
        for k, v in request.headers.items()
        if k.lower() not in DROPPED_HEADERS
    ]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": f"{request.version.major}.{request.version.minor}",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.raw_path.partition("?")[0].encode("ascii", "replace"),
        "root_path": "",
        "query_string": request.query_string.encode("ascii", "replace"),
        "headers": headers,
        "client": tuple(peer[:2]) if peer else None,
        "server": None,
        "state": {},
        **more,
    }


async def answer(application: Application, request: web.Request, **more: Any) -> web.StreamResponse:
    """Have an ASGI application answer a request."""
    exchange = Exchange(request, await request.read())
    await application(scope_of(request, **more), exchange.receive, exchange.send)
    return exchange.response


class Sessions:
    """Runs an SDK session manager in a task of its own, from the first request to the server's end."""

    def __init__(self, make: Callable[[], StreamableHTTPSessionManager]) -> None:
        self._make = make
        self._lock = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def manager(self) -> StreamableHTTPSessionManager:
        """The manager, started."""
        async with self._lock:
            if self._manager is None:
                self._manager = await asyncio.to_thread(self._make)
                started = asyncio.Event()
                self._task = asyncio.create_task(self._run(self._manager, started), name="mcp sessions")
                await started.wait()
            return self._manager

    async def _run(self, manager: StreamableHTTPSessionManager, started: asyncio.Event) -> None:
        async with manager.run():
            started.set()
            await self._stop.wait()

    async def close(self, app: web.Application) -> None:
        """End all sessions and their streams."""
        self._stop.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)


def mount(app: web.Application, service: Service, *, max_body_bytes: int, retention_days: int) -> None:
    """Serve the tools at `/mcp`."""

    def make() -> StreamableHTTPSessionManager:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from broker.mcp.port import ServicePort
        from broker.mcp.server import make_server

        async def port_of(ctx: Any) -> Port:
            return ServicePort(service, ctx.request.scope[CALLER_KEY])

        return StreamableHTTPSessionManager(
            make_server(port_of, retention_days * DAY_MS or None),
            max_request_body_size=max_body_bytes,
            max_sessions=MAX_SESSIONS,
        )

    sessions = Sessions(make)

    async def handle(request: web.Request) -> web.StreamResponse:
        manager = await sessions.manager()
        caller = request[CALLER]
        return await answer(manager.handle_request, request, user=sdk_user(caller), **{CALLER_KEY: caller})

    app.router.add_route("*", "/mcp", handle)
    app.on_shutdown.append(sessions.close)


def sdk_user(caller: Principal) -> Any:
    """A caller as the SDK compares it with the one that opened a session. The token stays out."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    name = f"{caller.namespace}/{caller.name}"
    return AuthenticatedUser(AccessToken(token="", client_id=name, scopes=[], subject=caller.name))


def metadata_paths(issuer: JwtVerifier) -> dict[str, dict[str, Any]]:
    """Where RFC 9728 has clients look for this resource's metadata, and what they find."""
    path = urlsplit(issuer.audience).path.rstrip("/")
    return {METADATA_PATH: issuer.metadata, f"{METADATA_PATH}{path}": issuer.metadata}


def constant(value: dict[str, Any]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A handler that always answers the same JSON."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.json_response(value)

    return handle
