"""HTTP on aiohttp: a thin adapter over the service. Bodies in, service calls, views out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web
from pydantic import BaseModel

from agentloop.pack import canonical
from agentloop.request import TaskType
from broker import http_guard as guard
from broker import views
from broker.auth import Principal, Role
from broker.errors import BrokerCode, BrokerError, not_found
from broker.http_guard import CALLER, guarded
from broker.jobs.model import Event, Job, State
from broker.jobs.store import Filters
from broker.openapi import CONVENIENCE, document
from broker.service import MAX_PAGE, MAX_WAIT_SECONDS, Service
from broker.strict_json import read_body

SERVICE = web.AppKey("service", Service)
HEARTBEAT_SECONDS = 15.0  # a comment line on an idle event stream, so that proxies keep it open

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _caller(request: web.Request) -> Principal:
    return request[CALLER]


def _service(request: web.Request) -> Service:
    return request.app[SERVICE]


def answer(value: BaseModel | dict[str, Any], status: int = 200, **headers: str) -> web.Response:
    """A view as JSON; lone surrogates in paths as escapes."""
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return web.Response(
        text=canonical(plain), status=status, content_type="application/json", headers=headers
    )


def _number(request: web.Request, name: str, default: float, most: float) -> float:
    """A query parameter that is a number from 0 to `most`.

    Raises:
        BrokerError: BAD_REQUEST.
    """
    text = request.query.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise BrokerError(BrokerCode.BAD_REQUEST, f"{name} is a number from 0 to {most:g}.")
    return value


def _count(request: web.Request, name: str, default: int, least: int, most: int) -> int:
    """A query parameter that is a whole number from `least` to `most`.

    Raises:
        BrokerError: BAD_REQUEST.
    """
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
        raise BrokerError(BrokerCode.BAD_REQUEST, f"{name} is a whole number from {least} to {most}.")
    return int(text)


def _flag(request: web.Request, name: str) -> bool:
    text = request.query.get(name, "false").lower()
    if text not in {"true", "false", "1", "0"}:
        raise BrokerError(BrokerCode.BAD_REQUEST, f"{name} is true or false.")
    return text in {"true", "1"}


def _choice(request: web.Request, name: str, choices: list[str]) -> str | None:
    text = request.query.get(name)
    if text is not None and text not in choices:
        raise BrokerError(BrokerCode.BAD_REQUEST, f"{name} is one of {', '.join(choices)}.")
    return text


def submit(task_type: TaskType | None) -> Handler:
    """The handler of an endpoint that submits."""

    async def handle(request: web.Request) -> web.StreamResponse:
        wait = _number(request, "wait", 0.0, MAX_WAIT_SECONDS)
        service, caller = _service(request), _caller(request)
        job = await service.submit(caller, await read_body(request), task_type)
        if wait:
            job = await service.wait(caller, job.job_id, wait)
        location = {"Location": f"/v1/jobs/{job.job_id}"}
        return answer(views.handle(job), 200 if job.state.terminal else 202, **location)

    return handle


async def list_jobs(request: web.Request) -> web.StreamResponse:
    """GET /v1/jobs."""
    filters = Filters(
        state=_choice(request, "state", [str(s) for s in State]),
        task_type=_choice(request, "task_type", [str(t) for t in TaskType]),
        root_id=request.query.get("root_job_id"),
    )
    limit = _count(request, "limit", 50, 1, MAX_PAGE)
    return answer(await _service(request).list(_caller(request), filters, request.query.get("cursor"), limit))


async def get_job(request: web.Request) -> web.StreamResponse:
    """GET /v1/jobs/{id}, with `?wait=` a long poll."""
    job_id, wait = request.match_info["job_id"], _number(request, "wait", 0.0, MAX_WAIT_SECONDS)
    service, caller = _service(request), _caller(request)
    job = await service.wait(caller, job_id, wait) if wait else await service.get(caller, job_id)
    return answer(views.status(job))


async def get_result(request: web.Request) -> web.StreamResponse:
    """GET /v1/jobs/{id}/result. A job that ended without a pack answers with its own error."""
    job_id, wait = request.match_info["job_id"], _number(request, "wait", 0.0, MAX_WAIT_SECONDS)
    service, caller = _service(request), _caller(request)
    job = await service.wait(caller, job_id, wait) if wait else await service.get(caller, job_id)
    if job.state.terminal and job.error is not None:
        error = dict(job.error)
        error["details"] = {**error.get("details", {}), "job_id": job_id, "state": str(job.state)}
        return answer({"error": error})
    pack = await service.result(caller, job_id, include_artifacts=_flag(request, "include_artifacts"))
    return answer(pack)


async def get_logs(request: web.Request) -> web.StreamResponse:
    """GET /v1/jobs/{id}/logs: structured events."""
    after = _count(request, "after", 0, 0, 1 << 53)
    return answer(await _service(request).logs(_caller(request), request.match_info["job_id"], after))


async def get_events(request: web.Request) -> web.StreamResponse:
    """GET /v1/jobs/{id}/events: server-sent events, resumed by `Last-Event-ID`."""
    service, caller, job_id = _service(request), _caller(request), request.match_info["job_id"]
    last = request.headers.get("Last-Event-ID", "0")
    if not (last.isascii() and last.isdecimal() and len(last) < 19):
        raise BrokerError(BrokerCode.BAD_REQUEST, "Last-Event-ID is the id of an event of this stream.")
    await service.get(caller, job_id)
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
        }
    )
    await response.prepare(request)
    stream = service.follow(caller, job_id, int(last))
    async for text in _with_heartbeats(stream):
        await response.write(text.encode())
    await response.write_eof()
    return response


async def _with_heartbeats(stream: AsyncIterator[Event | Job]) -> AsyncIterator[str]:
    """The stream's events as text, and a comment whenever it was silent for a while."""
    step = asyncio.ensure_future(anext(stream))
    try:
        while True:
            done, _ = await asyncio.wait({step}, timeout=HEARTBEAT_SECONDS)
            if not done:
                yield ": alive\n\n"
                continue
            try:
                yield _event_text(step.result())
            except StopAsyncIteration:
                return
            step = asyncio.ensure_future(anext(stream))
    finally:
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)


def _event_text(item: Event | Job) -> str:
    if isinstance(item, Job):
        return f"event: end\ndata: {canonical(views.status(item).model_dump(mode='json'))}\n\n"
    data = json.dumps({"at": views.stamp(item.at), "kind": item.kind, **item.data})
    return f"id: {item.seq}\nevent: {item.kind}\ndata: {data}\n\n"


async def job_action(request: web.Request) -> web.StreamResponse:
    """POST /v1/jobs/{id}:cancel."""
    job_id, _, action = request.match_info["job_id"].rpartition(":")
    if action != "cancel":
        raise not_found()
    return answer(views.status(await _service(request).cancel(_caller(request), job_id)))


async def get_root(request: web.Request) -> web.StreamResponse:
    """GET /v1/roots/{id}."""
    return answer(await _service(request).root(_caller(request), request.match_info["root_id"]))


async def get_pack_metadata(request: web.Request) -> web.StreamResponse:
    """GET /v1/rag/evidence-packs/{id}/metadata."""
    return answer(await _service(request).evidence_pack(_caller(request), request.match_info["artifact_id"]))


async def get_index_metadata(request: web.Request) -> web.StreamResponse:
    """GET /v1/rag/indexes/{id}/metadata."""
    return answer(await _service(request).index(_caller(request), request.match_info["artifact_id"]))


async def cache_lookup(request: web.Request) -> web.StreamResponse:
    """POST /v1/rag/cache:lookup."""
    return answer(await _service(request).cache_lookup(_caller(request), await read_body(request)))


async def read_evidence(request: web.Request) -> web.StreamResponse:
    """POST /v1/rag/evidence:read."""
    from pydantic import ValidationError

    from agentloop.request import invalid_request

    try:
        asked = views.ReadEvidence.model_validate(await read_body(request))
    except ValidationError as exc:
        raise invalid_request(exc, views.ReadEvidence) from None
    return answer(await _service(request).read_evidence(_caller(request), asked))


async def capabilities(request: web.Request) -> web.StreamResponse:
    """GET /v1/capabilities."""
    return answer(_service(request).capabilities(_caller(request)))


async def healthz(request: web.Request) -> web.StreamResponse:
    """GET /healthz: the process answers."""
    return answer(views.Health(status="ok"))


async def readyz(request: web.Request) -> web.StreamResponse:
    """GET /readyz: jobs can be taken now."""
    health = await _service(request).ready()
    return answer(health, 200 if health.status == "ok" else 503)


async def metrics(request: web.Request) -> web.StreamResponse:
    """GET /metrics, for operators."""
    from broker.metrics import CONTENT_TYPE, render

    _caller(request).require(Role.OPERATOR)
    text = render(await _service(request).counts())
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})


async def openapi(request: web.Request) -> web.StreamResponse:
    """GET /openapi.json."""
    return web.json_response(document())


def make_app(service: Service, guards: guard.Guards) -> web.Application:
    """The HTTP application."""
    app = web.Application(
        middlewares=[guarded], client_max_size=guards.max_body_bytes, handler_args=guard.HANDLER_ARGS
    )
    app[SERVICE] = service
    app[guard.GUARDS] = guards
    add = app.router
    add.add_post("/v1/jobs", submit(None))
    for path, task in CONVENIENCE.items():
        add.add_post(path, submit(task))
    add.add_get("/v1/jobs", list_jobs)
    add.add_get("/v1/jobs/{job_id}", get_job)
    add.add_post("/v1/jobs/{job_id}", job_action)
    add.add_get("/v1/jobs/{job_id}/result", get_result)
    add.add_get("/v1/jobs/{job_id}/logs", get_logs)
    add.add_get("/v1/jobs/{job_id}/events", get_events)
    add.add_get("/v1/roots/{root_id}", get_root)
    add.add_get("/v1/rag/evidence-packs/{artifact_id}/metadata", get_pack_metadata)
    add.add_get("/v1/rag/indexes/{artifact_id}/metadata", get_index_metadata)
    add.add_post("/v1/rag/cache:lookup", cache_lookup)
    add.add_post("/v1/rag/evidence:read", read_evidence)
    add.add_get("/v1/capabilities", capabilities)
    add.add_get("/healthz", healthz)
    add.add_get("/readyz", readyz)
    add.add_get("/metrics", metrics)
    add.add_get("/openapi.json", openapi)
    return app
