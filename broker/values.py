"""Values of settings from text or TOML, each of the type of its default; and the rules of a namespace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from agentloop.request import Classification


class SettingsError(ValueError):
    """A setting is unknown or its value can't be used; the message names it and says what is allowed."""


@dataclass(frozen=True, slots=True)
class NamespaceRules:
    """What one namespace may read and release: a `[namespaces.NAME]` table of the TOML file."""

    roots: tuple[str, ...] = ()
    default_classification: Classification = Classification.INTERNAL
    classification_rules: tuple[tuple[str, Classification], ...] = ()
    allow_excerpts: bool = True
    allow_paths: bool = True
    cache_records: bool = False


def convert(name: str, value: Any, like: Any) -> Any:
    """`value`, from text or TOML, as the type of the default `like`.

    Raises:
        SettingsError: it is of another type.
    """
    if isinstance(like, bool):
        return _boolean(name, value)
    if isinstance(like, int):
        return _whole(name, value)
    if isinstance(like, tuple):
        return _strings(name, value)
    if not isinstance(value, str):
        raise SettingsError(f"{name} is a string")
    return value


def _boolean(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text in {"1", "true", "yes", "on"}:
        return True
    if text in {"0", "false", "no", "off", ""}:
        return False
    raise SettingsError(f"{name} is `true` or `false`")


def _whole(name: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise SettingsError(f"{name} is a whole number") from None
    if number < 0:
        raise SettingsError(f"{name} is not negative")
    return number


def _strings(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part for part in value.split(os.pathsep) if part)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise SettingsError(f"{name} is a list of strings")


def namespace_rules(name: str, table: Any) -> NamespaceRules:
    """The rules of a `[namespaces.NAME]` table.

    Raises:
        SettingsError: a key or a value is off.
    """
    known = {f.name for f in fields(NamespaceRules)}
    if not isinstance(table, dict) or set(table) - known:
        raise SettingsError(f"[namespaces.{name}] takes only {', '.join(sorted(known))}")
    try:
        return NamespaceRules(
            roots=tuple(str(Path(root).expanduser()) for root in table.get("roots", ())),
            default_classification=Classification(table.get("default_classification", "internal")),
            classification_rules=tuple(
                (str(glob), Classification(level))
                for glob, level in dict(table.get("classification_rules", {})).items()
            ),
            allow_excerpts=convert("allow_excerpts", table.get("allow_excerpts", True), True),
            allow_paths=convert("allow_paths", table.get("allow_paths", True), True),
            cache_records=convert("cache_records", table.get("cache_records", False), False),
        )
    except (TypeError, ValueError) as exc:
        raise SettingsError(f"[namespaces.{name}]: {_wrong_level(table) or exc}") from None


def _wrong_level(table: Mapping[str, Any]) -> str:
    """Which classification of a namespace there is none of; empty where all are known."""
    rules = table.get("classification_rules", {})
    given = [
        table.get("default_classification", "internal"),
        *(rules.values() if isinstance(rules, dict) else ()),
    ]
    wrong = [level for level in given if level not in list(Classification)]
    return f"there is no classification {wrong[0]!r}; there are {', '.join(Classification)}" if wrong else ""
