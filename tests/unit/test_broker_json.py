"""Strict JSON, over a real aiohttp server in this process."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from broker.errors import BrokerCode, BrokerError
from broker.http_guard import HANDLER_ARGS, error_response
from broker.strict_json import loads, read_body

LIMIT = 100_000


@pytest.mark.req("D2")
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100 + "1" + "}" * 100,
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 1}}',
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": ' + "9" * 5000 + "}",
        '{"a": "\\ud800"}',
        '{"\\udfff": 1}',
        '{"a": 1,}',
        "{",
        "",
        "\ufeff{}",
    ],
    ids=lambda text: text[:20],
)
def test_what_parsers_disagree_on_is_refused(text: str) -> None:
    with pytest.raises(BrokerError) as refusal:
        loads(text.encode("utf-8"))
    assert refusal.value.code is BrokerCode.BAD_REQUEST


@pytest.mark.req("D2")
def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(BrokerError):
        loads(b'{"a": "\xff"}')
    with pytest.raises(BrokerError):
        loads('{"a": 1}'.encode("utf-16"))


def test_ordinary_json_is_read() -> None:
    value = {"a": [1, -2.5, "é\\u00e9 \U0001f600", None, True, {"b": {}}], "n": 12345678901234567890}
    assert loads(json.dumps(value).encode()) == value
    assert loads(json.dumps({"brackets": "[" * 500}).encode()) == {"brackets": "[" * 500}


@pytest.fixture
async def client() -> AsyncIterator[TestClient[web.Request, web.Application]]:
    async def echo(request: web.Request) -> web.Response:
        try:
            return web.json_response(await read_body(request))
        except BrokerError as exc:
            return error_response(exc)

    app = web.Application(client_max_size=LIMIT, handler_args=HANDLER_ARGS)
    app.router.add_post("/", echo)
    async with TestClient(TestServer(app)) as found:
        yield found


@pytest.mark.req("F5")
async def test_bodies_over_the_limit_are_413_however_they_come(
    client: TestClient[web.Request, web.Application],
) -> None:
    headers = {"Content-Type": "application/json"}
    big = json.dumps({"a": "x" * LIMIT}).encode()

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(big), 10_000):
            yield big[start : start + 10_000]

    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < LIMIT
    for data, extra in (
        (big, {}),
        (chunks(), {}),
        (bomb, {"Content-Encoding": "gzip"}),
        (zlib.compress(b" " * 50_000_000), {"Content-Encoding": "deflate"}),
    ):
        tracemalloc.start()
        async with client.post("/", data=data, headers={**headers, **extra}) as response:
            assert response.status == 413
            assert (await response.json())["error"]["code"] == "BODY_TOO_LARGE"
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 10_000_000  # of fifty million bytes that were sent packed


async def test_compressed_bodies_are_read_and_broken_ones_refused(
    client: TestClient[web.Request, web.Application],
) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    good = gzip.compress(b'{"a": 1}')
    for data, status in ((good, 200), (good[:-6], 400), (b"nonsense", 400)):
        async with client.post("/", data=data, headers=headers) as response:
            assert response.status == status
    async with client.post("/", data=good, headers={**headers, "Content-Encoding": "br"}) as response:
        assert response.status == 415
    async with client.post("/", data=b"{}", headers={"Content-Type": "text/plain"}) as response:
        assert response.status == 415
