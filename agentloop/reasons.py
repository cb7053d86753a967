"""What is off with a value, in words about JSON or TOML: the field, the reason, what would do instead."""

from __future__ import annotations

import errno
import json
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

Place = tuple[int | str, ...]
OURS = "ours"
"""Type of an error that a model raises with words of its own, and a `field` in its context."""

_PLAIN: Mapping[str, str] = {
    "missing": "is missing",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "is far too large",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a string",
    "string_unicode": "holds a character that is none (a lone surrogate)",
    "string_sub_type": "must be a string",
    "string_pattern_mismatch": "has not the form {pattern}",
    "greater_than": "must be over {gt:,}",
    "greater_than_equal": "must be at least {ge:,}",
    "less_than": "must be under {lt:,}",
    "less_than_equal": "must be at most {le:,}",
    "string_too_long": "must be at most {max_length:,} characters long",
    "string_too_short": "must not be empty",
    "enum": "must be one of {expected}",
    "literal_error": "must be one of {expected}",
}


def faults(exc: ValidationError, model: type[BaseModel], whole: str) -> list[dict[str, str]]:
    """`{"field", "reason"}` of each field that is off; values are not repeated.

    Args:
        model: what was validated, to tell which fields there are.
        whole: what the thing is called where no single field is off, such as `request`.
    """
    found: dict[str, list[str]] = {}
    for error in exc.errors(include_url=False, include_input=False):
        place = _field(error["loc"], model)
        ctx = error.get("ctx", {})
        name = ".".join(map(str, place)) or ctx.get("field") or whole
        reason = _reason(error["type"], ctx, error["msg"], place, model)
        found.setdefault(name, [])
        if reason not in found[name]:
            found[name].append(reason)
    return [{"field": name, "reason": ", or ".join(reasons)} for name, reasons in found.items()]


def told(fields: Sequence[Mapping[str, str]], most: int = 5) -> str:
    """The first faults in one line with its full stop, and how many more there are."""
    more = f" (and {len(fields) - most} more)" if len(fields) > most else ""
    line = "; ".join(f"{f['field']}: {f['reason']}" for f in fields[:most]) + more
    return line if line.endswith("?") else f"{line}."


def _reason(kind: str, ctx: Mapping[str, Any], message: str, place: Place, model: type[BaseModel]) -> str:
    if kind == "extra_forbidden":
        return _unknown(place, model)
    if kind in ("too_short", "too_long"):
        count = ctx["min_length" if kind == "too_short" else "max_length"]
        return f"must hold at {'least' if kind == 'too_short' else 'most'} {count} item{'s' * (count != 1)}"
    if kind in ("enum", "literal_error"):
        expected = str(ctx["expected"]).replace("'", "").replace(" or ", ", ")
        return _PLAIN[kind].format(expected=expected.removeprefix(", "))
    if kind in _PLAIN:
        return _PLAIN[kind].format(**ctx)
    ours = kind in ("value_error", OURS)
    return message.removeprefix("Value error, ") if ours else "has not the form that is needed"


def _unknown(place: Place, model: type[BaseModel]) -> str:
    """An unknown field: which one may be meant, or which there are."""
    import difflib

    known = sorted(_members(place[:-1], model))
    where = ".".join(map(str, place[:-1]))
    reason = f"is no field of {where}" if where else "is no field here"
    near = difflib.get_close_matches(str(place[-1]), known, 1)
    if near:
        return f"{reason}; did you mean `{near[0]}`?"
    return f"{reason}; there are {', '.join(known)}" if known else reason


def _members(place: Place, model: type[BaseModel]) -> list[str]:
    """The fields of the object at `place`; none where that is no model."""
    at: Any = model
    for step in place:
        if isinstance(step, str) and isinstance(at, type) and issubclass(at, BaseModel):
            field = at.model_fields.get(step)
            at = _inner(field.annotation) if field is not None else None
    return list(at.model_fields) if isinstance(at, type) and issubclass(at, BaseModel) else []


def _inner(annotation: Any) -> Any:
    """The model inside `X | None`, `tuple[X, ...]` or `Annotated[X, …]`; None where there is none."""
    arguments = typing.get_args(annotation)
    if not arguments:
        return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    return next((found for argument in arguments if (found := _inner(argument)) is not None), None)


def _field(place: Place, model: type[BaseModel]) -> Place:
    """The place without the names that pydantic gives to the branches of a union."""
    kept: list[int | str] = []
    for step in place:
        branch = isinstance(step, str) and bool(kept) and ("[" in step or "-" in step)
        if not branch or step in _members(tuple(kept), model):
            kept.append(step)
    return tuple(kept)


def unreadable(exc: Exception) -> str:
    """Why a file could not be read as JSON or TOML, in words: no errno, no name of an exception.

    Args:
        exc: what reading, decoding or parsing raised.
    """
    import tomllib

    if isinstance(exc, OSError):
        return _OS.get(type(exc)) or (exc.strerror or "it can't be read").lower()
    if isinstance(exc, UnicodeDecodeError):
        return f"it is not UTF-8 (byte {exc.start})"
    if isinstance(exc, json.JSONDecodeError):
        return f"it is not JSON (line {exc.lineno}, column {exc.colno}: {exc.msg})"
    if isinstance(exc, tomllib.TOMLDecodeError):
        return f"it is not TOML: {exc}"
    if isinstance(exc, RecursionError):
        return "it nests too deeply"
    return str(exc) or "it can't be read"


_OS: Mapping[type[OSError], str] = {
    FileNotFoundError: "there is no such file",
    PermissionError: "it may not be read",
    IsADirectoryError: "it is a folder",
    NotADirectoryError: "a part of its path is no folder",
}


def unwritable(exc: OSError) -> str:
    """Why a file could not be written, in words."""
    if isinstance(exc, PermissionError):
        return "you may not write there"
    return (
        "the disk is full" if exc.errno == errno.ENOSPC else (exc.strerror or "it can't be written").lower()
    )
