"""Whether a model that is served on a node fits the memory it gets there, told before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentloop.loop.gguf import GgufError, Need, largest_context, need, read_header, unreadable
from agentloop.loop.profiles import Profile


@dataclass(frozen=True, slots=True)
class Fit:
    """What a profile takes and what there is, in MiB.

    `need` is None where there is no GGUF to judge: then `min_vram_mb` alone counts.
    `largest_context` is the most tokens a slot could have in that room, 0 where that isn't known.
    """

    profile: str
    room: int
    need: Need | None
    min_vram: int
    context: int
    parallel: int
    cache_types: tuple[str, str]
    largest_context: int

    @property
    def required(self) -> int:
        """The estimate, or what the profile declares where that is more."""
        return max(self.need.total if self.need else 0, self.min_vram)

    @property
    def fits(self) -> bool:
        """Whether there is room enough."""
        return self.required <= self.room

    def why_not(self, place: str) -> str:
        """A sentence that says what is too large for `place`, and what to change."""
        if self.need is None or self.min_vram > self.need.total:
            parts = f"min_vram_mb={self.min_vram}"
        else:
            parts = (
                f"{self.need.weights} MiB of weights, {self.need.kv_cache} MiB of KV cache for "
                f"{self.context} tokens x {self.parallel} as {'/'.join(self.cache_types)}, "
                f"{self.need.compute + self.need.runtime} MiB of buffers"
            )
        told = f"The model {self.profile} needs {self.required} MiB ({parts}); {place} has {self.room} MiB."
        if self.largest_context and self.need is not None:
            most = min(self.largest_context, self.context)
            return f"{told} Set context_tokens to {most} or less, or cache_type_k and cache_type_v to q8_0."
        return f"{told} Take a smaller model, or another tier."


def fit(profile: Profile, room_mib: int) -> Fit:
    """What a profile takes of `room_mib`. An endpoint takes nothing: it is served elsewhere.

    Raises:
        AgentloopError: REQUEST_INVALID, its GGUF can't be read.
    """
    taken, most = _estimate(profile, room_mib) if profile.gguf else (None, 0)
    return Fit(
        profile=profile.name,
        room=room_mib,
        need=taken,
        min_vram=0 if profile.endpoint else profile.min_vram_mb,
        context=profile.context_tokens,
        parallel=profile.parallel,
        cache_types=(profile.cache_type_k, profile.cache_type_v),
        largest_context=most,
    )


def _estimate(profile: Profile, room: int) -> tuple[Need, int]:
    path = Path(profile.gguf)
    try:
        header = read_header(path)
        settings = {
            "slots": profile.parallel,
            "cache_k": profile.cache_type_k,
            "cache_v": profile.cache_type_v,
            "flash_attention": profile.flash_attention != "off",
            "gpu_layers": profile.gpu_layers,
        }
        taken = need(header, context=profile.context_tokens, **settings)  # type: ignore[arg-type]
        return taken, largest_context(header, room, **settings)
    except GgufError as error:
        raise unreadable(path, str(error)) from None
    except OSError as error:
        raise unreadable(path, error.strerror or "it can't be read") from None
