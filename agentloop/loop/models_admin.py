"""What `agentloop model list|show|install|probe` does, as plain functions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.loop import profiles, smollm2
from agentloop.loop.brains import open_model
from agentloop.loop.endpoint import EndpointModel
from agentloop.loop.messages import ModelError
from agentloop.loop.places import ModelPlaces, resolve
from agentloop.loop.served import ServedModel
from agentloop.request import BUILTIN


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One line of `model list`."""

    name: str
    origin: str  # built in, installed, not installed, profile, example
    where: str


def list_models(places: ModelPlaces) -> list[ModelRow]:
    """Every model that `--model` takes by name: built-in ones, the operator's profiles, the examples."""
    installed = (places.home / smollm2.FILE).is_file()
    rows = [
        ModelRow(BUILTIN, "built in", "no weights"),
        ModelRow(smollm2.NAME, "installed" if installed else "not installed", "this machine"),
    ]
    seen = {row.name for row in rows}
    for place in places.profiles:
        for name in profiles.names(place):
            if name not in seen:
                seen.add(name)
                rows.append(_row(name, "profile", places))
    rows += [_row(name, "example", places) for name in profiles.shipped_names() if name not in seen]
    return rows


def _row(name: str, origin: str, places: ModelPlaces) -> ModelRow:
    try:
        profile = resolve(name, places)
    except AgentloopError as error:
        return ModelRow(name, origin, error.message)
    return ModelRow(name, origin, profile.endpoint or profile.gguf or profile.weights)


def show_model(name: str, places: ModelPlaces) -> dict[str, Any]:
    """A profile with all its settings, as JSON values. A key never stands in a profile.

    Raises:
        AgentloopError: REQUEST_INVALID, no such profile.
    """
    if name == BUILTIN:
        return {"name": BUILTIN, "weights": "none", "deterministic": True}
    return resolve(name, places).model_dump(mode="json", exclude_none=True)


def install_model(name: str, places: ModelPlaces) -> str:
    """Install a model file, and say what is still missing to use it.

    Raises:
        AgentloopError: REQUEST_INVALID for a name that is not `smollm2`; MODEL_UNAVAILABLE when it can't
            be had.
    """
    if name != smollm2.NAME:
        raise AgentloopError(
            ErrorCode.REQUEST_INVALID,
            f"Only {smollm2.NAME} can be installed. Other models are served by their own server.",
            Stage.REQUEST,
            {"field": "model"},
        )
    path = smollm2.install(places.home)
    if find_spec("xllamacpp") is None:
        return f"{path}\nTo run it, install the extra: pip install '.[local]'"
    return str(path)


def probe_model(name: str, places: ModelPlaces, seconds: float = 60.0) -> dict[str, Any]:
    """Ask a model one question to find its wire form. Gives `{"name", "wire"}`.

    Raises:
        AgentloopError: MODEL_UNAVAILABLE, it does not answer.
    """
    with open_model(name, places) as model:
        if not isinstance(model, EndpointModel | ServedModel):
            return {"name": name, "wire": "none: it is no endpoint"}
        try:
            wire = asyncio.run(model.probe(seconds))
        except (ModelError, TimeoutError) as error:
            raise AgentloopError(
                ErrorCode.MODEL_UNAVAILABLE, f"The model {name} does not answer: {error}.", Stage.LOOP
            ) from None
        return {"name": name, "wire": wire}
