"""`agentloop doctor`: what of the installation works, and what to mend."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from broker.commands import EXIT_NO_PACK, EXIT_OK, Subparsers


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: whether it is well, and what to do where it isn't. Optional parts never fail."""

    name: str
    ok: bool
    found: str
    mend: str = ""
    optional: bool = False


def add_parser(commands: Subparsers) -> None:
    """Declare the sub-command's arguments."""
    parser = commands.add_parser(
        "doctor",
        help="check the installation and say what to mend",
        description="Check the installation. Exit status 4 when something needed does not work.",
    )
    parser.add_argument("--slurm", action="store_true", help="check the Slurm cluster of the settings too")
    parser.add_argument("--broker", action="store_true", help="check the broker of the settings too")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a line for each check."""
    failed = False
    more = [*(_broker() if args.broker else ()), *(_slurm() if args.slurm else ())]
    for check in [*checks(), *more]:
        mark = "ok  " if check.ok else ("none" if check.optional else "FAIL")
        print(f"{mark} {check.name}: {check.found}{'' if check.ok else ' -> ' + check.mend}")
        failed = failed or not (check.ok or check.optional)
    return EXIT_NO_PACK if failed else EXIT_OK


def checks() -> Iterator[Check]:
    """All checks, run one by one."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", sys.version_info >= (3, 11), python, "install Python 3.11 to 3.13")
    for name, probe, optional, mend in PROBES:
        try:
            found = probe()
        except ImportError as exc:  # also of a package without metadata
            missing = f"the package {exc.name} is not installed" if exc.name else str(exc)
            yield Check(name, False, missing, mend, optional)
        except (OSError, LookupError, RuntimeError) as exc:
            yield Check(name, False, str(exc) or type(exc).__name__, mend, optional)
        else:
            yield Check(name, True, found, optional=optional)


def _broker() -> Iterator[Check]:
    """Roots, privacy, database, address, room."""
    from broker.checks import findings
    from broker.commands.settings import settings

    for finding in findings(settings()):
        yield Check(finding.name, finding.ok, finding.found, finding.mend)


def _slurm() -> Iterator[Check]:
    """The cluster: tools, controller, partitions, GPUs, QoS, run directory and clock of a node."""
    from broker.backends.slurm import doctor
    from broker.commands.settings import settings

    for finding in doctor.run(settings()):
        yield Check(finding.name, finding.ok, finding.found, finding.mend)


def _index() -> str:
    from importlib.metadata import version

    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("body")
    tantivy.Index(builder.build())
    return f"tantivy {version('tantivy')}, an index in memory can be made"


def _tokenizer() -> str:
    from agentloop.tokens import TOKENIZER, count

    return f"{TOKENIZER}, counts {count('a token counter')} tokens in a sentence of three words"


def _grammars() -> str:
    import semble_grammars

    semble_grammars.get_parser("python").parse(b"def f(): pass")
    return f"{len(semble_grammars.available_languages())} languages"


def _home() -> str:
    from broker.commands.settings import settings

    home = settings().home_path
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    probe = home / ".doctor"
    probe.write_bytes(b"")
    probe.unlink()
    return "BROKER_HOME can be written"


def _local_model() -> str:
    from importlib.metadata import version

    return f"xllamacpp {version('xllamacpp')}"


PROBES: tuple[tuple[str, Callable[[], str], bool, str], ...] = (
    ("index", _index, False, "reinstall tantivy"),
    ("tokenizer", _tokenizer, False, "reinstall toktok-rs"),
    ("grammars", _grammars, False, "reinstall tree-sitter and semble-grammars"),
    ("state folder", _home, False, "set BROKER_HOME to a folder that you may write"),
    ("local model runtime", _local_model, True, "pip install '.[local]'"),
)
