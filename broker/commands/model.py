"""`agentloop model`: the models that can drive the tool loop."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from broker.commands import EXIT_NO_PACK, EXIT_OK, EXIT_USAGE, Subparsers
from broker.commands.settings import model_places, refusing, settings

if TYPE_CHECKING:
    from agentloop.loop.fit import Fit


def add_parser(commands: Subparsers) -> None:
    """Declare the sub-command's arguments."""
    parser = commands.add_parser(
        "model", help="list, show, install and probe models", description="The models of --model."
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="every model that --model takes by name").set_defaults(
        run=refusing(_list)
    )
    for name, told, run in (
        ("show", "a profile with all its settings", _show),
        ("install", "fetch a model file (smollm2)", _install),
        ("probe", "ask a model one question and remember its wire form", _probe),
    ):
        action = actions.add_parser(name, help=told)
        action.add_argument("name", metavar="NAME")
        action.set_defaults(run=refusing(run))
    fit = actions.add_parser("fit", help="whether a model fits a tier's memory")
    fit.add_argument("name", metavar="NAME")
    fit.add_argument(
        "--tier", default="p40-rag-compression", help="tier of the Slurm backend (p40-rag-compression)"
    )
    fit.add_argument("--format", choices=("text", "json"), default="text", help="output form (text)")
    fit.set_defaults(run=refusing(_fit))


def _list(args: argparse.Namespace) -> int:
    from agentloop.loop.models_admin import list_models

    for row in list_models(model_places(settings())):
        print(f"{row.name:28} {row.origin:14} {row.where}")
    return EXIT_OK


def _show(args: argparse.Namespace) -> int:
    from agentloop.loop.models_admin import show_model

    print(json.dumps(show_model(args.name, model_places(settings())), indent=2))
    return EXIT_OK


def _install(args: argparse.Namespace) -> int:
    from agentloop.loop.models_admin import install_model

    print(install_model(args.name, model_places(settings())))
    return EXIT_OK


def _probe(args: argparse.Namespace) -> int:
    from agentloop.loop.models_admin import probe_model

    print(json.dumps(probe_model(args.name, model_places(settings()))))
    return EXIT_OK


def _fit(args: argparse.Namespace) -> int:
    """Exit status 0: it fits; 4: it does not, or nothing tells what it needs."""
    from broker.fitness import judge
    from broker.planner import Tier

    if args.tier not in list(Tier):
        print(f"agentloop: there is no tier {args.tier!r}; tiers are {', '.join(Tier)}", file=sys.stderr)
        return EXIT_USAGE
    found = judge(settings(), args.name, Tier(args.tier))
    parts = {}
    if found.need is not None:
        parts = {
            "weights": found.need.weights,
            "kv_cache": found.need.kv_cache,
            "compute": found.need.compute,
            "runtime": found.need.runtime,
        }
    known = found.required > 0
    if args.format == "json":
        facts = {
            "profile": found.profile,
            "tier": args.tier,
            "fits": found.fits and known,
            "required_mib": found.required,
            "available_mib": found.room,
            "parts_mib": parts,
            "min_vram_mib": found.min_vram,
            "context_tokens": found.context,
            "parallel": found.parallel,
            "largest_context_tokens": found.largest_context,
        }
        print(json.dumps(facts, indent=2))
    elif not known:
        print(f"{found.profile}: nothing is known; it is an endpoint, or needs min_vram_mb in its profile")
    else:
        for part, size in parts.items():
            print(f"{part.replace('_', ' '):10} {size:>8} MiB")
        print(f"{'needs':10} {found.required:>8} MiB\n{'tier has':10} {found.room:>8} MiB  {args.tier}")
        print(_verdict(found, args.tier))
    return EXIT_OK if found.fits and known else EXIT_NO_PACK


def _verdict(found: Fit, tier: str) -> str:
    if not found.fits:
        return found.why_not(f"the tier {tier}")
    most = f"; contexts up to {found.largest_context} tokens would" if found.largest_context else ""
    return f"It fits with {found.context} tokens x {found.parallel}{most}."
