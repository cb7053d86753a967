"""The loop as the pipeline calls it: build the tools and the opening, drive a brain, read its claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentloop.clock import Clock
from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.loop.claims import ModelClaim, Rejected, is_final, parse_final
from agentloop.loop.limits import Limits
from agentloop.loop.loop import Outcome, run
from agentloop.loop.messages import ChatModel, Usage, Window
from agentloop.loop.planner import BuiltinPlanner
from agentloop.loop.prompts import PROMPT_VERSION, final_turn, opening
from agentloop.loop.tools import Toolbox
from agentloop.request import CompressRequest
from agentloop.searcher import Searcher

MAX_CLAIMS = 24
CLAIM_TOKENS = 80  # room for a claim in JSON, to ask for no more claims than the output cap holds
EXTRA_TURNS = 4  # turns beyond one a call: malformed replies must not end a loop early


@dataclass(frozen=True, slots=True)
class LoopResult:
    """What the loop gave. The searches and reads themselves are in the session that it drove.

    `failure` is empty unless the model failed; then what was found so far still counts, and `claims` is
    empty. `trace` is the content of the local artifact `loop_trace.json`: deterministic, no times.
    """

    trace: dict[str, Any]
    tool_calls: int
    turns: int
    stop_reason: str
    model_name: str
    claims: tuple[ModelClaim, ...] = ()
    answer: tuple[ModelClaim, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    seen: tuple[str, ...] = ()  # refs that the tools returned
    usage: Usage = field(default_factory=Usage)
    cost: dict[str, float] = field(default_factory=dict)
    failure: str = ""


async def explore(
    session: Searcher,
    request: CompressRequest,
    *,
    model: ChatModel | None,
    clock: Clock,
    deadline: float,
    notes: Sequence[str] = (),
) -> LoopResult:
    """Let a brain search and read `session` within the request's limits.

    Args:
        model: None is the built-in planner.
        deadline: on `clock.monotonic()`, when the whole request must be done.
        notes: what the model must know of data that were left out.

    Raises:
        AgentloopError: REQUEST_INVALID, the model's relay can't carry tool traffic.
    """
    question, params = request.question, request.task_params
    brain = model or BuiltinPlanner(question, params.max_tool_calls)
    window = brain.window
    if not window.relays_tools:
        raise AgentloopError(
            ErrorCode.REQUEST_INVALID,
            f"The model profile {brain.name} says that its relay carries no tool traffic, so mode agentic "
            "can't use it. Ask with mode single_shot, or use another profile.",
            Stage.LOOP,
            {"model": brain.name, "mode": str(params.mode)},
        )
    limits = Limits(
        max_tool_calls=params.max_tool_calls,
        max_turns=params.max_tool_calls + EXTRA_TURNS,
        context_tokens=window.prompt_tokens,
        token_factor=window.token_factor,
        seconds=max(0.0, deadline - clock.monotonic()),
        call_seconds=window.call_seconds,
    )
    tools = Toolbox(session)
    start = opening(question, params.max_tool_calls, notes)
    most = max(2, min(MAX_CLAIMS, window.reply_tokens // (CLAIM_TOKENS * (2 if params.answer else 1))))
    final = final_turn(params.answer, most)
    outcome = await run(brain, tools, start, limits, clock, final=final, accepts=is_final)
    return _result(outcome, brain.name, tools, window)


def _result(outcome: Outcome, name: str, tools: Toolbox, window: Window) -> LoopResult:
    parsed = parse_final(outcome.text, tools.seen.keys(), MAX_CLAIMS) if outcome.text else None
    claims = parsed.claims if parsed else ()
    answer = parsed.answer if parsed else ()
    rejected = parsed.rejected if parsed else ()
    trace = {
        "model": name,
        "prompt_version": PROMPT_VERSION,
        "stop_reason": outcome.stop_reason,
        "tool_calls": outcome.tool_calls,
        "refused": outcome.refused,
        **({"failure": outcome.failure} if outcome.failure else {}),
        "turns": list(outcome.trace),
        "messages": [
            {
                "role": m.role,
                "content": m.content,
                **(
                    {"tool_calls": [[c.id, c.name, c.arguments] for c in m.tool_calls]}
                    if m.tool_calls
                    else {}
                ),
                **({"tool_call_id": m.tool_call_id} if m.tool_call_id else {}),
            }
            for m in outcome.messages
        ],
    }
    return LoopResult(
        trace=trace,
        tool_calls=outcome.tool_calls,
        turns=outcome.turns,
        stop_reason=outcome.stop_reason,
        model_name=name,
        claims=claims,
        answer=answer,
        rejected=rejected,
        seen=tuple(tools.seen),
        usage=outcome.usage,
        cost=_cost(outcome, window),
        failure=outcome.failure,
    )


def _cost(outcome: Outcome, window: Window) -> dict[str, float]:
    """What the model cost: calls, tokens, seconds and, where the profile has prices, millionths of money.

    The built-in planner costs nothing that is worth a line of provenance.
    """
    usage = outcome.usage
    if not usage.prompt_tokens and not usage.completion_tokens and not outcome.retries:
        return {}
    cost: dict[str, float] = {
        "model_calls": outcome.turns + outcome.retries,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "model_seconds": round(outcome.model_seconds, 2),
    }
    if window.currency:
        prompt, completion = window.prices
        spent = usage.prompt_tokens * prompt + usage.completion_tokens * completion
        cost[f"micro_{window.currency.lower()}"] = round(spent)
    return cost
