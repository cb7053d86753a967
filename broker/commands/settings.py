"""The settings of a command, read once: file, environment, flags."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.commands import EXIT_NO_PACK, EXIT_USAGE

if TYPE_CHECKING:
    from agentloop.loop.places import ModelPlaces
    from broker.config import Settings


def settings(flags: dict[str, Any] | None = None) -> Settings:
    """Settings from `broker.toml`, the environment and flags.

    Raises:
        SystemExit: a value can't be used; the message on stderr names it.
    """
    from broker.config import load
    from broker.values import SettingsError

    try:
        return load(os.environ, flags or {})
    except SettingsError as error:
        print(f"agentloop: {error}", file=sys.stderr)
        raise SystemExit(EXIT_USAGE) from None


def model_places(found: Settings) -> ModelPlaces:
    """Where models and their profiles lie."""
    from agentloop.loop.places import ModelPlaces

    return ModelPlaces.under(found.home_path, found.model_profiles_file, os.environ)


def told(error: OSError) -> str:
    """Trouble with a file or an address in words: what, and why; the home where it is that."""
    from agentloop.reasons import unwritable

    home = settings().home
    place = str(error.filename or "")
    name = f"BROKER_HOME {home}: {place}" if place.startswith(home) else place
    return f"{name}: {unwritable(error)}." if name else f"{unwritable(error)}."


def refusing(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """`run`, with the errors that an operator can mend told in one line."""

    def wrapped(args: argparse.Namespace) -> int:
        from agentloop.errors import AgentloopError
        from broker.commands.errors import report

        try:
            return run(args)
        except AgentloopError as error:
            return report(error, readable=sys.stderr.isatty())
        except ValueError as error:
            print(f"agentloop: {error}", file=sys.stderr)
            return EXIT_USAGE
        except OSError as error:
            print(f"agentloop: {told(error)}", file=sys.stderr)
            return EXIT_NO_PACK

    return wrapped
