"""The broker of this machine, for a stdio server: the one that runs there, or one of our own.

A running broker of the same BROKER_HOME and version is used over its HTTP API. Where none runs, this
process runs one, which listens on a free loopback port so that the next stdio server finds it. When the
broker that was used goes away, the next call finds another, or takes its place: jobs are in the database,
not in a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from agentloop import __version__
from broker.mcp.failure import Failure
from broker.mcp.port import ClientPort, Json, Port, ServicePort

if TYPE_CHECKING:
    from broker.config import Settings

log = logging.getLogger("broker.mcp")
T = TypeVar("T")
STARTING_SECONDS = 15.0  # how long another process that holds the home may take to announce itself
LOOK_AGAIN_SECONDS = 0.1
DRAIN_SECONDS = 1  # a client that has gone waits for nothing; what ran is run again by the next broker


class LocalBroker:
    """Finds, or runs, the broker of one BROKER_HOME. Use as an async context manager."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = asyncio.Lock()
        self._port: Port | None = None
        self._client: contextlib.AsyncExitStack | None = None
        self._own: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def __aenter__(self) -> LocalBroker:
        """Nothing starts before it is needed."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Let go of the broker; end it where it is ours."""
        self._stop.set()
        if self._own is not None:
            await asyncio.gather(self._own, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    async def port(self, lost: Port | None = None) -> Port:
        """A port on the broker, another one than `lost`.

        Raises:
            Failure: NO_BROKER, with what to do.
        """
        async with self._lock:
            if self._port is not None and self._port is not lost:
                return self._port
            if self._client is not None:
                await self._client.aclose()
                self._client = None
            self._port = await self._found()
            return self._port

    async def warm(self) -> None:
        """Have a broker and its workers ready for the first call, which is told of any trouble."""
        with contextlib.suppress(Failure):
            await self.port()

    async def _found(self) -> Port:
        from broker.app import AlreadyRunning
        from broker.backends.base import BackendUnavailable
        from broker.jobs.database import StoreError

        deadline = asyncio.get_running_loop().time() + STARTING_SECONDS
        while True:
            attached = await self._attached()
            if attached is not None:
                return attached
            try:
                return await self._embedded()
            except AlreadyRunning as exc:
                if asyncio.get_running_loop().time() > deadline:
                    raise Failure.of("NO_BROKER", f"It does not answer: {exc}", retryable=True) from exc
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
            except (StoreError, BackendUnavailable, OSError) as exc:
                raise Failure.of("NO_BROKER", f"The broker can't start: {exc}") from exc

    async def _attached(self) -> Port | None:
        """A port on the broker that announced itself, None where none answers.

        Raises:
            Failure: it is of another version.
        """
        from broker.client import BrokerClient, NoBroker, Refused

        home = self._settings.home_path
        stack = contextlib.AsyncExitStack()
        try:
            client = await stack.enter_async_context(BrokerClient.local(home))
            await client.call("GET", "/healthz")
            version = json.loads((home / "broker.json").read_text("utf-8")).get("version")
        except (NoBroker, Refused, OSError, ValueError):
            await stack.aclose()
            return None
        if version != __version__:
            await stack.aclose()
            raise Failure.of(
                "NO_BROKER",
                f"The broker that runs for {home} is version {version}, this is {__version__}: "
                "restart it, or set another BROKER_HOME.",
            )
        self._client = stack
        log.info("attached to the running broker")
        return ClientPort(client)

    async def _embedded(self) -> Port:
        """A broker in this process, in a task of its own that ends with us.

        Raises:
            StoreError, OSError: see `broker.app.running`.
        """
        started: asyncio.Future[Port] = asyncio.get_running_loop().create_future()
        self._own = asyncio.create_task(self._run(started), name="embedded broker")
        return await asyncio.shield(started)  # a caller that gives up leaves the broker to the next one

    async def _run(self, started: asyncio.Future[Port]) -> None:
        from broker.app import announce, running
        from broker.auth import LOCAL
        from broker.serve import listening

        settings = replace(self._settings, listen="127.0.0.1:0", drain_seconds=DRAIN_SECONDS)
        file = settings.home_path / "broker.json"
        try:
            async with running(settings) as found, listening(found, settings) as url:
                announce(settings.home_path, url)
                log.info("running a broker in this process", extra={"url": url})
                started.set_result(ServicePort(found.service, LOCAL))
                await self._stop.wait()
                with contextlib.suppress(OSError):
                    file.unlink()
        except BaseException as exc:
            if started.done():
                raise
            started.set_exception(exc)
            if not isinstance(exc, Exception):
                raise


class LocalPort:
    """A port that survives the loss of its broker: a call that finds it gone is made again elsewhere."""

    def __init__(self, broker: LocalBroker) -> None:
        self._broker = broker

    async def _call(self, act: Callable[[Port], Awaitable[T]]) -> T:
        port = await self._broker.port()
        try:
            return await act(port)
        except Failure as failure:
            if failure.code != "NO_BROKER":
                raise
        return await act(await self._broker.port(lost=port))

    async def submit(self, task_type: str, request: Mapping[str, Any]) -> Json:
        """See `Port`."""
        return await self._call(lambda port: port.submit(task_type, request))

    async def status(self, job_id: str) -> Json:
        """See `Port`."""
        return await self._call(lambda port: port.status(job_id))

    async def events(self, job_id: str) -> AsyncIterator[tuple[str, Json]]:
        """See `Port`; after a loss the events begin anew."""
        port = await self._broker.port()
        while True:
            try:
                async for item in port.events(job_id):
                    yield item
                    if item[0] == "end":
                        return
            except Failure as failure:
                if failure.code != "NO_BROKER":
                    raise
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            port = await self._broker.port(lost=port)

    async def result(self, job_id: str, *, include_artifacts: bool) -> Json:
        """See `Port`."""
        return await self._call(lambda port: port.result(job_id, include_artifacts=include_artifacts))

    async def root(self, root_id: str) -> Json:
        """See `Port`."""
        return await self._call(lambda port: port.root(root_id))

    async def cancel(self, job_id: str) -> Json:
        """See `Port`."""
        return await self._call(lambda port: port.cancel(job_id))

    async def read_evidence(self, asked: Mapping[str, Any]) -> Json:
        """See `Port`."""
        return await self._call(lambda port: port.read_evidence(asked))

    async def capabilities(self) -> Json:
        """See `Port`."""
        return await self._call(lambda port: port.capabilities())
