"""`agentloop install CLIENT` and `agentloop uninstall CLIENT`: the entry in an MCP client's configuration."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from broker.commands import EXIT_NO_PACK, EXIT_OK, EXIT_USAGE, Subparsers

if TYPE_CHECKING:
    from broker.mcp.clients import Installer

NAMES = ("claude-code", "claude-desktop", "codex", "cursor", "vscode", "gemini")


def add_parser(commands: Subparsers) -> None:
    """Declare both sub-commands' arguments."""
    parser = commands.add_parser(
        "install",
        help="add the tools to an MCP client's configuration",
        description="Add `agentloop mcp` to the configuration of a client; what is there is kept.",
    )
    parser.add_argument("client", choices=NAMES)
    parser.add_argument(
        "--print", action="store_true", dest="only_print", help="print the entry, write nothing"
    )
    parser.add_argument(
        "--root", metavar="DIR", action="append", default=[], help="a folder that the client may ask about"
    )
    parser.add_argument("--home", metavar="DIR", help="BROKER_HOME of the server")
    parser.set_defaults(run=run)
    undo = commands.add_parser(
        "uninstall",
        help="undo `install`",
        description="Take `agentloop mcp` out of the configuration of a client.",
    )
    undo.add_argument("client", choices=NAMES)
    undo.set_defaults(run=_uninstall)


def run(args: argparse.Namespace) -> int:
    """Write or print the entry."""
    from broker.mcp.clients import CLIENTS, ConfigError, entry, snippet

    kind = CLIENTS[args.client]
    command = [*_executable(), "mcp"]
    if args.home:
        command += ["--home", str(Path(args.home).expanduser().absolute())]
    for root in args.root:
        whole = Path(root).expanduser().absolute()
        if not whole.is_dir():
            why = "is no folder" if whole.exists() else "does not exist"
            print(f"agentloop: --root {root}: {whole} {why}; name a folder to be read.", file=sys.stderr)
            return EXIT_USAGE
        command += ["--root", str(whole)]
    text = snippet(kind, entry(kind, command))
    if args.only_print:
        print(text, end="")
        _tell_roots(args, sys.stderr)
        return EXIT_OK
    installer = _installer()
    try:
        file = installer.install(kind, command)
    except (ConfigError, OSError) as exc:
        print(f"agentloop: {installer.file(kind)}: {exc}\nAdd it by hand:\n\n{text}", file=sys.stderr)
        return EXIT_NO_PACK
    print(f"agentloop is in {file}. Restart the client.")
    _tell_roots(args, sys.stdout)
    return EXIT_OK


def _tell_roots(args: argparse.Namespace, out: TextIO) -> None:
    """Say that nothing can be asked about yet, where neither a flag nor the settings name a folder."""
    from broker.auth import LOCAL
    from broker.commands.settings import settings

    found = settings({"home": args.home})
    if not args.root and not found.rules(LOCAL.namespace).roots:
        print(
            "No folder may be read yet, so every question will be refused: give --root DIR here, or set "
            "BROKER_ALLOWED_ROOTS for the client.",
            file=out,
        )


def _uninstall(args: argparse.Namespace) -> int:
    from broker.mcp.clients import CLIENTS, ConfigError

    kind, installer = CLIENTS[args.client], _installer()
    try:
        file = installer.uninstall(kind)
    except (ConfigError, OSError) as exc:
        print(f"agentloop: {installer.file(kind)}: {exc}\nRemove it by hand.", file=sys.stderr)
        return EXIT_NO_PACK
    print(f"agentloop is no longer in {file}." if file else "agentloop was not there.")
    return EXIT_OK


def _installer() -> Installer:
    from broker.commands.settings import settings
    from broker.mcp.clients import Installer

    return Installer(Path.home(), sys.platform, settings().home_path / "installs")


def _executable() -> list[str]:
    """How this very installation is started, by a client that has another PATH."""
    beside = Path(sys.executable).with_name("agentloop")
    if beside.exists():
        return [str(beside)]
    found = shutil.which("agentloop")
    return [found] if found else [sys.executable, "-m", "broker.cli"]
