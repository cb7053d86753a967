"""The MCP server on the official SDK: lists, calls, the prompt, the tasks extension.

One server serves both generations of the protocol: the handshake ones to 2025-11-25, and 2026-07-28.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from agentloop import __version__
from broker.mcp import calls, contract, render, tools
from broker.mcp.failure import Failure
from broker.mcp.port import Port
from broker.mcp.render import Answer
from broker.mcp.tasks import Tasks

log = logging.getLogger("broker.mcp")
Context = ServerRequestContext[Any, Any]
PortOf = Callable[[Context], Awaitable[Port]]
LISTS = CacheHint(ttl_ms=3_600_000, scope="public")  # the same for all callers until the next release


def tool_result(answer: Answer) -> types.CallToolResult:
    """An answer on the wire."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=answer.text)],
        structured_content=answer.structured,
        is_error=answer.is_error,
    )


def make_server(port_of: PortOf, ttl_ms: int | None) -> Server[Any]:
    """A server whose calls go to the port of their caller.

    Args:
        port_of: the port for a request; raises `Failure` when there is none.
        ttl_ms: how long a finished job is kept, None for ever; what tasks say of themselves.
    """
    found = [types.Tool.model_validate(tool) for tool in tools.definitions()]
    schemas = {tool.name: tool.input_schema for tool in found}
    tasks = Tasks(port_of, ttl_ms)

    async def list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=found)

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Any:
        if params.name not in schemas:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:64]}")

        async def progress(percent: float, message: str) -> None:
            await ctx.session.report_progress(percent, 100.0, message)

        arguments = params.arguments or {}
        try:
            port = await port_of(ctx)
            if tasks.declared(ctx) and tools.BY_NAME[params.name].task_type:
                return await tasks.begin(port, params.name, arguments)
            return tool_result(await calls.call(port, params.name, arguments, progress))
        except Failure as failure:
            return tool_result(render.failure_answer(failure))
        except Exception:
            # The boundary of a request: the trace stays here, the agent gets an id to quote.
            error_id = secrets.token_hex(8)
            log.exception("tool call failed", extra={"error_id": error_id, "tool": params.name})
            message = "The broker failed; its log has more under the error id."
            internal = Failure.of("INTERNAL", message, retryable=True, error_id=error_id)
            return tool_result(render.failure_answer(internal))

    server: Server[Any] = Server(
        contract.SERVER_NAME,
        version=__version__,
        instructions=contract.INSTRUCTIONS,
        cache_hints={"server/discover": LISTS, "tools/list": LISTS, "prompts/list": LISTS},
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=_list_prompts,
        on_get_prompt=_get_prompt,
    )
    server.extensions = {contract.TASKS_EXTENSION: {}}
    tasks.register(server)
    return server


async def _list_prompts(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    question = types.PromptArgument(name="question", description="what is to be answered")
    prompt = types.Prompt(
        name=contract.PROMPT_NAME, description=contract.PROMPT_DESCRIPTION, arguments=[question]
    )
    return types.ListPromptsResult(prompts=[prompt])


async def _get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    if params.name != contract.PROMPT_NAME:
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name[:64]}")
    text = contract.prompt_text((params.arguments or {}).get("question"))
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(description=contract.PROMPT_DESCRIPTION, messages=[message])
