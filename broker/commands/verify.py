"""`agentloop verify`: check a saved pack against the files as they are now."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from broker.commands import EXIT_NO_PACK, EXIT_OK, Subparsers
from broker.commands.settings import settings


def add_parser(commands: Subparsers) -> None:
    """Declare the sub-command's arguments."""
    parser = commands.add_parser(
        "verify",
        help="check the refs of a saved pack: ok, stale or invalid",
        description="Re-read every source ref of a saved pack. PATHs are its inputs, in the order of the "
        "request; without them the current folder is the one input. Exit status 0 when all are ok, else 4.",
    )
    parser.add_argument("pack", metavar="PACK", help="a pack as JSON, - for standard input")
    parser.add_argument("paths", nargs="*", metavar="PATH")
    parser.add_argument("--format", choices=("text", "json"), help="text on a terminal, else json")
    parser.set_defaults(run=run)


def _pack(name: str) -> Any:
    """The decoded JSON of the pack file, or of standard input.

    Raises:
        AgentloopError: INPUT_DISCOVERY_FAILED, it can't be read; RAG_SCHEMA_INVALID, it is no JSON.
    """
    from agentloop.errors import AgentloopError, ErrorCode, Stage
    from agentloop.reasons import unreadable

    shown = "standard input" if name == "-" else name
    tail = "give the pack as `agentloop compress --output FILE` writes it."
    try:
        return json.loads(sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes())
    except OSError as exc:
        raise AgentloopError(
            ErrorCode.INPUT_DISCOVERY_FAILED,
            f"The pack {shown} can't be read: {unreadable(exc)}; {tail}",
            Stage.DISCOVERY,
            {"path": name, "reason": "not_found" if isinstance(exc, FileNotFoundError) else "unreadable"},
        ) from None
    except (ValueError, RecursionError) as exc:
        raise AgentloopError(
            ErrorCode.RAG_SCHEMA_INVALID,
            f"{shown} is no evidence pack: {unreadable(exc)}; {tail}",
            Stage.VALIDATION,
        ) from None


def run(args: argparse.Namespace) -> int:
    """Print a line for each ref."""
    from agentloop.errors import AgentloopError
    from agentloop.redact import one_line
    from agentloop.verify import verify_saved
    from broker.commands.errors import report

    try:
        results = verify_saved(_pack(args.pack), args.paths or ["."], settings().caps())
    except AgentloopError as error:
        return report(error, readable=sys.stderr.isatty())
    if args.format == "json" or (args.format is None and not sys.stdout.isatty()):
        print(json.dumps([r.to_json() for r in results], ensure_ascii=True))
    else:
        if not results:
            print("the pack holds no evidence: there is nothing to check")
        for r in results:
            print(one_line(f"{r.status:8} {r.evidence_id} {r.place}{': ' + r.reason if r.reason else ''}"))
    return EXIT_OK if all(r.status == "ok" for r in results) else EXIT_NO_PACK
