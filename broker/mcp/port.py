"""What the tools need of a broker, and how they get it: from a `Service` here, or over its HTTP API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from broker.mcp.failure import Failure

if TYPE_CHECKING:
    from broker.auth import Principal
    from broker.client import BrokerClient
    from broker.service import Service

Json = dict[str, Any]


class Port(Protocol):
    """One caller's view of a broker; every method checks what the caller may do and raises `Failure`."""

    async def submit(self, task_type: str, request: Mapping[str, Any]) -> Json:
        """Accept a request durably; its handle."""
        ...

    async def status(self, job_id: str) -> Json:
        """A job's record."""
        ...

    def events(self, job_id: str) -> AsyncIterator[tuple[str, Json]]:
        """A job's events as (kind, data); the last is `end` with the job's record."""
        ...

    async def result(self, job_id: str, *, include_artifacts: bool) -> Json:
        """A released pack."""
        ...

    async def root(self, root_id: str) -> Json:
        """The aggregate of a root job."""
        ...

    async def cancel(self, job_id: str) -> Json:
        """Cancel a job; its record."""
        ...

    async def read_evidence(self, asked: Mapping[str, Any]) -> Json:
        """The text behind a ref."""
        ...

    async def capabilities(self) -> Json:
        """What the broker has."""
        ...


@contextmanager
def _refusals() -> Iterator[None]:
    """Errors of the service as `Failure`."""
    from agentloop.errors import AgentloopError
    from broker.errors import BrokerError

    try:
        yield
    except (AgentloopError, BrokerError) as exc:
        raise Failure(exc.to_json()["error"]) from None


@contextmanager
def _answers() -> Iterator[None]:
    """Errors of the client as `Failure`; NO_BROKER when it can't be reached or went away meanwhile."""
    from aiohttp import ClientError

    from broker.client import NoBroker, Refused

    try:
        yield
    except Refused as exc:
        raise Failure(exc.error) from None
    except (NoBroker, ClientError, TimeoutError) as exc:
        raise Failure.of("NO_BROKER", str(exc) or "The broker does not answer.", retryable=True) from exc


class ServicePort:
    """A broker in this process, for one caller."""

    def __init__(self, service: Service, caller: Principal) -> None:
        self._service = service
        self._caller = caller

    async def submit(self, task_type: str, request: Mapping[str, Any]) -> Json:
        """See `Port`."""
        from agentloop.request import TaskType
        from broker import views

        with _refusals():
            job = await self._service.submit(self._caller, dict(request), TaskType(task_type))
            return views.handle(job).model_dump(mode="json")

    async def status(self, job_id: str) -> Json:
        """See `Port`."""
        from broker import views

        with _refusals():
            return views.status(await self._service.get(self._caller, job_id)).model_dump(mode="json")

    async def events(self, job_id: str) -> AsyncIterator[tuple[str, Json]]:
        """See `Port`."""
        from broker import views
        from broker.jobs.model import Event

        with _refusals():
            async for item in self._service.follow(self._caller, job_id):
                if isinstance(item, Event):
                    yield item.kind, dict(item.data)
                else:
                    yield "end", views.status(item).model_dump(mode="json")

    async def result(self, job_id: str, *, include_artifacts: bool) -> Json:
        """See `Port`."""
        with _refusals():
            return await self._service.result(self._caller, job_id, include_artifacts=include_artifacts)

    async def root(self, root_id: str) -> Json:
        """See `Port`."""
        with _refusals():
            return (await self._service.root(self._caller, root_id)).model_dump(mode="json")

    async def cancel(self, job_id: str) -> Json:
        """See `Port`."""
        from broker import views

        with _refusals():
            return views.status(await self._service.cancel(self._caller, job_id)).model_dump(mode="json")

    async def read_evidence(self, asked: Mapping[str, Any]) -> Json:
        """See `Port`."""
        from pydantic import ValidationError

        from agentloop.request import invalid_request
        from broker.views import ReadEvidence

        with _refusals():
            try:
                whole = ReadEvidence.model_validate(dict(asked))
            except ValidationError as exc:
                raise invalid_request(exc, ReadEvidence) from None
            return (await self._service.read_evidence(self._caller, whole)).model_dump(mode="json")

    async def capabilities(self) -> Json:
        """See `Port`."""
        with _refusals():
            return self._service.capabilities(self._caller).model_dump(mode="json")


class ClientPort:
    """A broker in another process of this machine."""

    def __init__(self, client: BrokerClient) -> None:
        self._client = client

    async def submit(self, task_type: str, request: Mapping[str, Any]) -> Json:
        """See `Port`."""
        from agentloop.request import TaskType

        with _answers():
            return await self._client.submit(request, TaskType(task_type))

    async def status(self, job_id: str) -> Json:
        """See `Port`."""
        with _answers():
            return await self._client.status(job_id)

    async def events(self, job_id: str) -> AsyncIterator[tuple[str, Json]]:
        """See `Port`."""
        with _answers():
            async for kind, data in self._client.events(job_id):
                yield kind, data

    async def result(self, job_id: str, *, include_artifacts: bool) -> Json:
        """See `Port`."""
        with _answers():
            found = await self._client.result(job_id, include_artifacts=include_artifacts)
        if "error" in found:
            raise Failure(found["error"])
        return found

    async def root(self, root_id: str) -> Json:
        """See `Port`."""
        with _answers():
            return await self._client.root(root_id)

    async def cancel(self, job_id: str) -> Json:
        """See `Port`."""
        with _answers():
            return await self._client.cancel(job_id)

    async def read_evidence(self, asked: Mapping[str, Any]) -> Json:
        """See `Port`."""
        with _answers():
            found: Json = await self._client.call("POST", "/v1/rag/evidence:read", body=dict(asked))
            return found

    async def capabilities(self) -> Json:
        """See `Port`."""
        with _answers():
            return await self._client.capabilities()
