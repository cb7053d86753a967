"""Model profiles: TOML files that say where a model is and what it can take."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.loop.messages import Window
from agentloop.reasons import faults, told, unreadable

SHIPPED = "profiles_shipped"
PROMPT_MARGIN = 64  # tokens of a chat template around a prompt
Wire = Literal["auto", "native", "json"]
Kind = Literal["chat", "embeddings", "rerank"]
Runtime = Literal["", "llama-server", "xllamacpp", "llama_cpp.server", "vllm serve"]
CacheType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]


class Prices(BaseModel):
    """Money for a million tokens, in any one currency."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt_per_million: Annotated[float, Field(ge=0)] = 0.0
    completion_per_million: Annotated[float, Field(ge=0)] = 0.0
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"


class Profile(BaseModel):
    """One model: an `endpoint` (an OpenAI-compatible base URL), or `gguf` or `weights` to serve here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    kind: Kind = "chat"
    """What the endpoint does: answers, gives vectors of texts, or scores texts against a query."""
    endpoint: str = ""
    """Base URL, such as `http://127.0.0.1:8080/v1`."""
    gguf: str = ""
    """A GGUF file to serve on this machine; relative to the profile's own folder."""
    weights: str = ""
    """What `vllm serve` loads: a folder, or a model's name in the cache of its machine."""
    model: str = "default"
    """The model's name at the endpoint."""
    api_key_env: str = ""
    """Environment variable that holds the key. The key itself never stands in a profile."""
    api_key_file: str = ""
    """File that holds the key; the environment variable wins."""
    serve: Runtime | tuple[str, ...] = ""
    """What serves `gguf` or `weights`, by default xllamacpp and vLLM. Beside an `endpoint` a list may tell
    people the command; agentloop never runs that."""
    binary: str = ""
    """The program of the runtime, where it is not on PATH."""
    serve_args: tuple[str, ...] = ()
    """Further arguments of the runtime."""
    gpu_layers: Annotated[int, Field(ge=-1)] = -1
    """Layers on the GPU; -1: all."""
    flash_attention: Literal["auto", "on", "off"] = "auto"
    cache_type_k: CacheType = "f16"
    """Type of the keys in the KV cache; llama.cpp's runtimes only, as `cache_type_v`."""
    cache_type_v: CacheType = "f16"
    parallel: Annotated[int, Field(ge=1, le=256)] = 1
    """Requests answered side by side, each with `context_tokens` of its own."""
    min_vram_mb: Annotated[int, Field(ge=0)] = 0
    """MiB of GPU memory that the model needs at least; more than the estimate counts."""
    start_seconds: Annotated[float, Field(gt=0, le=3600)] = 300.0
    """How long a server may take to load the model."""
    wire: Wire = "auto"
    context_tokens: Annotated[int, Field(ge=1024)] = 8192
    max_output_tokens: Annotated[int, Field(ge=64)] = 1024
    token_factor: Annotated[float, Field(gt=0, le=4)] = 1.15
    """Tokens of this model per o200k_base token: prompts are fitted with it."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    timeout_seconds: Annotated[float, Field(gt=0, le=3600)] = 120.0
    connect_seconds: Annotated[float, Field(gt=0, le=60)] = 5.0
    max_reply_bytes: Annotated[int, Field(ge=4096, le=64_000_000)] = 2_000_000
    relays_tools: bool = True
    """False: the relay carries no tool traffic. Mode agentic is then refused."""
    served_model: str = ""
    """The name that replies must carry; another one is an error."""
    prices: Prices | None = None
    extra: dict[str, Any] = {}
    """Further members of the request's body, as they are."""
    dimensions: Annotated[int, Field(ge=0, le=65_536)] = 0
    """Embeddings: the length of a vector. Needed, as it is part of what vectors are kept under."""
    model_version: str = ""
    """Embeddings and rerankers: names the weights, in the keys of what is kept."""
    query_prefix: str = ""
    """Embeddings: put before a question, as `query: ` for the e5 models."""
    passage_prefix: str = ""
    """Embeddings: put before a text, as `passage: ` for the e5 models."""
    max_input_chars: Annotated[int, Field(ge=100)] = 2000
    """Embeddings and rerankers: what is sent of a text. e5 reads 512 tokens."""
    batch: Annotated[int, Field(ge=1, le=2048)] = 32
    """Embeddings: texts of one request."""
    candidates: Annotated[int, Field(ge=0, le=2000)] = 0
    """How many of the best candidates are embedded (0: 200) or scored (0: 40)."""
    embed_all: bool = False
    """Embeddings: every chunk instead, for endpoints on a GPU."""
    total_seconds: Annotated[float, Field(gt=0, le=3600)] = 60.0
    """Embeddings and rerankers: all calls of one request."""

    @model_validator(mode="after")
    def _one_place(self) -> Profile:
        if sum(map(bool, (self.endpoint, self.gguf, self.weights))) != 1:
            raise ValueError("give either `endpoint`, or `gguf` or `weights`")
        if wrong := self._wrong_runtime():
            raise ValueError(wrong)
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise ValueError("`endpoint` is an http:// or https:// URL")
        if self.kind != "chat" and not self.endpoint:
            raise ValueError(f"kind {self.kind} needs an `endpoint`")
        if self.kind == "embeddings" and not self.dimensions:
            raise ValueError("kind embeddings needs `dimensions`, the length of a vector")
        if self.max_output_tokens + PROMPT_MARGIN >= self.context_tokens:
            raise ValueError("`max_output_tokens` leaves no room for a prompt in `context_tokens`")
        return self

    def _wrong_runtime(self) -> str:
        """Why the runtime can't serve this, empty where it can."""
        if self.endpoint:
            named = isinstance(self.serve, str) and self.serve
            return "`serve` names a runtime for `gguf` or `weights`, not for an `endpoint`" if named else ""
        if not isinstance(self.serve, str):
            return "`serve` is a runtime's name where agentloop serves the model"
        if self.weights and self.runtime != "vllm serve":
            return '`weights` are for serve = "vllm serve"'
        if self.runtime == "llama_cpp.server" and self.parallel > 1:
            return "llama_cpp.server answers one request at a time: `parallel` is 1"
        if self.cache_type_v not in {"f16", "f32", "bf16"} and self.flash_attention == "off":
            return "a quantised `cache_type_v` needs flash attention"
        return ""

    @property
    def runtime(self) -> str:
        """What serves the model here; empty for an endpoint."""
        if self.endpoint:
            return ""
        named = self.serve if isinstance(self.serve, str) else ""
        return named or ("vllm serve" if self.weights else "xllamacpp")

    @property
    def window(self) -> Window:
        """What one call may send."""
        return Window(
            self.context_tokens - self.max_output_tokens - PROMPT_MARGIN,
            self.token_factor,
            self.timeout_seconds,
            self.relays_tools,
            self.max_output_tokens,
            (self.prices.prompt_per_million, self.prices.completion_per_million)
            if self.prices
            else (0.0, 0.0),
            self.prices.currency if self.prices else "",
        )


def find(name: str, places: Sequence[Path] = ()) -> Profile:
    """A profile by name or by path.

    Args:
        name: a path that ends with `.toml`, or a name that `places` or the shipped examples know.
        places: folders of `NAME.toml`, or TOML files with one table a profile; the first match wins,
            then the shipped examples.

    Raises:
        AgentloopError: REQUEST_INVALID, there is no such profile or it is not valid.
    """
    if name.endswith(".toml"):
        return read(Path(name))
    for place in places:
        if place.is_dir() and (place / f"{name}.toml").is_file():
            return read(place / f"{name}.toml")
        if place.is_file():
            table = _load(place).get(name)
            if isinstance(table, dict):
                return _profile({"name": name, **table}, place)
    shipped = shipped_names()
    if name in shipped:
        text = (files(__package__) / SHIPPED / f"{name}.toml").read_text("utf-8")
        return _profile({"name": name, **tomllib.loads(text)}, _folder(places) / f"{name}.toml")
    known = sorted({*shipped, *(n for place in places for n in names(place))})
    raise AgentloopError(
        ErrorCode.REQUEST_INVALID,
        f"There is no model profile {name}. Known: builtin, smollm2, replay:FILE, {', '.join(known)}; "
        "or give the path of a .toml file.",
        Stage.REQUEST,
        {"field": "execution_profile.model_profile"},
    )


def _folder(places: Sequence[Path]) -> Path:
    """Where the model files of the shipped examples are expected: the last folder of profiles."""
    return next((place for place in reversed(places) if place.suffix != ".toml"), Path())


def names(place: Path) -> list[str]:
    """The names that a folder or a file of profiles defines, sorted."""
    if place.is_dir():
        return sorted(path.stem for path in place.glob("*.toml"))
    if place.is_file():
        return sorted(key for key, value in _load(place).items() if isinstance(value, dict))
    return []


def shipped_names() -> list[str]:
    """The names of the examples that come with the package, sorted."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in (files(__package__) / SHIPPED).iterdir()
        if entry.name.endswith(".toml")
    )


def read(path: Path) -> Profile:
    """The profile of a TOML file; its name is the file's stem unless it names itself.

    Raises:
        AgentloopError: REQUEST_INVALID, with the reason.
    """
    return _profile({"name": path.stem, **_load(path)}, path)


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _invalid(path, f"{unreadable(error)}.") from None


def _profile(values: Mapping[str, Any], path: Path) -> Profile:
    try:
        profile = Profile.model_validate(values)
    except ValidationError as error:
        raise _invalid(path, told(faults(error, Profile, "the profile"))) from None
    gguf = Path(profile.gguf).expanduser()
    if profile.gguf and not gguf.is_absolute():
        return profile.model_copy(update={"gguf": str((path.parent / gguf).absolute())})
    return profile


def _invalid(path: Path, why: str) -> AgentloopError:
    return AgentloopError(
        ErrorCode.REQUEST_INVALID,
        f"The model profile {path.name} can't be used: {why}",
        Stage.REQUEST,
        {"field": "execution_profile.model_profile"},
    )
