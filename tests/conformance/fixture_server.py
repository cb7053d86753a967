"""A server with the fixtures that the official conformance suite calls by name, on our own transport code.

`python -m tests.conformance.fixture_server` prints its URL. The guard (Host, Origin), the ASGI bridge and the
session task are those of the broker; only the tools, resources and prompts behind them are the suite's.
"""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import mcp_types as types
from aiohttp import web
from mcp.server import MCPServer
from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from broker.auth import Authenticator
from broker.http_guard import CALLER, GUARDS, HANDLER_ARGS, Guards, guarded
from broker.mcp.http_bridge import Sessions, answer, sdk_user

# one pixel; a sound of no length
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_FORMAT = b"fmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0"
SOUND = base64.b64encode(b"RIFF$\0\0\0WAVE" + _FORMAT + b"data\0\0\0\0").decode()
MAX_BODY = 4 << 20


def embedded(uri: str, text: str, mime_type: str = "text/plain") -> types.EmbeddedResource:
    """A resource inside a result."""
    resource = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return types.EmbeddedResource(type="resource", resource=resource)


def picture() -> types.ImageContent:
    """The pixel."""
    return types.ImageContent(type="image", data=PIXEL, mime_type="image/png")


def add_tools(server: MCPServer) -> None:
    """Tools that give each kind of content, an error, progress."""

    @server.tool()
    def test_simple_text() -> types.CallToolResult:
        """Text."""
        text = types.TextContent(type="text", text="This is a simple text response for testing.")
        return types.CallToolResult(content=[text])

    @server.tool()
    def test_image_content() -> types.CallToolResult:
        """An image."""
        return types.CallToolResult(content=[picture()])

    @server.tool()
    def test_audio_content() -> types.CallToolResult:
        """Sound."""
        sound = types.AudioContent(type="audio", data=SOUND, mime_type="audio/wav")
        return types.CallToolResult(content=[sound])

    @server.tool()
    def test_embedded_resource() -> types.CallToolResult:
        """A resource."""
        found = embedded("test://embedded-resource", "This is an embedded resource content.")
        return types.CallToolResult(content=[found])

    @server.tool()
    def test_multiple_content_types() -> types.CallToolResult:
        """Text, an image and a resource."""
        text = types.TextContent(type="text", text="Multiple content types test:")
        value = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
        return types.CallToolResult(content=[text, picture(), value])

    @server.tool()
    def test_error_handling() -> types.CallToolResult:
        """An error."""
        text = types.TextContent(type="text", text="This tool intentionally returns an error for testing")
        return types.CallToolResult(content=[text], is_error=True)

    @server.tool()
    async def test_tool_with_progress(ctx: Context[Any]) -> types.CallToolResult:
        """Progress in three steps."""
        for percent in (0, 50, 100):
            await ctx.report_progress(percent, 100, f"Completed step {percent} of 100")
            await asyncio.sleep(0.05)
        return types.CallToolResult(content=[types.TextContent(type="text", text="done")])

    @server.tool()
    async def test_missing_capability(ctx: Context[Any]) -> types.CallToolResult:
        """Needs a client that samples."""
        declared = ctx.session.client_capabilities
        if declared is None or declared.sampling is None:
            needed = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(
                types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", needed
            )
        return types.CallToolResult(content=[types.TextContent(type="text", text="done")])


def add_resources(server: MCPServer) -> None:
    """A text, a binary, a template."""

    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """Text."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """The pixel."""
        return base64.b64decode(PIXEL)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:
        """JSON with the id."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def add_prompts(server: MCPServer) -> None:
    """Prompts of each kind of content."""

    @server.prompt()
    def test_simple_prompt() -> list[UserMessage]:
        """Text."""
        return [UserMessage("This is a simple prompt for testing.")]

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
        """Text with both arguments."""
        return [UserMessage(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")]

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
        """A resource, then text."""
        found = embedded(resourceUri, "Embedded resource content for testing.")
        return [UserMessage(found), UserMessage("Please process the embedded resource above.")]

    @server.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        """An image, then text."""
        return [UserMessage(picture()), UserMessage("Please analyze the image above.")]

    @server.completion()
    async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
        """No suggestions."""
        return types.Completion(values=[], total=0, has_more=False)


def make_manager() -> StreamableHTTPSessionManager:
    """The fixtures behind a session manager, as the broker makes its own."""
    server = MCPServer("agentloop-conformance-fixture", version="1")
    add_tools(server)
    add_resources(server)
    add_prompts(server)
    return StreamableHTTPSessionManager(server._lowlevel_server, max_request_body_size=MAX_BODY)


def make_app() -> web.Application:
    """The application: our guard, our bridge."""
    app = web.Application(middlewares=[guarded], client_max_size=MAX_BODY, handler_args=HANDLER_ARGS)
    everybody = Authenticator(Path("none"), enabled=False)
    app[GUARDS] = Guards(everybody, frozenset(), frozenset(), MAX_BODY, set())
    sessions = Sessions(make_manager)

    async def handle(request: web.Request) -> web.StreamResponse:
        manager = await sessions.manager()
        return await answer(manager.handle_request, request, user=sdk_user(request[CALLER]))

    app.router.add_route("*", "/mcp", handle)
    app.on_shutdown.append(sessions.close)
    return app


async def main() -> None:
    """Serve on a free port until ended; the URL is the one line on stdout."""
    runner = web.AppRunner(make_app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    print(f"http://127.0.0.1:{port}/mcp", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
