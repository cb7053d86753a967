"""`agentloop serve` and `agentloop worker`: the broker, and one attempt of a job."""

from __future__ import annotations

import argparse
import sys

from broker.commands import EXIT_NO_PACK, EXIT_OK, Subparsers
from broker.commands.settings import settings, told


def add_parser(commands: Subparsers) -> None:
    """Declare both sub-commands' arguments."""
    parser = commands.add_parser(
        "serve",
        help="run the broker: jobs over HTTP and MCP",
        description="Run the broker until SIGTERM. Everything else is a setting: see docs/operations.md.",
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="BROKER_LISTEN (127.0.0.1:8787)")
    parser.add_argument("--home", metavar="DIR", help="BROKER_HOME")
    parser.set_defaults(run=run)
    worker = commands.add_parser(
        "worker",
        help="run one attempt of a job from its run directory (the broker starts it)",
        description="Run one attempt of a job. The broker and the batch script of Slurm start it.",
    )
    worker.add_argument("run_dir", metavar="RUN_DIR")
    worker.add_argument("attempt", nargs="?", metavar="ATTEMPT", help="N, or N.RESTART after a requeue")
    worker.set_defaults(run=_worker)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    import asyncio

    from broker.backends.base import BackendUnavailable
    from broker.jobs.database import StoreError
    from broker.logs import set_up
    from broker.serve import serve

    found = settings({"listen": args.listen, "home": args.home})
    set_up()
    try:
        asyncio.run(serve(found, lambda line: print(line, flush=True)))
    except (StoreError, BackendUnavailable) as error:
        print(f"agentloop: {error}", file=sys.stderr)
        return EXIT_NO_PACK
    except OSError as error:
        where = "" if error.filename else f"BROKER_LISTEN {found.listen}: "
        print(f"agentloop: {where}{told(error)}", file=sys.stderr)
        return EXIT_NO_PACK
    return EXIT_OK


def _worker(args: argparse.Namespace) -> int:
    from agentloop.worker import main

    return main([args.run_dir, *([args.attempt] if args.attempt else [])])
