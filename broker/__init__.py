"""The service around the engine: jobs, policy, caches, HTTP and MCP."""
