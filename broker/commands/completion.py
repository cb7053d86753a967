"""`agentloop completion`: the shell's completion script."""

from __future__ import annotations

import argparse

from broker.commands import EXIT_OK, Subparsers

SHELLS = ("bash", "zsh", "tcsh")


def add_parser(commands: Subparsers) -> None:
    """Declare the sub-command's arguments."""
    parser = commands.add_parser("completion", help="print a shell's completion script")
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from broker.cli import build_parser

    print(shtab.complete(build_parser(), args.shell))
    return EXIT_OK
