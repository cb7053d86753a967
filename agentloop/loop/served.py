"""A model whose server may go away while a request needs it: another one is found or started then."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack

from agentloop.loop.endpoint import EndpointModel
from agentloop.loop.local_server import Serving
from agentloop.loop.messages import ChatModel, FinalTurn, Message, ModelError, Reply, ToolSpec, Window

Find = Callable[[], AbstractContextManager[Serving]]
Connect = Callable[[Serving], EndpointModel]


class ServedModel:
    """A `ChatModel` over a server that another worker may own.

    Args:
        find: a server, held while the block lasts.
        connect: the client of one.

    Raises:
        AgentloopError: MODEL_UNAVAILABLE, there is none.
    """

    def __init__(self, find: Find, connect: Connect) -> None:
        self._find = find
        self._connect = connect
        self._held = ExitStack()
        self._lock = threading.Lock()
        self._inner = connect(self._held.enter_context(find()))

    @property
    def name(self) -> str:
        """The profile's name."""
        return self._inner.name

    @property
    def window(self) -> Window:
        """The bounds of one call."""
        return self._inner.window

    async def probe(self, timeout: float) -> str:  # noqa: ASYNC109
        """Find the wire form with one request.

        Raises:
            ModelError: as `EndpointModel.probe`.
        """
        return await self._inner.probe(timeout)

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        timeout: float,  # noqa: ASYNC109 - handed to the transport
        final: FinalTurn | None = None,
    ) -> Reply:
        """One call; when nobody answers, one more to the server that is found or started then.

        Raises:
            ModelError: as `ChatModel.complete`.
        """
        inner = self._inner
        try:
            return await inner.complete(messages, tools, timeout=timeout, final=final)
        except ModelError as error:
            if not error.unreachable:
                raise
        async with asyncio.timeout(timeout):
            await asyncio.to_thread(self._renew, inner)
            return await self._inner.complete(messages, tools, timeout=timeout, final=final)

    def _renew(self, gone: ChatModel) -> None:
        with self._lock:
            if self._inner is gone:
                self._held.close()
                self._inner = self._connect(self._held.enter_context(self._find()))

    def close(self) -> None:
        """Let the server go."""
        with self._lock:
            self._held.close()
