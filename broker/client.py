"""The Python client of the HTTP API, async. The command line uses it too."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from agentloop.request import TaskType
from broker.errors import not_found

POLL_SECONDS = 30.0  # of one long poll; the broker answers within it
TERMINAL = frozenset({"succeeded", "failed", "cancelled", "timed_out"})
PATHS = {
    TaskType.RAG_COMPRESS: "/v1/rag/compressions",
    TaskType.DEBUG: "/v1/rag/debug-sessions",
    TaskType.SUMMARIZE_LOGS: "/v1/logs:summarize",
    TaskType.INSPECT_REPO: "/v1/repos:inspect",
    TaskType.PROPOSE_PATCH: "/v1/patches:propose",
}


class NoBroker(Exception):
    """No broker is running, or it can't be reached; the message says what to do."""


class Refused(Exception):
    """The broker refused a call: its error object and the HTTP status."""

    def __init__(self, status: int, error: Mapping[str, Any], retry_after: float | None = None) -> None:
        super().__init__(str(error.get("message", "")))
        self.status = status
        self.error = dict(error)
        self.retry_after = retry_after

    @property
    def code(self) -> str:
        """The error's code."""
        return str(self.error.get("code", ""))


def _segment(job_id: str) -> str:
    """An id as a part of an address. One that could be no id would name another address.

    Raises:
        Refused: as the broker refuses an unknown id.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", job_id):
        raise Refused(404, not_found().to_json()["error"])
    return job_id


class BrokerClient:
    """Calls one broker. Use as an async context manager."""

    def __init__(self, url: str, token: str = "") -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def local(cls, home: Path) -> Self:
        """A client of the broker that runs on this machine with this BROKER_HOME.

        Raises:
            NoBroker: none is running there.
        """
        try:
            url = str(json.loads((home / "broker.json").read_text("utf-8"))["url"])
        except (OSError, ValueError, KeyError):
            raise NoBroker(f"No broker is running for {home}; start one with `agentloop serve`.") from None
        try:
            token = (home / "local-token").read_text("ascii").strip()
        except OSError:
            token = ""
        return cls(url, token)

    async def __aenter__(self) -> Self:
        """Open the connection pool."""
        self._session = aiohttp.ClientSession(headers=self._headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection pool."""
        if self._session is not None:
            await self._session.close()

    async def call(
        self, method: str, path: str, *, body: Any = None, query: Mapping[str, str] | None = None
    ) -> Any:
        """One call; its decoded JSON.

        Raises:
            Refused: the broker answered with an error. NoBroker: it can't be reached.
        """
        assert self._session is not None, "use `async with`"  # noqa: S101 - a mistake of the caller
        try:
            async with self._session.request(method, self._url + path, json=body, params=query) as response:
                value = await response.json()
                if response.status >= 400:
                    retry_after = response.headers.get("Retry-After")
                    raise Refused(
                        response.status,
                        value.get("error", {}),
                        None if retry_after is None else float(retry_after),
                    )
                return value
        except aiohttp.ClientError as exc:  # also an answer that is no JSON: something else listens there
            raise NoBroker(
                f"The broker at {self._url} does not answer; start one with `agentloop serve`."
            ) from exc

    async def submit(self, request: Mapping[str, Any], task_type: TaskType | None = None) -> dict[str, Any]:
        """Submit a request; the job's handle."""
        path = "/v1/jobs" if task_type is None else PATHS[task_type]
        found: dict[str, Any] = await self.call("POST", path, body=dict(request))
        return found

    async def status(self, job_id: str, *, wait: float = 0.0) -> dict[str, Any]:
        """A job's record, with `wait` as soon as it is in a terminal state."""
        query = {"wait": f"{wait:g}"} if wait else None
        found: dict[str, Any] = await self.call("GET", f"/v1/jobs/{_segment(job_id)}", query=query)
        return found

    async def wait(self, job_id: str, seconds: float) -> dict[str, Any]:
        """A job's record once it is in a terminal state, or as it is after `seconds`."""
        left = seconds
        while True:
            turn = min(left, POLL_SECONDS)
            record = await self.status(job_id, wait=turn)
            left -= turn
            if record["state"] in TERMINAL or left <= 0:
                return record

    async def result(self, job_id: str, *, include_artifacts: bool = False) -> dict[str, Any]:
        """A job's pack; `{"error": …}` of a job that ended without one."""
        query = {"include_artifacts": "true"} if include_artifacts else None
        found: dict[str, Any] = await self.call("GET", f"/v1/jobs/{_segment(job_id)}/result", query=query)
        return found

    async def logs(self, job_id: str, after: int = 0) -> dict[str, Any]:
        """A job's structured events."""
        found: dict[str, Any] = await self.call(
            "GET", f"/v1/jobs/{_segment(job_id)}/logs", query={"after": str(after)}
        )
        return found

    async def cancel(self, job_id: str) -> dict[str, Any]:
        """Cancel a job; its record."""
        found: dict[str, Any] = await self.call("POST", f"/v1/jobs/{_segment(job_id)}:cancel")
        return found

    async def list(self, **filters: str) -> dict[str, Any]:
        """A page of jobs; filters as in the HTTP API: state, task_type, root_job_id, cursor, limit."""
        found: dict[str, Any] = await self.call("GET", "/v1/jobs", query=filters)
        return found

    async def root(self, root_id: str) -> dict[str, Any]:
        """The aggregate of a root job."""
        found: dict[str, Any] = await self.call("GET", f"/v1/roots/{_segment(root_id)}")
        return found

    async def capabilities(self) -> dict[str, Any]:
        """What the broker can do."""
        found: dict[str, Any] = await self.call("GET", "/v1/capabilities")
        return found

    async def events(self, job_id: str, after: int = 0) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """A job's events as (kind, data) as they come; the last is `end` with the job's record.

        Raises:
            Refused, NoBroker: as `call`; a stream that breaks can be resumed with the last `seq`.
        """
        assert self._session is not None, "use `async with`"  # noqa: S101 - a mistake of the caller
        headers = {"Last-Event-ID": str(after)}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=60)
        url = f"{self._url}/v1/jobs/{_segment(job_id)}/events"
        async with self._session.get(url, headers=headers, timeout=timeout) as response:
            if response.status != 200:
                raise Refused(response.status, (await response.json()).get("error", {}))
            kind, data, seq = "", "", after
            async for raw in response.content:
                line = raw.decode("utf-8").rstrip("\r\n")
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "id":
                    seq = int(value)
                elif name == "data":
                    data = value
                elif not line and kind:
                    yield kind, {"seq": seq, **json.loads(data)}
                    kind = ""
