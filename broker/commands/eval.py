"""`agentloop eval`: measure retrieval on golden sets. The harness itself is the package `eval`."""

from __future__ import annotations

from broker.commands import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Declare the sub-command's arguments; the harness declares its own."""
    from eval import cli

    cli.add_parser(commands)
