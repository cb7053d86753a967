"""`agentloop mcp`: the tools for an agent, over standard input and output."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from broker.commands import Subparsers

if TYPE_CHECKING:
    from broker.config import Settings


def add_parser(commands: Subparsers) -> None:
    """Declare the sub-command's arguments."""
    parser = commands.add_parser(
        "mcp",
        help="serve the tools to an agent over stdio (MCP)",
        description="Serve the tools over stdio. A running broker of the same BROKER_HOME is used; where "
        "none runs, this process runs one. See docs/mcp.md.",
    )
    parser.add_argument("--home", metavar="DIR", help="BROKER_HOME")
    parser.add_argument(
        "--root",
        metavar="DIR",
        action="append",
        help="a folder that may be read, beside BROKER_ALLOWED_ROOTS; may be given several times",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve one client until it goes."""
    from broker.mcp.stdio import run as serve

    directory = os.getcwd()  # of now: a relative --root is the user's, whatever happens later

    def load() -> Settings:
        from broker.config import load as read

        flags: dict[str, object] = {"home": args.home}
        found = read(os.environ, flags)
        if not args.root:
            return found
        given = [os.path.join(directory, os.path.expanduser(root)) for root in args.root]
        flags["allowed_roots"] = [*found.allowed_roots, *map(os.path.normpath, given)]
        return read(os.environ, flags)

    return serve(load)
