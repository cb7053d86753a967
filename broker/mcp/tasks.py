"""The tasks extension (`io.modelcontextprotocol/tasks`): a job of the broker, as a task.

A task is its job: durable before the client hears of it, under an id with 80 random bits, in the namespace of
the caller, who is authorised anew on each call. Served to clients that declare the extension, on 2026-07-28.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from broker.mcp import calls, render
from broker.mcp.contract import TASKS_EXTENSION
from broker.mcp.failure import Failure
from broker.mcp.port import Json, Port
from broker.mcp.render import Answer
from broker.mcp.tools import BY_NAME

Context = ServerRequestContext[Any, Any]
POLL_MS = 1000
AT_ONCE_SECONDS = 1.0  # a result that comes within it (a cache hit) needs no task


class TaskRequest(types.RequestParams):
    """`params` of tasks/get and tasks/cancel."""

    task_id: str = Field(alias="taskId", min_length=1, max_length=64)


class TaskUpdate(TaskRequest):
    """`params` of tasks/update."""

    input_responses: dict[str, Any] = Field(alias="inputResponses", default_factory=dict)


def missing_capability() -> MCPError:
    """The refusal of a client that did not declare the extension on this request."""
    return MCPError(
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        "Missing required client capability",
        {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}},
    )


def no_task(message: str = "Task not found") -> MCPError:
    """The one answer to an id that doesn't exist, has expired or is somebody else's."""
    return MCPError(types.INVALID_PARAMS, message)


async def _silent(percent: float, message: str) -> None:
    """Progress notifications are not part of tasks."""


class Tasks:
    """Creates tasks and answers the extension's methods."""

    def __init__(self, port_of: Callable[[Context], Awaitable[Port]], ttl_ms: int | None) -> None:
        self._port_of = port_of
        self._ttl_ms = ttl_ms

    def declared(self, ctx: Context) -> bool:
        """Whether the client declared the extension on this request."""
        capabilities = ctx.session.client_capabilities
        extensions = (capabilities.extensions if capabilities else None) or {}
        return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and TASKS_EXTENSION in extensions

    def register(self, server: Server[Any]) -> None:
        """Serve the extension's methods."""
        server.add_request_handler("tasks/get", TaskRequest, self.get)
        server.add_request_handler("tasks/update", TaskUpdate, self.update)
        server.add_request_handler("tasks/cancel", TaskRequest, self.cancel)

    async def begin(self, port: Port, name: str, arguments: Mapping[str, Any]) -> Any:
        """Submit a tool's job; its result when that comes at once, else the task.

        Raises:
            Failure: refused, or the job ended at once without a pack.
        """
        handle, waiting = await calls.submit(port, BY_NAME[name], arguments)
        soon = calls.Waiting(waiting.wanted, min(waiting.seconds, AT_ONCE_SECONDS))
        answer = await calls.result_within(port, handle, soon, _silent)
        if "payload" in answer.structured:
            return _wire(answer)
        return {"resultType": "task", **self._task(await port.status(handle["job_id"]))}

    async def get(self, ctx: Context, params: TaskRequest) -> Json:
        """tasks/get: the task as it is now, with its result once it has one."""
        port, record = await self._job(ctx, params.task_id)
        task = self._task(record)
        if task["status"] == "completed":
            try:
                answer = await calls.ended(port, params.task_id)
            except Failure as failure:
                answer = render.failure_answer(failure)
            task["result"] = _wire(answer)
        return {"resultType": "complete", **task}

    async def update(self, ctx: Context, params: TaskUpdate) -> Json:
        """tasks/update: our tasks ask for no input, so responses answer nothing that is outstanding."""
        await self._job(ctx, params.task_id)
        return {"resultType": "complete"}

    async def cancel(self, ctx: Context, params: TaskRequest) -> Json:
        """tasks/cancel: the job is asked to end."""
        port, _ = await self._job(ctx, params.task_id)
        try:
            await port.cancel(params.task_id)
        except Failure as failure:
            raise MCPError(types.INVALID_REQUEST, str(failure)) from None
        return {"resultType": "complete"}

    async def _job(self, ctx: Context, task_id: str) -> tuple[Port, Json]:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        if not self.declared(ctx):
            raise missing_capability()
        port = await self._port_of(ctx)
        try:
            return port, await port.status(task_id)
        except Failure as failure:
            if failure.code == "NOT_FOUND":
                raise no_task() from None
            raise MCPError(types.INTERNAL_ERROR, str(failure)) from None

    def _task(self, record: Json) -> Json:
        state = record["state"]
        status = "working" if state not in calls.TERMINAL else "completed"
        told = f"{record.get('stage') or state} {record.get('percent', 0):g} %"
        return {
            "taskId": record["job_id"],
            "status": "cancelled" if state == "cancelled" else status,
            "statusMessage": told if status == "working" else str(state),
            "createdAt": record["created_at"],
            "lastUpdatedAt": record["updated_at"],
            "ttlMs": self._ttl_ms,
            "pollIntervalMs": POLL_MS,
        }


def _wire(answer: Answer) -> Json:
    """An answer as the plain JSON of a tool result."""
    result: Json = {
        "content": [{"type": "text", "text": answer.text}],
        "structuredContent": answer.structured,
        "isError": answer.is_error,
        "resultType": "complete",
    }
    return result
