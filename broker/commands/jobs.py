"""`agentloop submit status wait result logs cancel`: jobs of a running broker, over its HTTP API."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from broker.commands import EXIT_NO_PACK, EXIT_OK, EXIT_USAGE, Subparsers
from broker.commands.compress import add_request_arguments, request_of
from broker.commands.settings import settings

if TYPE_CHECKING:
    from broker.client import BrokerClient

WAIT_SECONDS = 900.0
Call = Callable[["BrokerClient", argparse.Namespace], Awaitable[Any]]


def add_parser(commands: Subparsers) -> None:
    """Declare the sub-commands' arguments."""
    submit = commands.add_parser(
        "submit",
        help="submit a job to the running broker",
        description="Submit the request that `compress` would run, as a job; prints its handle.",
    )
    add_request_arguments(submit)
    submit.add_argument("--idempotency-key", metavar="KEY", help="the same key and request give the same job")
    submit.set_defaults(run=_calling(_submit))
    for name, told, call in (
        ("status", "the state of a job", lambda c, a: c.status(a.job_id)),
        ("wait", "wait until a job has ended", lambda c, a: c.wait(a.job_id, a.seconds)),
        (
            "result",
            "the pack of a job",
            lambda c, a: c.result(a.job_id, include_artifacts=a.include_artifacts),
        ),
        ("logs", "the stage events of a job", lambda c, a: c.logs(a.job_id, a.after)),
        ("cancel", "cancel a job", lambda c, a: c.cancel(a.job_id)),
    ):
        parser = commands.add_parser(name, help=told)
        parser.add_argument("job_id", metavar="JOB_ID")
        parser.set_defaults(run=_calling(call))
        if name == "wait":
            parser.add_argument("--seconds", type=float, default=WAIT_SECONDS, help="at most so long (900)")
        elif name == "result":
            parser.add_argument("--include-artifacts", action="store_true", help="with the local artifacts")
        elif name == "logs":
            parser.add_argument("--after", type=int, default=0, metavar="N", help="events after number N")


async def _result(client: BrokerClient, args: argparse.Namespace) -> Any:
    return await client.result(args.job_id, include_artifacts=args.include_artifacts)


async def _submit(client: BrokerClient, args: argparse.Namespace) -> Any:
    request = request_of(args).model_dump(mode="json", exclude_unset=True)
    if args.idempotency_key:
        request["idempotency_key"] = args.idempotency_key
    return await client.submit(request)


def _calling(call: Call) -> Callable[[argparse.Namespace], int]:
    def run(args: argparse.Namespace) -> int:
        import asyncio

        from agentloop.errors import AgentloopError
        from broker.client import BrokerClient, NoBroker, Refused
        from broker.commands.errors import report

        async def ask() -> Any:
            async with BrokerClient.local(settings().home_path) as client:
                return await call(client, args)

        try:
            answer = asyncio.run(ask())
        except NoBroker as error:
            print(f"agentloop: {error}", file=sys.stderr)
            return EXIT_NO_PACK
        except Refused as error:
            return _refused(error.error, error.status)
        except AgentloopError as error:
            return report(error, readable=sys.stderr.isatty())
        if "error" in answer and "job_id" not in answer:  # the job ended without a pack
            return _refused(answer["error"], HTTPStatus.OK)
        print(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))
        return EXIT_OK

    return run


def _refused(error: Mapping[str, Any], status: int) -> int:
    """Print what a broker refused, as `compress` prints its errors; the exit status of its code."""
    from agentloop.redact import neutralise
    from broker.commands.errors import STATUS

    code = str(error.get("code", ""))
    if sys.stderr.isatty():
        print(f"agentloop: {neutralise(str(error.get('message', '')))} [{code}]", file=sys.stderr)
    else:
        print(json.dumps({"error": error}, ensure_ascii=True), file=sys.stderr)
    known = {str(name): found for name, found in STATUS.items()}
    return known.get(code, EXIT_USAGE if status == HTTPStatus.BAD_REQUEST else EXIT_NO_PACK)
