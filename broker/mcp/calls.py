"""A tool call, carried out on a port: arguments in, `Answer` out. Knows nothing of the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.mcp import render
from broker.mcp.failure import Failure
from broker.mcp.port import Json, Port
from broker.mcp.render import Answer
from broker.mcp.tools import BY_NAME, DEFAULT_WAIT, MOST_WAIT, Spec

Progress = Callable[[float, str], Awaitable[None]]
STARTING, ACCEPTED = 1.0, 2.0  # percent; the stages of a job begin above
TERMINAL = frozenset({"succeeded", "failed", "cancelled", "timed_out"})


@dataclass(frozen=True, slots=True)
class Waiting:
    """Whether and how long, in seconds, a call waits for its result."""

    wanted: bool
    seconds: float


async def call(port: Port, name: str, arguments: Mapping[str, Any], progress: Progress) -> Answer:
    """Carry out a tool call; refusals come back as tool errors.

    Raises:
        KeyError: there is no such tool.
    """
    spec = BY_NAME[name]
    try:
        if spec.task_type:
            await progress(STARTING, "starting")  # the first call may have to wait for a broker
            handle, waiting = await submit(port, spec, arguments)
            return await result_within(port, handle, waiting, progress)
        return await _PLAIN[name](port, _checked(spec, arguments))
    except Failure as failure:
        return render.failure_answer(failure)


async def submit(port: Port, spec: Spec, arguments: Mapping[str, Any]) -> tuple[Json, Waiting]:
    """Submit what a tool call asks for; the job's handle, and how its result is to be waited for.

    Raises:
        Failure: refused.
    """
    request = dict(arguments)
    waiting = _waiting(request.pop("wait_for_result", True), request.pop("max_wait_seconds", DEFAULT_WAIT))
    return await port.submit(spec.task_type, request), waiting


def _waiting(wanted: Any, seconds: Any) -> Waiting:
    fields = []
    if not isinstance(wanted, bool):
        fields.append({"field": "wait_for_result", "reason": "is true or false"})
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        fields.append({"field": "max_wait_seconds", "reason": f"is a number from 0 to {MOST_WAIT}"})
    if fields:
        told = "; ".join(f"{f['field']} {f['reason']}" for f in fields)
        raise Failure.of("REQUEST_INVALID", f"The request is not valid: {told}.", fields=fields)
    return Waiting(wanted, min(float(seconds), MOST_WAIT))


async def result_within(port: Port, handle: Json, waiting: Waiting, progress: Progress) -> Answer:
    """The pack of a job that ends in time, its error, or the handle with what to call next.

    Raises:
        Failure: the job ended without a pack, or the answer doesn't fit the caller's budget.
    """
    job_id, state = handle["job_id"], handle["state"]
    if waiting.wanted and waiting.seconds and state not in TERMINAL:
        state = await _follow(port, job_id, waiting.seconds, progress)
    if state in TERMINAL and waiting.wanted:
        return await ended(port, job_id)
    return render.status_answer({**handle, "state": state})


async def _follow(port: Port, job_id: str, seconds: float, progress: Progress) -> str:
    """Tell the progress of a job until it ends or the time is over; its last known state."""
    highest = ACCEPTED
    await progress(highest, "queued")
    try:
        async with asyncio.timeout(seconds):
            async for kind, data in port.events(job_id):
                if kind == "end":
                    return str(data["state"])
                percent = float(data.get("percent", 0.0))
                if percent > highest:  # a repeated attempt begins anew, but progress only ever rises
                    highest = percent
                    await progress(percent, str(data.get("stage", kind)))
    except TimeoutError:
        pass
    return str((await port.status(job_id))["state"])


async def ended(
    port: Port, job_id: str, *, include_artifacts: bool = False, budget: int | None = None
) -> Answer:
    """The answer that a job's end gives.

    Raises:
        Failure: it ended without a pack, with the job's own error; or it hasn't ended.
    """
    try:
        pack = await port.result(job_id, include_artifacts=include_artifacts)
    except Failure as failure:
        if failure.code != "NO_RESULT":
            raise
        record = await port.status(job_id)
        error = record.get("error") or {
            "code": str(record["state"]).upper(),
            "message": f"The job was {record['state']}.",
            "retryable": False,
            "stage": "broker",
            "details": {},
        }
        details = {**error.get("details", {}), "job_id": job_id, "state": record["state"]}
        raise Failure({**error, "details": details}) from None
    return render.pack_answer(pack, job_id, budget)


def _checked(spec: Spec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a tool that doesn't submit, each of its type.

    Raises:
        Failure: REQUEST_INVALID, one is missing, unknown or of another type.
    """
    fields = [{"field": n, "reason": "is unknown"} for n in arguments if n not in spec.arguments]
    for name in spec.arguments:
        value = arguments.get(name)
        if name.endswith("_id") and value is None:
            good, reason = False, "is missing"
        elif name.endswith("_id"):
            good, reason = isinstance(value, str) and 0 < len(value) <= 64, "is an id"
        elif name == "include_artifacts":
            good, reason = value is None or isinstance(value, bool), "is true or false"
        else:
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            good, reason = value is None or whole, "is a whole number"
        if not good:
            fields.append({"field": name, "reason": reason})
    if fields:
        told = "; ".join(f"{f['field']} {f['reason']}" for f in fields)
        raise Failure.of("REQUEST_INVALID", f"The request is not valid: {told}.", fields=fields)
    return {name: value for name, value in arguments.items() if value is not None}


async def _status(port: Port, given: Mapping[str, Any]) -> Answer:
    return render.status_answer(await port.status(given["job_id"]))


async def _root(port: Port, given: Mapping[str, Any]) -> Answer:
    return render.status_answer(await port.root(given["root_job_id"]))


async def _cancel(port: Port, given: Mapping[str, Any]) -> Answer:
    record = await port.cancel(given["job_id"])
    return render.status_answer(record, "" if record["state"] in TERMINAL else "Its end was asked for.")


async def _fetch(port: Port, given: Mapping[str, Any]) -> Answer:
    return await ended(
        port,
        given["job_id"],
        include_artifacts=given.get("include_artifacts", False),
        budget=given.get("remote_model_context_budget"),
    )


async def _evidence(port: Port, given: Mapping[str, Any]) -> Answer:
    return render.evidence_answer(await port.read_evidence(given))


async def _capabilities(port: Port, given: Mapping[str, Any]) -> Answer:
    return render.capabilities_answer(await port.capabilities())


_PLAIN: Mapping[str, Callable[[Port, Mapping[str, Any]], Awaitable[Answer]]] = {
    "get_job_status": _status,
    "get_root_job_status": _root,
    "fetch_result": _fetch,
    "cancel_job": _cancel,
    "read_evidence": _evidence,
    "list_capabilities": _capabilities,
}
