"""`agentloop serve`: listen, answer until SIGTERM or SIGINT, drain, stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

from aiohttp import web

from broker.app import Running, announce, running
from broker.config import Settings
from broker.http import make_app
from broker.http_guard import Guards
from broker.mcp import http_bridge as mcp
from broker.oauth import verifier_of

FIRST_REQUEST_SECONDS = 20.0  # a connection that has sent no whole request head by then is closed
BACKLOG = 1024


def _allow_many_connections() -> None:
    """Raise the soft limit of descriptors to the hard one: a connection is a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or soft < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1 << 20), hard))


def _watched(server: Callable[[], Any], silent: set[Any]) -> Callable[[], Any]:
    """A protocol factory whose connections must speak within `FIRST_REQUEST_SECONDS`."""

    def close_silent(protocol: Any) -> None:
        if protocol in silent:
            silent.discard(protocol)
            if protocol.transport is not None:
                protocol.transport.abort()

    def make() -> Any:
        protocol = server()
        silent.add(protocol)
        asyncio.get_running_loop().call_later(FIRST_REQUEST_SECONDS, close_silent, protocol)
        return protocol

    return make


@contextlib.asynccontextmanager
async def listening(found: Running, settings: Settings) -> AsyncIterator[str]:
    """Serve HTTP while the block lasts; gives the URL, with the real port where 0 was asked for.

    Raises:
        OSError: the address can't be listened on.
    """
    host, port = settings.host_port
    issuer = verifier_of(settings)
    metadata = {} if issuer is None else mcp.metadata_paths(issuer)
    guards = Guards(
        auth=found.auth,
        hosts=frozenset(name.lower() for name in settings.allowed_hosts),
        origins=frozenset(settings.allowed_origins),
        max_body_bytes=settings.max_body_bytes,
        silent=set(),
        challenge="Bearer" if issuer is None else issuer.challenge,
        open_paths=frozenset(metadata),
    )
    app = make_app(found.service, guards)
    mcp.mount(
        app,
        found.service,
        max_body_bytes=settings.max_body_bytes,
        retention_days=settings.retention_days,
    )
    for path, value in metadata.items():
        app.router.add_get(path, mcp.constant(value))
    runner = web.AppRunner(app)
    await runner.setup()
    assert runner.server is not None  # noqa: S101 - setup() made it
    server = await asyncio.get_running_loop().create_server(
        _watched(runner.server, guards.silent), host, port, backlog=BACKLOG
    )
    try:
        bound = server.sockets[0].getsockname()[1]
        yield f"http://{f'[{host}]' if ':' in host else host}:{bound}"
    finally:
        server.close()
        await runner.cleanup()


async def serve(settings: Settings, say: Callable[[str], None]) -> None:
    """Run until told to stop. `say` gets one line with the URL once requests are answered.

    Raises:
        StoreError, BackendUnavailable: see `app.running`. OSError: see `listening`.
    """
    _allow_many_connections()
    os.umask(0o077)  # all that the broker and its workers write is private
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(settings) as found, listening(found, settings) as url:
        announce(settings.home_path, url)
        say(f"agentloop broker listening on {url}")
        await stop.wait()
        # Still answering while it drains: callers learn their jobs' states, submits get 503.
        await found.dispatcher.drain(settings.drain_seconds)
    (settings.home_path / "broker.json").unlink(missing_ok=True)
