"""The SDK's own client on our servers, for both generations of the protocol."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import httpx2
import mcp_types as types
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from pydantic import ConfigDict, Field

MODES: tuple[Literal["legacy", "auto"], ...] = ("legacy", "auto")
VERSIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}


def stdio_client(
    home: Path, roots: Path | None, mode: Any, *args: str, cwd: Path = Path("/"), **options: Any
) -> Client:
    """A client that starts `agentloop mcp` for a home."""
    env = {"PATH": os.environ["PATH"], "BROKER_HOME": str(home)}
    if roots is not None:
        env["BROKER_ALLOWED_ROOTS"] = str(roots)
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "broker.cli", "mcp", *args], env=env, cwd=str(cwd)
    )
    return Client(command, mode=mode, **options)


@contextlib.asynccontextmanager
async def http_client(url: str, token: str, mode: Any, **options: Any) -> AsyncIterator[Client]:
    """A client of a broker's `/mcp`."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode, **options) as client,
    ):
        yield client


def asking(roots: Path, query: str = "how does back_off work?", **more: Any) -> dict[str, Any]:
    """Arguments of rag_compress over a folder."""
    return {"query": query, "input_refs": [{"type": "directory", "uri": str(roots)}], **more}


def text_of(result: types.CallToolResult) -> str:
    """The text part, which is always the only one."""
    (part,) = result.content
    assert isinstance(part, types.TextContent)
    return part.text


class Task(types.Result):
    """A task as the extension has it, of a created one and of `tasks/get`."""

    model_config = ConfigDict(extra="allow")

    result_type: Literal["task"] = Field(default="task", alias="resultType")
    task_id: str = Field(alias="taskId")
    status: str
    ttl_ms: int | None = Field(alias="ttlMs")
    poll_interval_ms: int = Field(alias="pollIntervalMs")


class TaskState(types.Result):
    """The answer of the extension's methods."""

    model_config = ConfigDict(extra="allow")


class TaskRequest(types.Request[dict[str, Any], str]):
    """tasks/get, tasks/update, tasks/cancel."""

    name_param: ClassVar[str | None] = "taskId"


@dataclass
class TasksExtension(ClientExtension):
    """Declares the extension and keeps the tasks that came; a claimed call gets an empty result."""

    identifier: str = "io.modelcontextprotocol/tasks"
    seen: list[Task] = field(default_factory=list)

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Created tasks."""

        async def keep(task: Task, ctx: ClaimContext) -> types.CallToolResult:
            self.seen.append(task)
            return types.CallToolResult(content=[], structured_content={})

        return [ResultClaim(result_type="task", model=Task, resolve=keep)]


async def task_call(client: Client, method: str, task_id: str, **more: Any) -> dict[str, Any]:
    """Call a method of the extension; its answer as plain JSON."""
    request = TaskRequest(method=f"tasks/{method}", params={"taskId": task_id, **more})
    answer = await client.session.send_request(request, TaskState)
    return answer.model_dump(mode="json", by_alias=True)
