"""The sub-commands, a module each: `add_parser` declares it, `run` carries it out."""

from __future__ import annotations

import argparse
from typing import Protocol, TypeAlias

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_INPUT = 3
EXIT_NO_PACK = 4


Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What `add_subparsers` returns."""


class Command(Protocol):
    """A module of this package."""

    def add_parser(self, commands: Subparsers) -> None:
        """Declare the sub-command's arguments."""
        ...


from broker.commands import (  # noqa: E402
    completion,
    compress,
    doctor,
    eval,
    hash,
    install,
    jobs,
    mcp,
    model,
    operate,
    schema,
    serve,
    verify,
)

ALL: tuple[Command, ...] = (
    compress,
    verify,
    hash,
    serve,
    mcp,
    install,
    jobs,
    model,
    eval,
    operate,
    doctor,
    schema,
    completion,
)
