"""What every request passes before its handler: Host, Origin, token; and how every error leaves."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import itertools
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from agentloop.errors import AgentloopError
from agentloop.pack import canonical
from broker.auth import Authenticator, Principal
from broker.errors import BrokerCode, BrokerError, http_status

access = logging.getLogger("broker.access")
log = logging.getLogger("broker.http")

CALLER = web.RequestKey("caller", Principal)
REQUEST_ID = web.RequestKey("request_id", str)
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
HANDLER_ARGS: dict[str, Any] = {
    "auto_decompress": False,  # bodies are inflated by read_body, which stops at the limit
    "keepalive_timeout": 75.0,
    "access_log": None,
}
_REQUEST_ID_FORM = re.compile(r"[A-Za-z0-9._-]{1,64}")

_RUN = secrets.token_hex(4)  # of this process: request ids count on from it
_count = itertools.count(1)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Guards:
    """Who may call, and under which names. `silent` are connections that have sent no request yet."""

    auth: Authenticator
    hosts: frozenset[str]
    origins: frozenset[str]
    max_body_bytes: int
    silent: set[Any]
    challenge: str = "Bearer"  # the WWW-Authenticate header of a 401
    open_paths: frozenset[str] = frozenset()  # beside `OPEN_PATHS`


GUARDS = web.AppKey("guards", Guards)


@functools.lru_cache(256)
def _loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


@functools.lru_cache(256)
def _host_name(value: str) -> str:
    """The name in a Host header or origin, without its port; empty when malformed."""
    try:
        return (urlsplit(f"//{value}").hostname or "").lower()
    except ValueError:
        return ""


def check_host(request: web.Request, guards: Guards) -> None:
    """Refuse names that are not ours: a page elsewhere can point its own name at this machine.

    Raises:
        BrokerError: POLICY_DENIED.
    """
    hosts = request.headers.getall("Host", [])
    name = _host_name(hosts[0]) if len(hosts) == 1 else ""
    if not (_loopback(name) or name in guards.hosts):
        raise BrokerError(
            BrokerCode.POLICY_DENIED,
            "This Host is not served; the operator can allow it with BROKER_ALLOWED_HOSTS.",
        )
    origin = request.headers.get("Origin")
    if origin is None or origin in guards.origins:
        return
    if not (origin.startswith(("http://", "https://")) and _loopback(_host_name(urlsplit(origin).netloc))):
        raise BrokerError(
            BrokerCode.POLICY_DENIED,
            "This Origin may not call; the operator can allow it with BROKER_ALLOWED_ORIGINS.",
        )


def error_response(exc: BrokerError | AgentloopError) -> web.Response:
    """A refusal in the specification's shape."""
    headers = {}
    retry_after = getattr(exc, "retry_after", None)
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    status = http_status(exc)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return web.Response(
        text=canonical(exc.to_json()), status=status, content_type="application/json", headers=headers
    )


_HTTP_CODES = {
    400: BrokerCode.BAD_REQUEST,
    404: BrokerCode.NOT_FOUND,
    405: BrokerCode.METHOD_NOT_ALLOWED,
    413: BrokerCode.BODY_TOO_LARGE,
    415: BrokerCode.UNSUPPORTED_MEDIA_TYPE,
}


def _from_aiohttp(exc: web.HTTPException) -> web.Response:
    code = _HTTP_CODES.get(exc.status, BrokerCode.BAD_REQUEST)
    response = error_response(BrokerError(code, f"{exc.reason}."))
    response.set_status(exc.status)
    if "Allow" in exc.headers:
        response.headers["Allow"] = exc.headers["Allow"]
    return response


async def _handled(request: web.Request, handler: Handler) -> web.StreamResponse:
    guards = request.app[GUARDS]
    try:
        check_host(request, guards)
        if request.path not in OPEN_PATHS | guards.open_paths:
            request[CALLER] = guards.auth.principal(request.headers.getall("Authorization", []))
        return await handler(request)
    except (BrokerError, AgentloopError) as exc:
        refusal = error_response(exc)
        if "WWW-Authenticate" in refusal.headers:
            refusal.headers["WWW-Authenticate"] = guards.challenge
        return refusal
    except web.HTTPException as exc:
        return _from_aiohttp(exc)
    except (ConnectionResetError, asyncio.CancelledError):
        raise
    except Exception:
        # The boundary of a request: the trace stays here, the caller gets an id to quote.
        error_id = secrets.token_hex(8)
        log.exception("request failed", extra={"error_id": error_id, "path": _route(request)})
        return error_response(
            BrokerError(
                BrokerCode.INTERNAL,
                "The broker failed; its log has more under the error id.",
                details={"error_id": error_id},
            )
        )


def _route(request: web.Request) -> str:
    """The template of the matched path: bounded, and free of what a caller wrote."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "unmatched"


@web.middleware
async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Request id, checks, errors, one access line."""
    request.app[GUARDS].silent.discard(request.protocol)
    given = request.headers.get("X-Request-ID", "")
    request[REQUEST_ID] = given if _REQUEST_ID_FORM.fullmatch(given) else f"{_RUN}{next(_count):08x}"
    began = time.monotonic()
    response = await _handled(request, handler)
    if not response.prepared:
        response.headers["X-Request-ID"] = request[REQUEST_ID]
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers.setdefault("Cache-Control", "no-store")
    caller = request.get(CALLER)
    access.info(
        "request",
        extra={
            "request_id": request[REQUEST_ID],
            "method": request.method,
            "path": _route(request),
            "job": request.match_info.get("job_id", ""),
            "status": response.status,
            "ms": round((time.monotonic() - began) * 1000, 1),
            "principal": caller.name if caller is not None else "",
            "namespace": caller.namespace if caller is not None else "",
        },
    )
    return response
