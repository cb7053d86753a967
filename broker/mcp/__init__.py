"""MCP: the broker's tools for agents, over stdio and streamable HTTP.

`tools` defines them, `greeting` answers what needs no SDK, `calls` carries a call out on a `port`, `render`
shapes what goes back, `server` puts it on the SDK, `stdio` and `http_bridge` on a wire.
"""
