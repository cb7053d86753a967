"""How each runtime is started: its command, its environment, where its key goes.

The key is passed in the environment or on a pipe, never as an argument: every user sees arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentloop.loop.profiles import Profile

ALL_LAYERS = 999  # more than any model has
_GGML_TYPES = {
    "f32": 0,
    "f16": 1,
    "q4_0": 2,
    "q4_1": 3,
    "q5_0": 6,
    "q5_1": 7,
    "q8_0": 8,
    "iq4_nl": 20,
    "bf16": 30,
}
"""ggml's numbers of the cache types, which llama_cpp.server wants."""


@dataclass(frozen=True, slots=True)
class Command:
    """A server's arguments, and what its environment holds beside ours."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


def command(profile: Profile, host: str, port: int, key: str) -> Command:
    """The command that serves a profile; xllamacpp has none, see `local_child`."""
    make = {
        "llama-server": _llama_server,
        "llama_cpp.server": _llama_cpp_server,
        "vllm serve": _vllm,
    }[profile.runtime]
    return make(profile, host, port, key)


def _llama_server(profile: Profile, host: str, port: int, key: str) -> Command:
    argv = [profile.binary or "llama-server", "--model", profile.gguf, "--alias", profile.model]
    argv += ["--host", host, "--port", str(port)]
    argv += ["--ctx-size", str(profile.context_tokens * profile.parallel)]  # the server divides it
    argv += ["--parallel", str(profile.parallel)]
    argv += ["--n-gpu-layers", str(_layers(profile))]
    if profile.flash_attention != "auto":  # older servers take no value, and `auto` is the default
        argv += ["--flash-attn", profile.flash_attention]
    argv += ["--cache-type-k", profile.cache_type_k, "--cache-type-v", profile.cache_type_v, "--jinja"]
    return Command((*argv, *profile.serve_args), {"LLAMA_API_KEY": key})


def _llama_cpp_server(profile: Profile, host: str, port: int, key: str) -> Command:
    argv = [profile.binary or sys.executable, "-m", "llama_cpp.server"]
    argv += ["--model", profile.gguf, "--model_alias", profile.model]
    argv += ["--host", host, "--port", str(port), "--n_ctx", str(profile.context_tokens)]
    argv += ["--n_gpu_layers", str(profile.gpu_layers)]
    argv += ["--flash_attn", "false" if profile.flash_attention == "off" else "true"]
    argv += ["--type_k", str(_GGML_TYPES[profile.cache_type_k])]
    argv += ["--type_v", str(_GGML_TYPES[profile.cache_type_v])]
    return Command((*argv, *profile.serve_args), {"API_KEY": key})


def _vllm(profile: Profile, host: str, port: int, key: str) -> Command:
    argv = [profile.binary or "vllm", "serve", profile.weights or profile.gguf]
    argv += ["--served-model-name", profile.model, "--host", host, "--port", str(port)]
    argv += ["--max-model-len", str(profile.context_tokens), "--max-num-seqs", str(profile.parallel)]
    # weights that are not there are an error, not a download
    return Command(
        (*argv, *profile.serve_args),
        {"VLLM_API_KEY": key, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
    )


def child_settings(profile: Profile, host: str, port: int, key: str) -> dict[str, object]:
    """What `local_child` reads as one line of JSON."""
    return {
        "gguf": profile.gguf,
        "model": profile.model,
        "host": host,
        "port": port,
        "key": key,
        "context": profile.context_tokens * profile.parallel,
        "parallel": profile.parallel,
        "gpu_layers": profile.gpu_layers,
        "flash_attention": profile.flash_attention,
        "cache_type_k": profile.cache_type_k,
        "cache_type_v": profile.cache_type_v,
    }


def _layers(profile: Profile) -> int:
    return ALL_LAYERS if profile.gpu_layers < 0 else profile.gpu_layers
