"""The SDK's server on the streams of `stdio`: what was greeted is played again, and answered once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from broker.mcp.reader import Reader, send
from broker.mcp.tools import MOST_WAIT

if TYPE_CHECKING:
    from broker.config import Settings
    from broker.mcp.port import Port

log = logging.getLogger("broker.mcp")
DAY_MS = 86_400_000


class Pending:
    """Requests that have had no answer. The SDK drops them when its input ends; a client that closed its end
    and still reads (`agentloop mcp < requests`) is owed them."""

    def __init__(self) -> None:
        self._open: set[str | int] = set()
        self._changed = asyncio.Event()

    def came(self, line: str) -> None:
        """Note a line of the client: a request begins, a cancelled one gets no answer."""
        try:
            message = json.loads(line)
            method, number = message.get("method"), message.get("id")
            if isinstance(method, str) and isinstance(number, str | int):
                self._open.add(number)
            elif method == "notifications/cancelled":
                self.went(message["params"]["requestId"])
        except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
            return  # not in form: the SDK answers it, or doesn't

    def went(self, number: Any) -> None:
        """Note an answer."""
        self._open.discard(number)
        self._changed.set()

    async def none_left(self) -> None:
        """Wait until all have their answer, for as long as a call may take."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MOST_WAIT + 5):
                while self._open:
                    self._changed.clear()
                    await self._changed.wait()


def refusal(line: str) -> str:
    """The JSON-RPC error that a line gets which is no message; empty where it is one. The SDK drops them.

    An id that can be told is given back, as JSON-RPC 2.0 asks; else it is null.
    """
    import mcp_types as types
    from pydantic import ValidationError

    number: Any = None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as exc:
        at = f" at character {exc.pos}" if isinstance(exc, json.JSONDecodeError) else ""
        error = {"code": types.PARSE_ERROR, "message": f"Parse error: the line is not JSON{at}."}
    else:
        try:
            types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            what = (
                "one object a line, with jsonrpc 2.0, an id (a string or a whole number), method and params"
            )
            error = {"code": types.INVALID_REQUEST, "message": f"Invalid request: send {what}."}
            given = found.get("id") if isinstance(found, dict) else None
            number = given if isinstance(given, str | int) and not isinstance(given, bool) else None
        else:
            return ""
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": error})


class Input:
    """The client's lines for the SDK, also those that were greeted. Ends when the client closes.

    What is no message is refused here, by `refuse`.
    """

    def __init__(self, reader: Reader, pending: Pending, refuse: Callable[[str], Awaitable[None]]) -> None:
        self._pending = pending
        self._refuse = refuse
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        reader.rest(lambda line: loop.call_soon_threadsafe(self._lines.put_nowait, line))

    async def __aiter__(self) -> AsyncIterator[str]:
        """The lines."""
        while (line := await self._lines.get()) is not None:
            if not line.strip():
                continue
            if wrong := refusal(line):
                await self._refuse(wrong)
                continue
            self._pending.came(line)
            yield line
        await self._pending.none_left()


class Output:
    """Messages of the SDK to the wire, but for its answers to what was greeted already."""

    def __init__(
        self, sink: int, answered: set[str | int], pending: Pending, gone: Callable[[], object]
    ) -> None:
        self._sink = sink
        self._pending = pending
        self._answered = answered
        self._gone = gone

    async def write(self, text: str) -> None:
        """Send one message, or drop it."""
        message = json.loads(text)
        number = None if "method" in message else message.get("id")
        if number not in self._answered:
            await self.send(text)
        self._answered.discard(number)
        self._pending.went(number)

    async def send(self, text: str) -> None:
        """Send one message."""
        try:
            await asyncio.to_thread(send, self._sink, text.rstrip("\n"))
        except BrokenPipeError:
            self._gone()

    async def flush(self) -> None:
        """Nothing is held back."""


def serve_rest(load: Callable[[], Settings], reader: Reader, sink: int) -> None:
    """Serve to the end of the input.

    Args:
        load: reads the settings.
        reader: the lines, and which of them have their answer.
    """
    asyncio.run(_serve(load, reader, sink))


async def _serve(load: Callable[[], Settings], reader: Reader, sink: int) -> None:
    from mcp.server.stdio import stdio_server

    from broker.logs import set_up
    from broker.mcp.attach import LocalBroker, LocalPort
    from broker.mcp.failure import Failure
    from broker.mcp.server import make_server
    from broker.values import SettingsError

    set_up("warning")
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - asyncio.run made it
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        settings, wrong = load(), ""
    except SettingsError as exc:
        settings, wrong = None, str(exc)
        log.error("a setting can't be used: %s", exc)

    async def port_of(ctx: Any) -> Port:
        if settings is None:
            raise Failure.of("NO_BROKER", f"A setting can't be used: {wrong}")
        return LocalPort(broker)

    days = settings.retention_days if settings is not None else 0
    with contextlib.suppress(asyncio.CancelledError):
        async with contextlib.AsyncExitStack() as stack:
            if settings is not None:
                broker = await stack.enter_async_context(LocalBroker(settings))
                await stack.enter_async_context(_beside(broker.warm()))
            server = make_server(port_of, days * DAY_MS or None)
            pending = Pending()
            output = Output(sink, reader.greeting.answered, pending, task.cancel)
            wire: Any = Input(reader, pending, output.send), output
            async with stdio_server(*wire) as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` in a task that ends with the block."""
    task = asyncio.create_task(work, name="mcp warm")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
