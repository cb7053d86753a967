"""`agentloop hash`: the content hash that a request may declare for an input."""

from __future__ import annotations

import argparse
import sys

from broker.commands import EXIT_OK, Subparsers
from broker.commands.settings import settings


def add_parser(commands: Subparsers) -> None:
    """Declare the sub-command's arguments."""
    parser = commands.add_parser(
        "hash",
        help="print the content hash of a file, or the corpus hash of a folder",
        description="Print what `content_hash` of an input is: a file's sha256, or a folder's corpus hash.",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a line for each path: hash, two spaces, path."""
    from agentloop.api import input_uri
    from agentloop.errors import AgentloopError
    from agentloop.redact import one_line
    from agentloop.sources import hash_path
    from broker.commands.errors import report

    status, caps = EXIT_OK, settings().caps()
    for path in args.paths:
        try:
            print(f"{hash_path(input_uri(path), caps)}  {one_line(path)}")
        except AgentloopError as error:
            status = max(status, report(error, readable=sys.stderr.isatty()))
    return status
