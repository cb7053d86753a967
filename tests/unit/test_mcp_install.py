"""`agentloop install` and `uninstall`: entries in clients' files, and what else is in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from broker.commands.install import NAMES
from broker.mcp.clients import CLIENTS, ConfigError, Installer, added

COMMAND = ["/opt/agentloop", "mcp", "--root", "/work"]
OURS = {"command": "/opt/agentloop", "args": ["mcp", "--root", "/work"]}
JSON_KINDS = [kind for kind in CLIENTS.values() if not kind.toml]


@pytest.fixture
def installer(tmp_path: Path) -> Installer:
    return Installer(tmp_path / "user", "linux", tmp_path / "state")


def read(installer: Installer, name: str) -> dict[str, Any]:
    kind = CLIENTS[name]
    text = installer.file(kind).read_text()
    found = tomllib.loads(text) if kind.toml else json.loads(text)
    servers: dict[str, Any] = found[kind.table]
    return servers


def test_the_command_line_knows_all_clients() -> None:
    assert tuple(CLIENTS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_into_nothing_and_back_to_nothing(installer: Installer, name: str) -> None:
    kind = CLIENTS[name]
    file = installer.install(kind, COMMAND)
    assert read(installer, name)["agentloop"] == ({"type": "stdio", **OURS} if kind.typed else OURS)
    assert installer.install(kind, COMMAND) == file
    assert installer.uninstall(kind) == file
    assert not file.exists()
    assert installer.uninstall(kind) is None


@pytest.mark.parametrize("kind", JSON_KINDS, ids=lambda kind: kind.name)
def test_what_is_there_is_kept_and_given_back_to_the_byte(installer: Installer, kind: Any) -> None:
    before = f'{{\n\t"theme":"dark",\n\t"{kind.table}": {{"other":   {{"command": "x"}}}}, "ü": 1e3}}'
    file = installer.file(kind)
    file.parent.mkdir(parents=True)
    file.write_text(before)
    file.chmod(0o640)
    installer.install(kind, COMMAND)
    now = json.loads(file.read_text())
    assert now["theme"] == "dark"
    assert now["ü"] == 1000
    assert now[kind.table]["other"] == {"command": "x"}
    installer.install(kind, [*COMMAND, "--root", "/more"])  # twice, with another command
    assert now[kind.table]["agentloop"] != json.loads(file.read_text())[kind.table]["agentloop"]
    installer.uninstall(kind)
    assert file.read_text() == before
    assert file.stat().st_mode & 0o777 == 0o640


def test_toml_keeps_comments_and_order(installer: Installer) -> None:
    kind = CLIENTS["codex"]
    before = '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y"  # why\n'
    file = installer.file(kind)
    file.parent.mkdir(parents=True)
    file.write_text(before)
    installer.install(kind, COMMAND)
    assert file.read_text().startswith(before)
    assert set(read(installer, "codex")) == {"other", "agentloop"}
    file.write_text(file.read_text() + "\n[later]\nx = 1\n")  # changed since: only our block goes
    installer.uninstall(kind)
    assert "# why" in file.read_text()
    assert tomllib.loads(file.read_text())["later"] == {"x": 1}
    assert "agentloop" not in file.read_text()


def test_a_file_that_changed_since_loses_only_our_entry(installer: Installer) -> None:
    kind = CLIENTS["cursor"]
    file = installer.install(kind, COMMAND)
    changed = json.loads(file.read_text())
    changed["mcpServers"]["new"] = {"command": "z"}
    file.write_text(json.dumps(changed))
    installer.uninstall(kind)
    assert json.loads(file.read_text()) == {"mcpServers": {"new": {"command": "z"}}}


def test_a_linked_file_stays_a_link(installer: Installer, tmp_path: Path) -> None:
    kind = CLIENTS["gemini"]
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    link = kind.file(installer.home, "linux")
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    installer.install(kind, COMMAND)
    assert link.is_symlink()
    assert "agentloop" in real.read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vscode", '{"servers": {} // mine\n}'),
        ("cursor", "[]"),
        ("gemini", '{"mcpServers": []}'),
        ("codex", "x = \n"),
        ("codex", '[mcp_servers.agentloop]\ncommand = "by hand"\n'),
        ("codex", "# agentloop: begin\n"),
    ],
)
def test_a_file_that_is_not_in_form_is_left_alone(installer: Installer, name: str, text: str) -> None:
    kind = CLIENTS[name]
    with pytest.raises(ConfigError):
        added(kind, text, OURS)
    file = installer.file(kind)
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(ConfigError):
        installer.install(kind, COMMAND)
    assert file.read_text() == text


def test_macos_paths() -> None:
    for kind in CLIENTS.values():
        assert kind.file(Path("/u"), "darwin").is_relative_to("/u")
    assert "Library" in str(CLIENTS["vscode"].file(Path("/u"), "darwin"))


def agentloop(tmp_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "BROKER_HOME": str(tmp_path / "state")}
    return subprocess.run(
        [sys.executable, "-m", "broker.cli", *args], env=env, capture_output=True, text=True, check=False
    )


def test_on_the_command_line(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    printed = agentloop(tmp_path, "install", "cursor", "--print", "--root", str(root))
    shown = json.loads(printed.stdout)["mcpServers"]["agentloop"]
    assert shown["args"][-3:] == ["mcp", "--root", str(root)]
    assert printed.stderr == ""
    assert Path(shown["command"]).is_absolute()
    assert not (tmp_path / ".cursor").exists()
    done = agentloop(tmp_path, "install", "cursor")
    assert done.returncode == 0
    assert "BROKER_ALLOWED_ROOTS" in done.stdout
    assert (tmp_path / ".cursor" / "mcp.json").exists()
    assert agentloop(tmp_path, "uninstall", "cursor").returncode == 0
    assert not (tmp_path / ".cursor" / "mcp.json").exists()
    (tmp_path / ".cursor" / "mcp.json").write_text("{broken")
    refused = agentloop(tmp_path, "install", "cursor")
    assert refused.returncode == 4
    assert "by hand" in refused.stderr


@pytest.mark.parametrize(("root", "why"), [("nope", "does not exist"), ("file", "is no folder")])
def test_a_root_that_is_no_folder_is_refused(tmp_path: Path, root: str, why: str) -> None:
    (tmp_path / "file").write_text("x")
    for more in ([], ["--print"]):
        done = agentloop(tmp_path, "install", "cursor", "--root", str(tmp_path / root), *more)
        assert done.returncode == 2
        assert f"{tmp_path / root} {why}" in done.stderr
        assert done.stdout == ""
    assert not (tmp_path / ".cursor").exists()


def test_without_a_root_the_entry_says_that_nothing_is_readable(tmp_path: Path) -> None:
    printed = agentloop(tmp_path, "install", "codex", "--print")
    assert "No folder may be read yet" in printed.stderr
    assert tomllib.loads(printed.stdout)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "broker.toml").write_text(f'allowed_roots = ["{tmp_path}"]\n')
    assert agentloop(tmp_path, "install", "codex", "--print").stderr == ""
