"""I10: a worker connects to the endpoints of its profiles and nowhere else."""

from __future__ import annotations

import asyncio
import http.server
import socket
import threading
from collections.abc import Iterator

import pytest

from agentloop import egress
from agentloop.loop.endpoint import post
from agentloop.loop.messages import ModelError
from agentloop.loop.profiles import Profile


class Redirecting(http.server.BaseHTTPRequestHandler):
    """An endpoint that sends its callers elsewhere."""

    def do_POST(self) -> None:
        """Answer, or redirect to where `elsewhere` listens."""
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/moved"):
            self.send_response(307)
            self.send_header("Location", self.server.elsewhere)  # type: ignore[attr-defined]
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def elsewhere() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def endpoint(elsewhere: socket.socket) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as server:
        server.elsewhere = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/"  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def profile(endpoint: str) -> Profile:
    return Profile(name="m", endpoint=endpoint)


def test_no_connection_but_to_a_permitted_place(elsewhere: socket.socket) -> None:
    place = elsewhere.getsockname()
    with egress.guarded():
        with pytest.raises(egress.EgressDenied, match=f"only, not to 127.0.0.1:{place[1]}"):
            socket.create_connection(place, timeout=2)
        with pytest.raises(egress.EgressDenied), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.sendto(b"x", place)
        with pytest.raises(egress.EgressDenied), socket.socket(socket.AF_UNIX) as one:
            one.connect("/run/anything.sock")
    socket.create_connection(place, timeout=2).close()  # outside of a worker nothing is refused


def test_no_name_is_looked_up_but_a_permitted_one() -> None:
    with egress.guarded():
        with pytest.raises(egress.EgressDenied, match="telltale"):
            socket.getaddrinfo("secret-words.telltale.example", 80)
        egress.permit("http://localhost:9/v1")
        assert socket.getaddrinfo("localhost", 9)


def test_a_permitted_name_is_reached_by_its_address(elsewhere: socket.socket) -> None:
    port = elsewhere.getsockname()[1]
    with egress.guarded():
        egress.permit(f"http://localhost:{port}/v1")
        socket.create_connection(("127.0.0.1", port), timeout=2).close()


async def test_the_endpoint_of_a_profile_is_reached(endpoint: str) -> None:
    with egress.guarded():
        assert await post(profile(endpoint), "", "/chat/completions", {}, 5.0) == b"{}"


async def test_a_redirect_to_another_place_is_not_followed(endpoint: str, elsewhere: socket.socket) -> None:
    elsewhere.setblocking(False)
    with egress.guarded(), pytest.raises(ModelError):
        await post(profile(endpoint), "", "/moved", {}, 5.0)
    await asyncio.sleep(0)
    with pytest.raises(BlockingIOError):
        elsewhere.accept()
