"""Whether a model fits its tier, asked before a run is submitted, so that no GPU is held in vain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.request import BUILTIN, REPLAY
from broker.config import Settings
from broker.planner import RESOURCES, Tier

if TYPE_CHECKING:
    from agentloop.loop.fit import Fit


def room_mib(settings: Settings, tier: Tier) -> int:
    """MiB that a model may take on a tier: of the GPU, on the CPU tier of a run's memory."""
    return {
        Tier.CPU: RESOURCES[Tier.CPU][1],
        Tier.P40: settings.slurm_vram_p40_mb,
        Tier.A100: settings.slurm_vram_a100_mb,
    }[tier]


def judge(settings: Settings, name: str, tier: Tier) -> Fit:
    """What a profile takes of a tier.

    Raises:
        AgentloopError: REQUEST_INVALID, no such profile, or its model file can't be read.
    """
    from agentloop.loop.fit import fit
    from agentloop.loop.places import ModelPlaces, resolve

    places = ModelPlaces.under(settings.home_path, settings.model_profiles_file)
    return fit(resolve(name, places), room_mib(settings, tier))


def refuse_unknown(settings: Settings, name: str) -> None:
    """Refuse the name of a model profile that this broker does not know, before a job waits for it.

    Paths are left to the worker: whether a file is there is nothing to tell a caller.

    Raises:
        AgentloopError: REQUEST_INVALID, with the names that it knows.
    """
    from agentloop.loop.places import ModelPlaces
    from agentloop.loop.profiles import find
    from agentloop.loop.smollm2 import NAME

    if name not in {"", BUILTIN, NAME} and not name.startswith(REPLAY) and not name.endswith(".toml"):
        find(name, ModelPlaces.under(settings.home_path, settings.model_profiles_file).profiles)


def refuse_misfit(settings: Settings, name: str, tier: Tier) -> None:
    """Refuse a model that a GPU tier can't hold. A file that only the nodes see is not judged.

    Raises:
        AgentloopError: REQUEST_INVALID, with what it needs, what there is, and what to change.
    """
    from agentloop.loop.places import ModelPlaces, resolve

    if tier is Tier.CPU or not name or name == BUILTIN or name.startswith(REPLAY):
        return
    places = ModelPlaces.under(settings.home_path, settings.model_profiles_file)
    profile = resolve(name, places)
    if profile.gguf and not Path(profile.gguf).is_file():
        profile = profile.model_copy(update={"gguf": "", "weights": "elsewhere"})
    from agentloop.loop.fit import fit

    found = fit(profile, room_mib(settings, tier))
    if not found.fits:
        raise AgentloopError(
            ErrorCode.REQUEST_INVALID,
            found.why_not(f"the tier {tier}"),
            Stage.REQUEST,
            {
                "field": "execution_profile.model_profile",
                "required_mib": found.required,
                "available_mib": found.room,
            },
        )
