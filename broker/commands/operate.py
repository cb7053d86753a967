"""`agentloop token`, `cache` and `audit`: what an operator does beside serving."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from broker.commands import EXIT_NO_PACK, EXIT_OK, Subparsers
from broker.commands.settings import refusing, settings


def add_parser(commands: Subparsers) -> None:
    """Declare the sub-commands' arguments."""
    token = commands.add_parser("token", help="make, list and revoke access tokens of the broker")
    actions = token.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="make a token and print it once; only its hash is kept")
    new.add_argument("name", metavar="NAME")
    new.add_argument("--namespace", metavar="NS", help="whose jobs and caches it reaches (local)")
    new.add_argument("--role", action="append", metavar="ROLE", help="reader, user, priority, operator")
    new.set_defaults(run=refusing(_new))
    actions.add_parser("list", help="names, namespaces and roles").set_defaults(run=refusing(_list))
    revoke = actions.add_parser("revoke", help="remove all tokens of a name")
    revoke.add_argument("name", metavar="NAME")
    revoke.set_defaults(run=refusing(_revoke))
    cache = commands.add_parser("cache", help="size of the private cache, or clear it")
    cache.add_argument("action", choices=("stats", "clear"))
    cache.set_defaults(run=refusing(_cache))
    audit = commands.add_parser("audit", help="check the hash chain of the audit log")
    audit.add_argument("action", choices=("verify",))
    audit.set_defaults(run=refusing(_audit))


def _new(args: argparse.Namespace) -> int:
    from broker.auth import LOCAL_NAMESPACE, Role, create_token

    roles = args.role or [Role.USER]
    print(
        create_token(
            settings().home_path, args.name, namespace=args.namespace or LOCAL_NAMESPACE, roles=roles
        )
    )
    return EXIT_OK


def _list(args: argparse.Namespace) -> int:
    from broker.auth import list_tokens

    for entry in list_tokens(settings().home_path):
        print(f"{entry['name']:24} {entry['namespace']:16} {','.join(entry['roles'])}")
    return EXIT_OK


def _revoke(args: argparse.Namespace) -> int:
    from broker.auth import revoke_token

    count = revoke_token(settings().home_path, args.name)
    print(f"{count} revoked")
    return EXIT_OK if count else EXIT_NO_PACK


def _cache(args: argparse.Namespace) -> int:
    from agentloop.cache import FileCache

    found = settings()
    cache = FileCache(found.home_path / "cache", found.cache_max_mb << 20)
    if args.action == "clear":
        cache.clear()
    print(json.dumps({name: asdict(row) for name, row in cache.stats().items()}))
    return EXIT_OK


def _audit(args: argparse.Namespace) -> int:
    from broker.jobs.audit import verify_home

    report = verify_home(settings().home_path)
    print(json.dumps(asdict(report)))
    return EXIT_OK if report.intact else EXIT_NO_PACK
