"""The header of a GGUF file, and what serving the model takes of a GPU's memory.

GGUF is llama.cpp's format: magic, version, counts, typed key-value pairs, then name, shape, type and
offset of each tensor (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Only the header is
read; arrays of text (a vocabulary) are counted, not kept.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentloop.errors import AgentloopError, ErrorCode, Stage

MAGIC = b"GGUF"
VERSIONS = frozenset({2, 3})
MIB = 1 << 20
UBATCH = 512
"""Tokens that llama.cpp computes at once (`--ubatch-size`), by default."""
RUNTIME_MIB = 400
"""The CUDA context and the libraries' own buffers beside what llama.cpp reports."""

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST = 1 << 24  # entries of one value: a vocabulary has some 10^5

CACHE_BYTES: dict[str, float] = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}
"""Bytes of an element of the KV cache by type: blocks of 32 elements with their scales."""

Value = int | float | bool | str | tuple[int | float | bool, ...]


class GgufError(Exception):
    """The file is no GGUF, is cut off, or lacks what is needed to tell its size in memory."""


@dataclass(frozen=True, slots=True)
class Header:
    """What the header says: values by key, the file's size, and where the tensors begin."""

    values: Mapping[str, Value]
    tensors: int
    file_bytes: int
    data_offset: int

    @property
    def weights_bytes(self) -> int:
        """Bytes of all tensors."""
        return max(0, self.file_bytes - self.data_offset)

    @property
    def architecture(self) -> str:
        """`llama`, `qwen3moe`, `gpt-oss`, …"""
        return str(self.values.get("general.architecture", ""))

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number of the architecture, such as `block_count`.

        Raises:
            GgufError: it is missing and there is no default.
        """
        found = self.values.get(f"{self.architecture}.{key}", default)
        if isinstance(found, bool) or not isinstance(found, int):
            raise GgufError(f"its header has no {self.architecture}.{key}")
        return found

    def per_layer(self, key: str, layers: int, default: int) -> list[int]:
        """A number of each layer, which the header gives once or as an array."""
        found = self.values.get(f"{self.architecture}.{key}", default)
        if isinstance(found, tuple):
            listed = [int(value) for value in found[:layers]]
            return listed + [listed[-1] if listed else default] * (layers - len(listed))
        return [self.number(key, default)] * layers


@dataclass(frozen=True, slots=True)
class Need:
    """Memory of a served model in MiB, by what it is for."""

    weights: int
    kv_cache: int
    compute: int
    runtime: int = RUNTIME_MIB

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.kv_cache + self.compute + self.runtime


def read_header(path: Path) -> Header:
    """The header of a GGUF file.

    Raises:
        GgufError: it is no GGUF of a known version, or cut off. OSError: it can't be read.
    """
    with path.open("rb") as file:
        if not file.seek(0, 2):
            raise GgufError("it is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _Reader(data).header()
            except struct.error:
                raise GgufError("its header is cut off") from None


class _Reader:
    """Walks through a header."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def header(self) -> Header:
        if self._data[:4] != MAGIC:
            raise GgufError("it is no GGUF file")
        self._at = 4
        (version,) = self._take("I")
        if version not in VERSIONS:
            raise GgufError(f"its GGUF version {version} is not known")
        tensors, pairs = self._take("QQ")
        if pairs > _MOST or tensors > _MOST:
            raise GgufError("its header is damaged")
        values: dict[str, Value] = {}
        for _ in range(pairs):
            key = self._text()
            value = self._value(*self._take("I"))
            if value is not None:
                values[key] = value
        for _ in range(tensors):
            self._skip_text(1)
            (dimensions,) = self._take("I")
            if dimensions > 8:
                raise GgufError("its header is damaged")
            self._take(f"{dimensions}QIQ")
        alignment = values.get("general.alignment", 32)
        step = alignment if isinstance(alignment, int) and alignment > 0 else 32
        offset = -(-self._at // step) * step
        if offset > len(self._data):
            raise GgufError("its header is cut off")
        return Header(values, tensors, len(self._data), offset)

    def _take(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return found

    def _text(self) -> str:
        (length,) = self._take("Q")
        begin = self._at
        self._at += length
        if self._at > len(self._data):
            raise GgufError("its header is cut off")
        return self._data[begin : self._at].decode("utf-8", "replace")

    def _skip_text(self, count: int) -> None:
        """Pass over texts; a vocabulary has some 10^5 of them."""
        data, at, length = self._data, self._at, struct.Struct("<Q").unpack_from
        for _ in range(count):
            at += 8 + length(data, at)[0]
        self._at = at

    def _value(self, kind: int) -> Value | None:
        """A value; None for arrays of text or of arrays."""
        if kind in _SCALARS:
            return self._take(_SCALARS[kind])[0]
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            raise GgufError(f"its header has a value of the unknown type {kind}")
        inner, count = self._take("IQ")
        if count > _MOST:
            raise GgufError("its header is damaged")
        if inner in _SCALARS:
            return self._take(f"{count}{_SCALARS[inner]}")
        if inner != _STRING:
            raise GgufError("its header has an array of arrays")
        self._skip_text(count)
        return None


def need(
    header: Header,
    *,
    context: int,
    slots: int = 1,
    cache_k: str = "f16",
    cache_v: str = "f16",
    flash_attention: bool = True,
    gpu_layers: int = -1,
) -> Need:
    """The memory that a model takes of a GPU when llama.cpp serves it; an upper bound, not a measurement.

    Args:
        context: tokens of one slot. slots: requests answered side by side, each with its own context.
        gpu_layers: layers on the GPU, -1 for all; the rest of the weights and of the cache stays outside.

    Raises:
        GgufError: the header lacks the model's dimensions.
    """
    layers, width = header.number("block_count"), header.number("embedding_length")
    heads = header.per_layer("attention.head_count", layers, 1)
    kv_heads = header.per_layer("attention.head_count_kv", layers, max(heads, default=1))
    widest = max(heads, default=1) or 1
    key = header.number("attention.key_length", width // widest)
    value = header.number("attention.value_length", width // widest)
    share = 1.0 if gpu_layers < 0 or gpu_layers > layers else gpu_layers / max(1, layers)
    on_gpu = kv_heads if share == 1.0 else kv_heads[len(kv_heads) - gpu_layers :]
    tokens = context * slots
    cache = sum(on_gpu) * tokens * (key * CACHE_BYTES[cache_k] + value * CACHE_BYTES[cache_v])
    ff = max(header.per_layer("feed_forward_length", layers, 4 * width), default=4 * width)
    vocabulary = header.number("vocab_size", 256_000)
    rows = width * 8 + ff * 3 + vocabulary + tokens  # activations, logits, the attention mask
    if not flash_attention:
        rows += context * widest  # the scores of all heads
    return Need(
        weights=_mib(header.weights_bytes * share),
        kv_cache=_mib(cache),
        compute=_mib(rows * UBATCH * 4),
    )


def _mib(size: float) -> int:
    return -int(-size // MIB)


def largest_context(header: Header, room_mib: int, **settings: object) -> int:
    """The largest context, in steps of 1024 tokens, with which a model takes at most `room_mib`; 0: none.

    `settings` are those of `need` but its `context`.

    Raises:
        GgufError: as `need`.
    """
    low, high = 0, header.number("context_length", 1 << 20) // 1024
    while low < high:
        middle = (low + high + 1) // 2
        if need(header, context=middle * 1024, **settings).total <= room_mib:  # type: ignore[arg-type]
            low = middle
        else:
            high = middle - 1
    return low * 1024


def unreadable(path: Path, why: str) -> AgentloopError:
    """The error of a model file that can't be judged."""
    return AgentloopError(
        ErrorCode.REQUEST_INVALID,
        f"The model file {path.name} can't be used: {why}.",
        Stage.REQUEST,
        {"field": "execution_profile.model_profile"},
    )
