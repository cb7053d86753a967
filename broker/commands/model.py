"""`agentloop model`: the models that can drive the tool loop."""

from __future__ import annotations

import argparse
import json

from broker.commands import EXIT_OK, Subparsers
from broker.commands.settings import model_places, refusing, settings


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
