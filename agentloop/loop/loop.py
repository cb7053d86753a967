"""The bounded tool loop: ask, run the calls, until the model answers or a limit is reached.

Every limit is checked in `Spent.stop`, before anything is spent. Only the text of a turn that asked for
no tool can be the answer; where a `FinalTurn` is given, only a text that `accepts` takes is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentloop.clock import Clock
from agentloop.loop.context import fit
from agentloop.loop.limits import ENDS, Limits, Spent
from agentloop.loop.messages import (
    ChatModel,
    FinalTurn,
    Message,
    ModelError,
    Reply,
    ToolCall,
    ToolSpec,
    Usage,
)
from agentloop.loop.tools import Call, FormatError, Toolbox, parse_call, render

Sleep = Callable[[float], Awaitable[None]]
MAX_CALLS_KEPT = 16  # calls of one turn that history keeps; the rest are refused in one sentence
FIRST_BACKOFF_SECONDS = 0.25
OVERFLOW_SHRINK = 0.7  # the next attempt after an overflow sends at most this share


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a loop ended. `text` is the answer, empty where there is none; `failure` says why.

    `trace` holds one JSON object a turn and no times: the same replies give the same trace.
    """

    text: str
    stop_reason: str
    tool_calls: int
    refused: int
    turns: int
    retries: int
    usage: Usage
    messages: tuple[Message, ...]
    trace: tuple[dict[str, Any], ...]
    model_seconds: float
    failure: str = ""


@dataclass(slots=True)
class _State:
    model: ChatModel
    tools: Toolbox
    limits: Limits
    spent: Spent
    history: list[Message]
    final: FinalTurn | None
    accepts: Callable[[str], bool]
    sleep: Sleep
    done: set[Call] = field(default_factory=set)
    trace: list[dict[str, Any]] = field(default_factory=list)
    context_tokens: int = 0


async def run(
    model: ChatModel,
    tools: Toolbox,
    messages: Sequence[Message],
    limits: Limits,
    clock: Clock,
    *,
    final: FinalTurn | None = None,
    accepts: Callable[[str], bool] = bool,
    sleep: Sleep = asyncio.sleep,
) -> Outcome:
    """Drive `model` over `tools` within `limits`. A model that fails is an outcome, not an exception.

    Args:
        final: what the tools-free turn asks for; without it the history alone is sent.
        accepts: whether a text is an answer. A text that is not, in a turn that offered tools, is
            narration: it leads to the tools-free turn. There it is an error of that call.
        sleep: how back-off waits, in seconds.
    """
    state = _State(
        model,
        tools,
        limits,
        Spent(clock, clock.monotonic()),
        list(messages),
        final,
        accepts,
        sleep,
        context_tokens=limits.context_tokens,
    )
    try:
        text, reason = await _turns(state)
    except ModelError as error:
        return _outcome(state, "", "model_unavailable", error.message)
    failure = "" if text else f"the loop ended without an answer ({reason})"
    return _outcome(state, text, reason, failure)


async def _turns(state: _State) -> tuple[str, str]:
    """The answer and the stop reason."""
    while not (reason := state.spent.stop(state.limits)):
        reply = await _ask(state, state.tools.specs)
        if reply.malformed:
            _malformed_turn(state, reply)
        elif reply.tool_calls:
            _run_calls(state, reply)
        elif state.accepts(reply.text):
            return reply.text, "answered"
        else:
            state.history.append(Message("assistant", reply.text))
            reason = "answered"
            break
    if reason in ENDS:
        return "", reason
    if state.final is not None:
        state.history.append(Message("user", state.final.instruction))
    return (await _ask(state, ())).text, reason


async def _ask(state: _State, tools: Sequence[ToolSpec]) -> Reply:
    """One turn: a model call with its own bounded retries. The loop before it is never replayed."""
    spent, limits = state.spent, state.limits
    spent.turns += 1
    entry: dict[str, Any] = {"turn": spent.turns, "tools": [t.name for t in tools]}
    state.trace.append(entry)
    for attempt in range(limits.retries + 1):
        try:
            reply = await _attempt(state, tools, entry)
        except ModelError as error:
            entry.setdefault("errors", []).append(error.message)
            if error.overflow and state.context_tokens:
                state.context_tokens = int(state.context_tokens * OVERFLOW_SHRINK)
            last = attempt == limits.retries or not (error.retryable or error.overflow)
            wait = min(
                error.retry_after or FIRST_BACKOFF_SECONDS * 2**attempt,
                limits.max_backoff_seconds,
            )
            if last or wait >= spent.remaining(limits):
                raise
            spent.retries += 1
            await state.sleep(max(wait, 0.0))
        else:
            entry.update(_described(reply))
            return reply
    raise AssertionError("the last attempt returns or raises")


async def _attempt(state: _State, tools: Sequence[ToolSpec], entry: dict[str, Any]) -> Reply:
    sent, replaced = fit(state.history, tools, state.context_tokens, state.limits.token_factor)
    if replaced:
        entry["left_out"] = replaced
    bound = min(state.limits.call_seconds, state.spent.remaining(state.limits))
    if bound <= 0:
        raise ModelError("the time of the request was used up before the model answered")
    started = state.spent.clock.monotonic()
    try:
        async with asyncio.timeout(bound):
            reply = await state.model.complete(sent, tools, timeout=bound, final=state.final)
    except TimeoutError:
        raise ModelError(f"the model gave no reply in {bound:.0f} s", retryable=True) from None
    finally:
        state.spent.model_seconds += state.spent.clock.monotonic() - started
    state.spent.usage = state.spent.usage.plus(reply.usage)
    return _checked(state, reply, bool(tools))


def _checked(state: _State, reply: Reply, offered: bool) -> Reply:
    """A usable reply; a reply that is none is an error of this call (and has been paid for).

    Calls in a reply to a request that offered no tools are ignored.
    """
    if not offered:
        reply = Reply(reply.text, (), reply.finish_reason, reply.reasoning, reply.usage)
    if reply.finish_reason == "length":
        raise ModelError("the reply was cut off at the output cap", retryable=True)
    if not reply.text.strip() and not reply.tool_calls and not reply.malformed:
        what = "only reasoning" if reply.reasoning else "nothing"
        raise ModelError(f"the reply holds {what}", retryable=True)
    if not offered and not state.accepts(reply.text):
        raise ModelError("the reply to the last turn is no answer in the form asked for", retryable=True)
    return reply


def _malformed_turn(state: _State, reply: Reply) -> None:
    """A reply of the `json` wire form that is no action: the model is told, and the turn counts."""
    state.spent.format_errors += 1
    state.spent.tool_calls += 1
    state.history.append(Message("user", f"That was no action: {reply.malformed}"))


def _run_calls(state: _State, reply: Reply) -> None:
    """Run the calls of one turn in their order. Each counts, and each gets its own tool message."""
    kept = reply.tool_calls[:MAX_CALLS_KEPT]
    calls: list[ToolCall] = []
    results: list[Message] = []
    logged: list[dict[str, Any]] = []
    bad = 0
    for number, asked in enumerate(kept):
        call_id = f"t{state.spent.turns}_{number + 1}"
        call, payload, log = _one_call(state, asked)
        bad += call is None
        # A name or arguments that did not parse never enter history: servers choke on them.
        clean = ToolCall(call_id, call.tool, call.arguments) if call else _placeholder(state, call_id, asked)
        calls.append(clean)
        left = max(0, state.limits.max_tool_calls - state.spent.tool_calls)
        results.append(Message("tool", render(payload, left), tool_call_id=call_id))
        logged.append(log)
    dropped = len(reply.tool_calls) - len(kept)
    if dropped:
        state.spent.refused += dropped
        note = {"error": f"{dropped} more calls of this turn were refused: too many at once."}
        results[-1] = Message("tool", render(note, 0), tool_call_id=calls[-1].id)
        logged.append({"refused": dropped, "reason": "too many calls in one turn"})
    state.spent.format_errors = state.spent.format_errors + 1 if bad == len(kept) else 0
    state.trace[-1]["calls"] = logged
    state.history.append(Message("assistant", reply.text, tuple(calls)))
    state.history.extend(results)


def _one_call(state: _State, asked: ToolCall) -> tuple[Call | None, dict[str, Any], dict[str, Any]]:
    """The call (None where it was malformed), its payload for the model, and its line of the trace."""
    spent, limits = state.spent, state.limits
    try:
        call = parse_call(asked.name, asked.arguments)
    except FormatError as error:
        spent.tool_calls += spent.tool_calls < limits.max_tool_calls
        log = {"tool": asked.name[:64], "status": "malformed", "arguments": asked.arguments[:200]}
        return None, {"error": str(error)}, log
    log = {"tool": call.tool, "argument": call.argument}
    if spent.tool_calls >= limits.max_tool_calls:
        spent.refused += 1
        error_text = "Refused: the budget of tool calls is spent. Answer from what you have."
        return call, {"error": error_text}, {**log, "status": "refused"}
    spent.tool_calls += 1
    if call in state.done:
        error_text = "Refused: this very call was made before. Ask for something else, or answer."
        return call, {"error": error_text}, {**log, "status": "repeated"}
    state.done.add(call)
    result = state.tools.execute(call)
    status = "failed" if result.failed else "ok"
    return call, result.payload, {**log, "status": status, "refs": list(result.refs)}


def _placeholder(state: _State, call_id: str, asked: ToolCall) -> ToolCall:
    known = {spec.name for spec in state.tools.specs}
    name = asked.name if asked.name in known else next(iter(sorted(known)))
    return ToolCall(call_id, name, "{}")


def _described(reply: Reply) -> dict[str, Any]:
    """A reply as the trace keeps it."""
    kept: dict[str, Any] = {"finish": reply.finish_reason}
    for key in ("text", "reasoning", "malformed"):
        value = getattr(reply, key)
        if value:
            kept[key] = value
    return kept


def _outcome(state: _State, text: str, reason: str, failure: str) -> Outcome:
    spent = state.spent
    return Outcome(
        text,
        reason,
        spent.tool_calls,
        spent.refused,
        spent.turns,
        spent.retries,
        spent.usage,
        tuple(state.history),
        tuple(state.trace),
        spent.model_seconds,
        failure,
    )
