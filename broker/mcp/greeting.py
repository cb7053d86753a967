"""The first answers of a stdio server, before the SDK is imported.

The SDK and what it stands on take about a second to import on a slow machine, and clients give up on
servers that are slow to start. What a client asks first (`initialize`, `server/discover`, `ping`,
`tools/list`) has answers that never change, so they are given from here; the lines are kept and played to
the SDK's server later, whose own answers to them are dropped. Anything that is not exactly in form is left
to the SDK. Tests compare both answers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from agentloop import __version__
from broker.mcp import contract, tools

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
MOST_LINES = 16  # greeted; a client that asks for more than that is at work, and gets the SDK
LISTS_TTL_MS = 3_600_000

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
_KEYS = frozenset({"jsonrpc", "id", "method", "params"})
_LISTS = {"prompts": {"listChanged": False}, "tools": {"listChanged": False}}
_SELF = {"name": contract.SERVER_NAME, "version": __version__}


@dataclass(slots=True)
class Greeting:
    """What was said so far on a connection that only greeted. `lines` are to be played to the SDK."""

    lines: list[str] = field(default_factory=list)
    answered: set[str | int] = field(default_factory=set)
    _era: str = ""

    def reply(self, line: str) -> str | None:
        """The reply to a line, empty where none is due; None: not for us, nor is anything after it."""
        message = _message(line)
        if message is None or len(self.lines) >= MOST_LINES:
            return None
        if message.get("method") == "notifications/initialized" and "id" not in message:
            self.lines.append(line)
            return ""
        number = message.get("id")
        if isinstance(number, bool) or not isinstance(number, str | int) or set(message) - _KEYS:
            return None
        result = self._result(message.get("method"), message.get("params"))
        if result is None:
            return None
        self.lines.append(line)
        self.answered.add(number)
        return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}, separators=(",", ":"))

    def _result(self, method: Any, params: Any) -> dict[str, Any] | None:
        if not self._era:
            if method == "initialize":
                result = _initialized(params)
                self._era = "handshake" if result else ""
                return result
            if method not in ("server/discover", "tools/list") or not _enveloped(params):
                return None
            self._era = "modern"
        if self._era == "handshake":
            if method == "tools/list" and params in (None, {}):
                return {"tools": tools.definitions()}
            return {} if method == "ping" and params in (None, {}) else None
        if not _enveloped(params):
            return None
        return _modern(method)


def _message(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("jsonrpc") == "2.0" else None


def _initialized(params: Any) -> dict[str, Any] | None:
    """The answer to `initialize`, with the version that is asked for where it is known."""
    if not isinstance(params, dict) or "_meta" in params:
        return None
    asked, client = params.get("protocolVersion"), params.get("clientInfo")
    if not (isinstance(asked, str) and isinstance(params.get("capabilities"), dict) and _named(client)):
        return None
    return {
        "protocolVersion": asked if asked in HANDSHAKE else HANDSHAKE[-1],
        "capabilities": _LISTS,
        "serverInfo": _SELF,
        "instructions": contract.INSTRUCTIONS,
    }


def _modern(method: Any) -> dict[str, Any] | None:
    common = {
        "resultType": "complete",
        "ttlMs": LISTS_TTL_MS,
        "cacheScope": "public",
        "_meta": {_SERVER_KEY: _SELF},
    }
    if method == "tools/list":
        return {**common, "tools": tools.definitions()}
    if method != "server/discover":
        return None
    return {
        **common,
        "supportedVersions": [MODERN],
        "capabilities": {**_LISTS, "extensions": {contract.TASKS_EXTENSION: {}}},
        "instructions": contract.INSTRUCTIONS,
    }


def _named(client: Any) -> bool:
    return (
        isinstance(client, dict)
        and isinstance(client.get("name"), str)
        and isinstance(client.get("version"), str)
        and set(client) <= {"name", "version"}
    )


def _enveloped(params: Any) -> bool:
    """Whether params are exactly the envelope of a modern request."""
    if not isinstance(params, dict) or set(params) != {"_meta"} or not isinstance(params["_meta"], dict):
        return False
    meta = params["_meta"]
    return (
        meta.get(_VERSION_KEY) == MODERN
        and isinstance(meta.get(_CAPABILITIES_KEY), dict)
        and (_CLIENT_KEY not in meta or _named(meta[_CLIENT_KEY]))
        and set(meta) <= {_VERSION_KEY, _CAPABILITIES_KEY, _CLIENT_KEY}
    )
