"""Embeddings and rerankers behind HTTP, as profiles of kind `embeddings` and `rerank` name them.

Every call has bounds of bytes and time, and is retried twice at most. What comes back is checked before
anybody counts with it: as many vectors or scores as texts, of the right length, finite.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentloop.cache import text_hash
from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.loop.endpoint import post
from agentloop.loop.messages import ModelError
from agentloop.loop.places import ModelPlaces, api_key, resolve
from agentloop.loop.profiles import Kind, Profile
from agentloop.retrieval.semantic import SemanticError

PAUSES = (0.25, 0.5)
"""Seconds before each retry; `Retry-After` makes one longer, up to MAX_PAUSE."""
MAX_PAUSE = 5.0

LARGEST = 1e30
"""Beyond it neither logits nor vectors lie, and sums of squares would overflow."""


class _Client:
    """What both kinds of endpoint share: a profile, its key, and calls that come back as JSON objects."""

    def __init__(self, profile: Profile, key: str = "", pauses: Sequence[float] = PAUSES) -> None:
        self._profile = profile
        self._key = key
        self._pauses = pauses

    @property
    def name(self) -> str:
        """The model's name at the endpoint."""
        return self._profile.model

    def _version(self, *preparation: str) -> str:
        """The profile's `model_version` (the endpoint where it has none) and how texts are prepared."""
        profile = self._profile
        return text_hash(
            profile.model_version or profile.endpoint, *preparation, str(profile.max_input_chars)
        )

    def _ask(self, path: str, body: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """One request with its retries, all within `timeout` seconds.

        Raises:
            SemanticError: no JSON object came back in time.
        """
        importlib.import_module("openai")  # a second that must not count as the endpoint's
        profile = self._profile
        whole = {"model": profile.model, **body, **profile.extra}
        try:
            return asyncio.run(_asked(profile, self._key, path, whole, timeout, self._pauses))
        except ModelError as error:
            raise SemanticError(error.message) from None
        except TimeoutError:
            raise SemanticError("the endpoint did not answer in time") from None


class EndpointEmbedder(_Client):
    """`POST …/embeddings` of any OpenAI-compatible server."""

    @property
    def version(self) -> str:
        """What a kept vector depends on beside its text."""
        return self._version(self._profile.passage_prefix)

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return self._profile.dimensions

    @property
    def batch(self) -> int:
        """Texts of one call."""
        return self._profile.batch

    @property
    def candidates(self) -> int:
        """Lexical candidates that are embedded; 0: every chunk."""
        return 0 if self._profile.embed_all else self._profile.candidates or 200

    @property
    def seconds(self) -> float:
        """What the lane of one request may take."""
        return self._profile.total_seconds

    def embed(self, texts: Sequence[str], *, query: bool, timeout: float) -> list[list[float]]:
        """One vector a text. Called off the event loop.

        Raises:
            SemanticError: the endpoint gave none that can be used.
        """
        profile = self._profile
        prefix = profile.query_prefix if query else profile.passage_prefix
        inputs = [prefix + text[: profile.max_input_chars] for text in texts]
        rows = self._ask("/embeddings", {"input": inputs, "encoding_format": "float"}, timeout).get("data")
        if not isinstance(rows, list) or len(rows) != len(texts):
            raise SemanticError("the endpoint gave another number of vectors than it was given texts")
        by_place = _placed(rows, "embedding", len(texts))
        return [self._checked(by_place[place]) for place in range(len(texts))]

    def _checked(self, vector: Any) -> list[float]:
        if not isinstance(vector, list) or len(vector) != self.dimensions:
            raise SemanticError(f"the endpoint gave a vector that has not {self.dimensions} dimensions")
        return [_finite(value) for value in vector]


class EndpointReranker(_Client):
    """`POST …/rerank` in the form of Jina, Cohere and llama.cpp's server."""

    @property
    def version(self) -> str:
        """What a kept score depends on beside its texts."""
        return self._version()

    @property
    def candidates(self) -> int:
        """How many of the best candidates are scored."""
        return self._profile.candidates or 40

    @property
    def seconds(self) -> float:
        """What reranking may take."""
        return self._profile.total_seconds

    def score(self, query: str, texts: Sequence[str], *, timeout: float) -> list[float]:
        """One score a text, in order. Called off the event loop.

        Raises:
            SemanticError: the endpoint gave none that can be used.
        """
        documents = [text[: self._profile.max_input_chars] for text in texts]
        body = {"query": query, "documents": documents, "top_n": len(documents)}
        rows = self._ask("/rerank", body, timeout).get("results")
        if not isinstance(rows, list) or len(rows) != len(texts):
            raise SemanticError("the endpoint gave another number of scores than it was given texts")
        by_place = _placed(rows, "relevance_score", len(texts))
        return [_finite(by_place[place]) for place in range(len(texts))]


def open_embedder(name: str, places: ModelPlaces) -> EndpointEmbedder:
    """The embedder of a profile.

    Raises:
        AgentloopError: REQUEST_INVALID, there is no such profile or it is of another kind.
    """
    profile = _of_kind(name, places, "embeddings")
    return EndpointEmbedder(profile, api_key(profile, places))


def open_reranker(name: str, places: ModelPlaces) -> EndpointReranker:
    """The reranker of a profile.

    Raises:
        AgentloopError: REQUEST_INVALID, there is no such profile or it is of another kind.
    """
    profile = _of_kind(name, places, "rerank")
    return EndpointReranker(profile, api_key(profile, places))


def _of_kind(name: str, places: ModelPlaces, kind: Kind) -> Profile:
    profile = resolve(name, places)
    if profile.kind == kind:
        return profile
    raise AgentloopError(
        ErrorCode.REQUEST_INVALID,
        f'The model profile {name} is of kind {profile.kind}; here one with `kind = "{kind}"` is needed.',
        Stage.REQUEST,
        {"field": "execution_profile.model_profile"},
    )


async def _asked(
    profile: Profile,
    key: str,
    path: str,
    body: Mapping[str, Any],
    timeout: float,  # noqa: ASYNC109 - handed to the transport too
    pauses: Sequence[float],
) -> dict[str, Any]:
    async with asyncio.timeout(timeout):
        for pause in (*pauses, None):
            try:
                return _object(await post(profile, key, path, body, min(timeout, profile.timeout_seconds)))
            except ModelError as error:
                if pause is None or not error.retryable:
                    raise
                await asyncio.sleep(min(max(pause, error.retry_after or 0.0), MAX_PAUSE))
    raise AssertionError("unreachable: the last try returns or raises")


def _object(raw: bytes) -> dict[str, Any]:
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        raise ModelError("the endpoint's reply is not JSON", retryable=True) from None
    if not isinstance(data, dict):
        raise ModelError("the endpoint's reply is not a JSON object", retryable=True)
    return data


def _placed(rows: Sequence[Any], member: str, count: int) -> dict[int, Any]:
    """The rows' values by their `index`; servers may give them in any order, each exactly once."""
    found: dict[int, Any] = {}
    for row in rows:
        place = row.get("index") if isinstance(row, dict) else None
        if type(place) is not int or not 0 <= place < count or place in found:
            raise SemanticError("the endpoint's reply does not say which text is meant")
        found[place] = row.get(member)
    return found


def _finite(value: Any) -> float:
    if type(value) in {int, float} and -LARGEST <= value <= LARGEST:  # false for NaN
        return float(value)
    raise SemanticError("the endpoint gave something that is no finite number")
