"""A model by name, for as long as a request needs it: builtin, an endpoint, a local file, a recording."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.loop.endpoint import EndpointModel
from agentloop.loop.messages import ChatModel
from agentloop.loop.places import ModelPlaces, api_key, resolve
from agentloop.loop.profiles import Profile
from agentloop.loop.replay import RecordingModel, ReplayModel
from agentloop.request import BUILTIN, REPLAY

if TYPE_CHECKING:
    from agentloop.loop.local_server import Serving

WIRES = "wires.json"  # what probes found, by endpoint and model


@contextmanager
def open_model(
    name: str | None, places: ModelPlaces, record: Path | None = None
) -> Iterator[ChatModel | None]:
    """The model of a name while the block runs; None stands for the built-in planner.

    Args:
        name: None or `builtin`, `smollm2`, `replay:FILE`, the path of a profile, or a profile's name.
        record: a file to write the model's replies to.

    Raises:
        AgentloopError: REQUEST_INVALID for a name that is not known, MODEL_UNAVAILABLE for a local model
            that is not installed or does not start.
    """
    if name is None or name == BUILTIN:
        if record is not None:
            raise AgentloopError(
                ErrorCode.REQUEST_INVALID,
                "There is nothing to record: the built-in planner is deterministic. Name a model.",
                Stage.REQUEST,
                {"field": "record"},
            )
        yield None
        return
    if name.startswith(REPLAY):
        yield _recorded(ReplayModel(Path(name.removeprefix(REPLAY))), record)
        return
    profile = resolve(name, places)
    if profile.kind != "chat":
        raise AgentloopError(
            ErrorCode.REQUEST_INVALID,
            f"The model profile {name} is of kind {profile.kind}; it can't answer.",
            Stage.REQUEST,
            {"field": "execution_profile.model_profile"},
        )
    if profile.endpoint:
        yield _recorded(_endpoint(profile, places, api_key(profile, places)), record)
        return
    from agentloop.loop.served import ServedModel

    named = profile.gguf or profile.weights  # its port is another each time
    model = ServedModel(
        lambda: _serving(profile, places),
        lambda serving: _endpoint(_at(profile, serving), places, serving.api_key, named),
    )
    try:
        yield _recorded(model, record)
    finally:
        model.close()


def _at(profile: Profile, serving: Serving) -> Profile:
    """A profile that we serve as one of an endpoint."""
    return profile.model_copy(update={"endpoint": serving.endpoint, "gguf": "", "weights": "", "serve": ""})


def _serving(profile: Profile, places: ModelPlaces) -> AbstractContextManager[Serving]:
    """A server of the profile's model: a warm service, one that runs on this machine, or our own."""
    if places.services is not None:
        from agentloop.loop.services import leased

        return leased(profile, places.services)
    if places.shared is not None:
        from agentloop.loop.sharing import shared

        return shared(profile, places.shared)
    from agentloop.loop.local_server import serve_profile

    return serve_profile(profile)


def _recorded(model: ChatModel, record: Path | None) -> ChatModel:
    return model if record is None else RecordingModel(model, record)


def _endpoint(profile: Profile, places: ModelPlaces, key: str, named: str = "") -> EndpointModel:
    known = f"{named or profile.endpoint} {profile.model}"
    return EndpointModel(
        profile,
        key,
        wire=_wires(places.home).get(known, ""),
        remember=lambda wire: _remember(places.home, known, wire),
    )


def _wires(home: Path) -> dict[str, str]:
    """What earlier probes found; a file that is missing or broken means: probe again."""
    try:
        values = json.loads((home / WIRES).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(values, dict):
        return {}
    return {str(key): value for key, value in values.items() if value in {"native", "json"}}


def _remember(home: Path, known: str, wire: str) -> None:
    """Keep a probe's result. A folder that can't be written only costs the next run a probe."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        partial = home / f".{WIRES}.{os.getpid()}"
        partial.write_text(json.dumps({**_wires(home), known: wire}, indent=1), "utf-8")
        os.replace(partial, home / WIRES)
    except OSError:
        return
