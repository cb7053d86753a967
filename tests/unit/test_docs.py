"""What exists is documented: commands, options, error and warning codes; and links lead somewhere."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from agentloop.errors import ErrorCode, WarningCode
from broker.cli import build_parser

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def options(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    """Every (command, option) of a parser, sub-commands included."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                found += options(sub)
        else:
            found += [(parser.prog, o) for o in action.option_strings if o.startswith("--") and o != "--help"]
    return found


def test_every_command_and_option_is_documented() -> None:
    pages = "".join(p.read_text() for p in DOCS.glob("*.md"))
    missing = {
        f"{command} {option}"
        for command, option in options(build_parser())
        if command.removeprefix("agentloop").strip() not in pages or option not in pages
    }
    assert missing == set()


@pytest.mark.parametrize("code", [*ErrorCode, *WarningCode])
def test_every_code_is_documented(code: str) -> None:
    assert f"`{code}`" in (DOCS / "errors.md").read_text()


@pytest.mark.parametrize("page", sorted([*DOCS.glob("*.md"), *ROOT.glob("*.md")]), ids=lambda p: p.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} -> {target}"
