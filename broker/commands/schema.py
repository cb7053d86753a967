"""`agentloop schema`: the JSON Schemas of requests and packs."""

from __future__ import annotations

import argparse
import json
import sys

from broker.commands import EXIT_OK, EXIT_USAGE, Subparsers


def add_parser(commands: Subparsers) -> None:
    """Declare the sub-command's arguments."""
    parser = commands.add_parser(
        "schema",
        help="print a JSON Schema; without a name, list them",
        description="Print the JSON Schema of a request or of a task's pack.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="for example rag_evidence_pack_v1")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one schema, or the names of all."""
    from agentloop.verify import schemas

    known = schemas()
    if args.name is None:
        print("\n".join(known))
        return EXIT_OK
    if args.name not in known:
        print(f"agentloop: no schema {args.name!r}; there are {', '.join(known)}", file=sys.stderr)
        return EXIT_USAGE
    print(json.dumps(known[args.name], indent=2, ensure_ascii=False))
    return EXIT_OK
