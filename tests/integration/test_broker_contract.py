"""The OpenAPI document against the real server: documented, complete, and no generated request breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck

from broker.http_guard import Guards
from broker.openapi import OPERATIONS, document
from tests.integration.broker_server import Server, server

DOCS = Path(__file__).parents[2] / "docs" / "http-api.md"
EXAMPLES = 15  # generated requests an operation: found what they find within a few; more is for --slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("contract"), BROKER_WORKERS="1") as found:
        yield found


def test_every_operation_is_documented() -> None:
    text = DOCS.read_text("utf-8")
    missing = [
        f"{op.method.upper()} {op.path}"
        for op in OPERATIONS
        if f"`{op.method.upper()} {op.path}`" not in text
    ]
    assert missing == []


def test_every_route_is_an_operation() -> None:
    from broker.auth import Authenticator
    from broker.http import make_app
    from broker.service import Service

    guards = Guards(Authenticator(Path("none")), frozenset(), frozenset(), 1, set())
    app = make_app(Service.__new__(Service), guards)
    routes = {
        (route.method.lower(), route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    told = {(op.method, op.path.replace("{job_id}:cancel", "{job_id}")) for op in OPERATIONS}
    assert {(m, p) for m, p in routes if not p.startswith(("/mcp", "/.well-known"))} == told


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_generated_requests_get_documented_answers_and_no_500(broker: Server, mode: str) -> None:
    """Valid requests, and requests that break the schema: those are refused, each in the documented form."""
    import schemathesis
    from hypothesis import Phase, given, settings
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks as openapi

    headers = {"Authorization": f"Bearer {broker.token}"}
    checks = [
        not_a_server_error,
        openapi.status_code_conformance,
        openapi.content_type_conformance,
        openapi.response_schema_conformance,
    ]
    if mode == "negative":
        checks.append(openapi.negative_data_rejection)
    generated = schemathesis.GenerationMode(mode)
    schema = schemathesis.openapi.from_dict(document())
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events") or (mode == "negative" and not refusable(operation.path)):
            continue  # a stream: tests of its own; or nothing of the request can be wrong

        @settings(
            max_examples=EXAMPLES,
            phases=[Phase.generate],
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=generated))
        def check(case: schemathesis.Case) -> None:
            if case.query and "wait" in case.query and mode == "positive":
                case.query["wait"] = 0
            case.call_and_validate(base_url=broker.url, headers=headers, checks=checks)

        check()
        tried += 1
    if mode == "positive":
        assert tried == len(OPERATIONS) - 1
    else:
        assert tried == len([op for op in OPERATIONS if refusable(op.path)]) - 1


def refusable(path: str) -> bool:
    """Whether an operation takes a body or parameters that a request can have wrong."""
    return any(op.path == path and (op.body or op.query or op.headers) for op in OPERATIONS)
