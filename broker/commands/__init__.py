"""The sub-commands, a module each: `add_parser` declares it, `run` carries it out."""

from __future__ import annotations

import argparse
from typing import Protocol

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_INPUT = 3
EXIT_NO_PACK = 4


class Subparsers(Protocol):
    """What `add_subparsers` returns, as far as commands use it."""

    def add_parser(self, name: str, **kwargs: object) -> argparse.ArgumentParser:
        """Add the parser of one sub-command."""
        ...


class Command(Protocol):
    """A module of this package."""

    def add_parser(self, commands: Subparsers) -> None:
        """Declare the sub-command's arguments."""
        ...


from broker.commands import compress, doctor, hash, schema, verify  # noqa: E402

ALL: tuple[Command, ...] = (compress, verify, hash, schema, doctor)
