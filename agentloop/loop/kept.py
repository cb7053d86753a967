"""A model whose replies lie in the private cache: the same prompt to the same model is asked once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from agentloop.cache import Cache, model_output_key, text_hash, value_hash
from agentloop.loop.messages import ChatModel, FinalTurn, Message, Reply, ToolSpec, Window
from agentloop.loop.replay import asked_of, reply_from_json, reply_to_json


@dataclass(frozen=True, slots=True)
class OutputSpace:
    """What a reply depends on beside its prompt, as the specification's key of model outputs has it."""

    namespace: str
    version: str  # of the model: a hash of what its profile says
    template: str  # of the prompts: this release's code
    policy_mode: str


class CachedModel:
    """Answers from the cache, asks the other model for the rest. Failed and unusable replies aren't kept."""

    def __init__(self, inner: ChatModel, cache: Cache, space: OutputSpace) -> None:
        self._inner = inner
        self._cache = cache
        self._space = space

    @property
    def name(self) -> str:
        """The other model's name."""
        return self._inner.name

    @property
    def window(self) -> Window:
        """The other model's bounds."""
        return self._inner.window

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        timeout: float,  # noqa: ASYNC109 - part of the protocol
        final: FinalTurn | None = None,
    ) -> Reply:
        """The kept reply, or the other model's.

        Raises:
            ModelError: as the other model.
        """
        key = self._key(messages, tools, final)
        data = self._cache.get(key)
        if data is not None:
            return reply_from_json(json.loads(data))
        reply = await self._inner.complete(messages, tools, timeout=timeout, final=final)
        if (
            not reply.malformed
            and (reply.text.strip() or reply.tool_calls)
            and reply.finish_reason != "length"
        ):
            self._cache.put(key, json.dumps(reply_to_json(reply), ensure_ascii=True).encode())
        return reply

    def _key(self, messages: Sequence[Message], tools: Sequence[ToolSpec], final: FinalTurn | None) -> str:
        asked = json.dumps(asked_of(messages, tools), sort_keys=True)
        return model_output_key(
            self._space.namespace,
            model=self._inner.name,
            model_version=self._space.version,
            prompt_template=self._space.template,
            input_hash=text_hash(asked),
            output_schema=value_hash([final.instruction, dict(final.schema)]) if final else "free",
            policy_mode=self._space.policy_mode,
        )
