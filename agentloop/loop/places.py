"""Where models and their profiles lie, and a profile by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.loop import smollm2
from agentloop.loop.profiles import Profile, find


@dataclass(frozen=True, slots=True)
class ModelPlaces:
    """Where models and their profiles lie. Filled at the composition root.

    `home` is agentloop's own folder of models (installed files, probe results); `profiles` are folders
    or files of profiles, the first match wins; `environ` is where `api_key_env` is looked up. `shared` is
    where workers of this machine share model servers, None: each has its own; `services` is where warm
    services tell of themselves, None: none is used.
    """

    home: Path
    profiles: Sequence[Path] = ()
    environ: Mapping[str, str] | None = None
    shared: Path | None = None
    services: Path | None = None

    @classmethod
    def under(
        cls, state: Path, profiles_file: str = "", environ: Mapping[str, str] | None = None
    ) -> ModelPlaces:
        """The places below agentloop's state folder: a named file of profiles, `models.toml`, `models/`."""
        named = [Path(profiles_file)] if profiles_file else []
        return cls(state / "models", [*named, state / "models.toml", state / "models"], environ)


def resolve(name: str, places: ModelPlaces) -> Profile:
    """The profile of a name: a file, the operator's, the shipped examples, or smollm2.

    Raises:
        AgentloopError: REQUEST_INVALID, no such profile.
    """
    if name == smollm2.NAME:
        return smollm2.profile(places.home)
    return find(name, places.profiles)


def api_key(profile: Profile, places: ModelPlaces) -> str:
    """The key of a profile, from the environment or its file; empty where it names neither.

    Raises:
        AgentloopError: REQUEST_INVALID, the file can't be read.
    """
    value = (places.environ or {}).get(profile.api_key_env, "") if profile.api_key_env else ""
    if value or not profile.api_key_file:
        return value
    try:
        return Path(profile.api_key_file).expanduser().read_text("utf-8").strip()
    except OSError as error:
        raise AgentloopError(
            ErrorCode.REQUEST_INVALID,
            f"The key file of the model profile {profile.name} can't be read: {error.strerror}.",
            Stage.REQUEST,
            {"field": "execution_profile.model_profile"},
        ) from None
