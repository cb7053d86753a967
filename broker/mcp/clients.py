"""The configuration files of MCP clients: where each lies, what our entry in it looks like, and editing.

What is there is kept. The bytes from before are remembered under BROKER_HOME, so that `uninstall` gives them
back where nobody changed the file since; otherwise only our entry is taken out.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentloop.rundir import publish

NAME = "agentloop"
BEGIN, END = "# agentloop: begin", "# agentloop: end"


class ConfigError(Exception):
    """A client's file can't be edited; the message says what to do by hand."""


@dataclass(frozen=True, slots=True)
class ClientKind:
    """A client: its file under the user's folder (on Linux, on macOS), the table of servers in it."""

    name: str
    linux: str
    macos: str
    table: str
    typed: bool = False  # whether an entry carries `type: stdio`

    @property
    def toml(self) -> bool:
        """Whether the file is TOML; the others are JSON."""
        return self.linux.endswith(".toml")

    def file(self, home: Path, platform: str) -> Path:
        """The file for a user."""
        return home / (self.macos if platform == "darwin" else self.linux)


_SUPPORT = "Library/Application Support"
CLIENTS: Mapping[str, ClientKind] = {
    kind.name: kind
    for kind in (
        ClientKind("claude-code", ".claude.json", ".claude.json", "mcpServers", typed=True),
        ClientKind(
            "claude-desktop",
            ".config/Claude/claude_desktop_config.json",
            f"{_SUPPORT}/Claude/claude_desktop_config.json",
            "mcpServers",
        ),
        ClientKind("codex", ".codex/config.toml", ".codex/config.toml", "mcp_servers"),
        ClientKind("cursor", ".cursor/mcp.json", ".cursor/mcp.json", "mcpServers"),
        ClientKind(
            "vscode", ".config/Code/User/mcp.json", f"{_SUPPORT}/Code/User/mcp.json", "servers", typed=True
        ),
        ClientKind("gemini", ".gemini/settings.json", ".gemini/settings.json", "mcpServers"),
    )
}


def entry(kind: ClientKind, command: Sequence[str]) -> dict[str, Any]:
    """Our entry: how the client starts the server."""
    found = {"command": command[0], "args": list(command[1:])}
    return {"type": "stdio", **found} if kind.typed else found


def snippet(kind: ClientKind, value: Mapping[str, Any]) -> str:
    """What to add by hand."""
    if kind.toml:
        return _toml_block(kind, value)
    return json.dumps({kind.table: {NAME: value}}, indent=2, ensure_ascii=False) + "\n"


def _toml_block(kind: ClientKind, value: Mapping[str, Any]) -> str:
    # a JSON string or list of strings is the same in TOML
    lines = [f"{key} = {json.dumps(member, ensure_ascii=False)}" for key, member in value.items()]
    return "\n".join([BEGIN, f"[{kind.table}.{NAME}]", *lines, END]) + "\n"


def added(kind: ClientKind, text: str, value: Mapping[str, Any]) -> str:
    """A file's text with our entry, in place of an earlier one.

    Raises:
        ConfigError: the file is not in form, or has an entry of our name that somebody wrote by hand.
    """
    if kind.toml:
        rest = removed(kind, text)
        if NAME in _toml_table(kind, rest):
            raise ConfigError(f"it has a [{kind.table}.{NAME}] of its own; remove that first.")
        gap = "" if not rest or rest.endswith("\n\n") else ("\n" if rest.endswith("\n") else "\n\n")
        return rest + gap + _toml_block(kind, value)
    found = _json(text)
    servers = found.setdefault(kind.table, {})
    if not isinstance(servers, dict):
        raise ConfigError(f"its `{kind.table}` is no object.")
    servers[NAME] = dict(value)
    return _dumped(found, text)


def removed(kind: ClientKind, text: str) -> str:
    """A file's text without our entry.

    Raises:
        ConfigError: the file is not in form.
    """
    if kind.toml:
        before, begin, rest = text.partition(BEGIN + "\n")
        _, end, after = rest.partition(END + "\n")
        if begin and not end:
            raise ConfigError(f"it has `{BEGIN}` and no `{END}`.")
        return before + after if begin else text
    found = _json(text)
    servers = found.get(kind.table)
    if not isinstance(servers, dict) or NAME not in servers:
        return text
    del servers[NAME]
    if not servers:
        del found[kind.table]
    return _dumped(found, text)


def _toml_table(kind: ClientKind, text: str) -> dict[str, Any]:
    try:
        found = tomllib.loads(text).get(kind.table, {})
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"it is not TOML: {exc}.") from None
    return found if isinstance(found, dict) else {}


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text) if text.strip() else {}
    except ValueError as exc:
        raise ConfigError(f"it is not plain JSON ({exc}); comments can't be kept.") from None
    if not isinstance(found, dict):
        raise ConfigError("it is no JSON object.")
    return found


def _dumped(value: Mapping[str, Any], like: str) -> str:
    """JSON with the indentation that the file had."""
    second = next((line for line in like.splitlines()[1:] if line.strip()), "")
    indent = second[: len(second) - len(second.lstrip())]
    return json.dumps(value, indent=indent or 2, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True)
class Installer:
    """Writes and takes back entries. `state` is a folder of ours that remembers what was there."""

    home: Path
    platform: str
    state: Path

    def file(self, kind: ClientKind) -> Path:
        """The client's file; through a link, the file that is meant."""
        return Path(os.path.realpath(kind.file(self.home, self.platform)))

    def install(self, kind: ClientKind, command: Sequence[str]) -> Path:
        """Add our entry; the file.

        Raises:
            ConfigError: see `added`. OSError.
        """
        file = self.file(kind)
        before = _read(file)
        after = added(kind, before or "", entry(kind, command))
        if before == after:
            return file
        memory = self._memory(kind)
        known = json.loads(memory.read_text("utf-8")) if memory.exists() else None
        if known is not None and known["after"] == _digest(before):
            before = known["before"]  # installed twice: what matters is what was there before the first
        file.parent.mkdir(parents=True, exist_ok=True)
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        publish(memory, json.dumps({"before": before, "after": _digest(after)}).encode())
        _write(file, after)
        return file

    def uninstall(self, kind: ClientKind) -> Path | None:
        """Take our entry out; the file, None where there was none of ours.

        Raises:
            ConfigError: see `removed`. OSError.
        """
        file, memory = self.file(kind), self._memory(kind)
        now = _read(file)
        known = json.loads(memory.read_text("utf-8")) if memory.exists() else None
        memory.unlink(missing_ok=True)
        if now is None:
            return None
        if known is not None and known["after"] == _digest(now):
            if known["before"] is None:
                file.unlink()
            else:
                _write(file, known["before"])
            return file
        after = removed(kind, now)
        if after == now:
            return None
        _write(file, after)
        return file

    def _memory(self, kind: ClientKind) -> Path:
        return self.state / f"{kind.name}.json"


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ConfigError("it is not UTF-8.") from None


def _write(file: Path, text: str) -> None:
    """Replace a file by rename, with the permissions that it had."""
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
    publish(file, text.encode("utf-8"))
    file.chmod(mode)


def _digest(text: str | None) -> str:
    return hashlib.sha256((text or "").encode("utf-8")).hexdigest()
