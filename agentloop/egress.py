"""A worker connects to the endpoints of its model profiles and nowhere else.

While a guard is up, every connection that Python code makes is looked at before it is made: one to a
place that was not permitted by the code that read it from a profile is refused. A library that follows a
redirect, or anything that an input or a reply could talk into connecting, fails with a clear error.
Compiled code and other programs (the parser's process, ripgrep) are out of its sight: `agentloop.seal` takes
the network from them, and from the whole worker where no model is asked.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
_CONNECTING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_LOOKING_UP = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"})


class EgressDenied(PermissionError):
    """This process may connect to its model's endpoint only."""

    def __init__(self, where: str) -> None:
        super().__init__(
            errno.EACCES, f"a worker connects to the endpoint of its model profile only, not to {where}"
        )


class _Guard:
    """What may be connected to: (host, port) pairs, and the addresses that those hosts have."""

    def __init__(self) -> None:
        self.up = 0
        self.places: set[tuple[str, int]] = set()
        self._addresses: set[tuple[str, int]] = set()
        self._busy = threading.local()

    def look(self, event: str, args: tuple[Any, ...]) -> None:
        """The audit hook. It sees every event of the interpreter, so it leaves early."""
        if not self.up or (event not in _CONNECTING and event not in _LOOKING_UP):
            return
        if getattr(self._busy, "resolving", False):
            return
        if event in _LOOKING_UP:
            host = _text(args[0])
            if host and not _is_address(host) and host not in {name for name, _ in self.places}:
                raise EgressDenied(host)
            return
        address = args[1] if len(args) > 1 else None
        if isinstance(address, tuple) and len(address) >= 2:
            self._connect(_text(address[0]), int(address[1]))
        elif address is not None:
            raise EgressDenied("a local socket")

    def _connect(self, host: str, port: int) -> None:
        place = (host, port)
        if place in self.places or place in self._addresses:
            return
        self._resolve()
        if place not in self._addresses:
            raise EgressDenied(f"{host}:{port}")

    def _resolve(self) -> None:
        self._busy.resolving = True
        try:
            for host, port in self.places:
                with contextlib.suppress(OSError):
                    for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                        self._addresses.add((str(address[0]), int(address[1])))
        finally:
            self._busy.resolving = False


_guard = _Guard()
_installed = threading.Lock()
_hooked: list[bool] = []


def permit(url: str) -> None:
    """Let connections to an endpoint of a profile through.

    Args:
        url: base URL of the endpoint.
    """
    parts = urlsplit(url)
    port = parts.port or _PORTS.get(parts.scheme, 0)
    if parts.hostname and port:
        _guard.places.add((parts.hostname, port))


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Refuse every connection of this process but the permitted ones while the block runs."""
    with _installed:
        if not _hooked:
            sys.addaudithook(_guard.look)  # it can't be taken out again; it is idle without a guard
            _hooked.append(True)
        _guard.up += 1
    try:
        yield
    finally:
        with _installed:
            _guard.up -= 1


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("ascii", "replace")
    return "" if value is None else str(value)
