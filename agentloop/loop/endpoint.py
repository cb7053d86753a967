"""Any OpenAI-compatible endpoint as a `ChatModel`. The one module that imports `openai`.

One HTTP client a call: a server that restarts between calls does no harm, and nothing stays open.
Redirects and proxies are off: the worker connects to the endpoint of the profile and nowhere else.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from agentloop.egress import permit
from agentloop.loop.messages import FinalTurn, Message, ModelError, Reply, ToolSpec, Window
from agentloop.loop.profiles import Profile
from agentloop.loop.wires import json_body, native_body, parse_json, parse_native

_OVERFLOW = ("context", "too long", "n_ctx", "maximum length")
_PROBE_TOOL = ToolSpec(
    "ping",
    "Answers with the word it was given.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
_PROBE = (
    Message("system", "You test a connection. Use the tool."),
    Message("user", "Call the tool ping with the word ready."),
)
Remember = Callable[[str], None]


class ReplyRefused(Exception):
    """A reply that is not read: longer than its cap, or compressed although that was not asked for."""


class EndpointModel:
    """A chat model behind HTTP.

    Args:
        profile: where it is and what it takes.
        api_key: sent as a bearer token; empty sends a placeholder, as local servers want one.
        wire: what an earlier probe found, for a profile that says `auto`.
        remember: told what a probe found.
    """

    def __init__(
        self, profile: Profile, api_key: str = "", *, wire: str = "", remember: Remember | None = None
    ) -> None:
        self._profile = profile
        self._key = api_key
        self._wire = profile.wire if profile.wire != "auto" else wire
        self._remember = remember
        self._served = profile.served_model

    @property
    def name(self) -> str:
        """The profile's name."""
        return self._profile.name

    @property
    def window(self) -> Window:
        """The bounds of one call."""
        return self._profile.window

    @property
    def wire(self) -> str:
        """The wire form, empty until a probe found it."""
        return self._wire

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        timeout: float,  # noqa: ASYNC109 - handed to the transport too
        final: FinalTurn | None = None,
    ) -> Reply:
        """One request, no retry.

        Raises:
            ModelError: the endpoint gave no usable reply; the message holds no body text.
        """
        importlib.import_module("openai")  # a second that must not count as the endpoint's
        async with asyncio.timeout(timeout):
            if not self._wire:
                await self.probe(timeout)
            if self._wire == "native":
                return parse_native(await self._post(native_body(messages, tools), timeout))
            return parse_json(await self._post(json_body(messages, tools, final), timeout), bool(tools))

    async def probe(self, timeout: float) -> str:  # noqa: ASYNC109
        """Find the wire form with one request: whether a tool call comes back as one.

        Raises:
            ModelError: the endpoint can't be reached; nothing is remembered then.
        """
        try:
            reply = parse_native(await self._post(native_body(_PROBE, (_PROBE_TOOL,)), timeout))
            native = any(c.name == "ping" and _is_object(c.arguments) for c in reply.tool_calls)
        except ModelError as error:
            if error.retryable and not str(error).startswith("the endpoint answered 50"):
                raise
            native = False
        self._wire = "native" if native else "json"
        if self._remember is not None:
            self._remember(self._wire)
        return self._wire

    async def _post(self, body: Mapping[str, Any], timeout: float) -> dict[str, Any]:  # noqa: ASYNC109
        raw = await self._raw({**self._profile.extra, **body}, timeout)
        try:
            data = json.loads(raw)
        except (ValueError, RecursionError):
            raise ModelError("the endpoint's reply is not JSON", retryable=True) from None
        if not isinstance(data, dict):
            raise ModelError("the endpoint's reply is not a JSON object", retryable=True)
        self._check_served(data.get("model"))
        return data

    def _check_served(self, served: Any) -> None:
        if not isinstance(served, str) or not served:
            return
        if self._served and served != self._served:
            raise ModelError("the endpoint serves another model than before")
        self._served = served

    async def _raw(self, body: Mapping[str, Any], timeout: float) -> bytes:  # noqa: ASYNC109
        profile = self._profile
        bounds = {"temperature": profile.temperature, "max_tokens": profile.max_output_tokens}
        whole = {"model": profile.model, **bounds, **body}
        return await post(profile, self._key, "/chat/completions", whole, timeout)


async def post(
    profile: Profile,
    api_key: str,
    path: str,
    body: Mapping[str, Any],
    timeout: float,  # noqa: ASYNC109
) -> bytes:
    """One POST below the profile's endpoint, no retry. Gives the reply's body, at most `max_reply_bytes`.

    Raises:
        ModelError: there is no reply; the message holds no body text.
    """
    import openai

    permit(profile.endpoint)
    http = _capped_client(openai, profile.max_reply_bytes, timeout, profile.connect_seconds)
    client = openai.AsyncOpenAI(
        base_url=profile.endpoint,
        api_key=api_key or "none",
        max_retries=0,
        timeout=timeout,
        http_client=http,
    )
    try:
        async with client:
            reply = await client.post(path, cast_to=_response_type(openai), body=dict(body))
            return bytes(reply.content)
    except openai.APIStatusError as error:
        raise _status_error(error.status_code, error.response.headers, error.body) from None
    except openai.APITimeoutError:
        raise ModelError("the endpoint did not answer in time", retryable=True) from None
    except openai.APIConnectionError as error:
        if isinstance(error.__cause__, ReplyRefused):
            raise ModelError(str(error.__cause__)) from None
        raise ModelError(
            "the endpoint can't be reached, or closed the connection", retryable=True, unreachable=True
        ) from None
    except ReplyRefused as error:
        raise ModelError(str(error)) from None
    except openai.OpenAIError:
        raise ModelError("the endpoint's reply has no form that is known", retryable=True) from None


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _status_error(status: int, headers: Mapping[str, str], body: object) -> ModelError:
    """The error of an HTTP status. Bodies may repeat the prompt, so none of their text is kept."""
    told = str(body).casefold()[:4000]
    overflow = status in {400, 413, 500} and any(word in told for word in _OVERFLOW)
    retryable = status in {408, 409, 425, 429} or status >= 500
    what = "says that the prompt exceeds its context" if overflow else f"answered {status}"
    return ModelError(
        f"the endpoint {what}", retryable=retryable, retry_after=_retry_after(headers), overflow=overflow
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds of `Retry-After`; a date is not understood and counts as absent."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _transport(openai: Any) -> Any:
    """The HTTP library that this `openai` was built on: httpx, or its successor."""
    return importlib.import_module(openai.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0])


def _response_type(openai: Any) -> Any:
    """The class that asks the client for a reply as it came."""
    return _transport(openai).Response


def _capped_client(openai: Any, most: int, timeout: float, connect: float) -> Any:
    """An HTTP client that stops reading a body after `most` bytes."""
    http = _transport(openai)

    class Capped(http.AsyncByteStream):  # type: ignore[misc,name-defined]
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = most
            async for part in self._inner:
                left -= len(part)
                if left < 0:
                    raise ReplyRefused(f"the endpoint's reply is longer than {most} bytes")
                yield part

        async def aclose(self) -> None:
            await self._inner.aclose()

    async def cap(response: Any) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ReplyRefused("the endpoint's reply is compressed, which was not asked for")
        response.stream = Capped(response.stream)

    return openai.DefaultAsyncHttpxClient(
        timeout=http.Timeout(timeout, connect=min(connect, timeout)),
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [cap]},
        follow_redirects=False,
        trust_env=False,
    )
