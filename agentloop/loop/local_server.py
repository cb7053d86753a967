"""A model server in a child process, for as long as a block runs: llama.cpp's, xllamacpp, vLLM.

It listens on a free loopback port with a random key, in its own process group, and has to say that it
serves the model that was asked for before anything is sent to it.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentloop.egress import permit
from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.loop import runtimes
from agentloop.loop.profiles import Profile

STOP_SECONDS = 8.0  # the child itself gives a server 5 s
POLL_SECONDS = 0.05
LOOPBACK = "127.0.0.1"
CHILD = Path(__file__).with_name("local_child.py")
PORT_TRIES = 3  # another process may take a free port before the server does


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that answers: its base URL, the key that it wants, and the leader of its process group."""

    endpoint: str
    api_key: str
    pid: int


class _Ended(Exception):
    """The server ended before it was ready."""


def serve(gguf: Path, context_tokens: int) -> Any:
    """`serve_profile` for a file with xllamacpp."""
    return serve_profile(
        Profile(name="local", gguf=str(gguf), context_tokens=max(1024, context_tokens), max_output_tokens=64)
    )


@contextmanager
def serve_profile(profile: Profile, host: str = LOOPBACK) -> Iterator[Serving]:
    """Serve a profile's model while the block runs. The whole process group is gone afterwards.

    Raises:
        AgentloopError: MODEL_UNAVAILABLE: the runtime or the file is missing, the server did not start in
            the profile's `start_seconds`, or it serves another model.
    """
    _check(profile)
    child, serving = _start(profile, host)
    try:
        yield serving
    finally:
        _stop(child)


def _check(profile: Profile) -> None:
    if profile.runtime == "xllamacpp" and find_spec("xllamacpp") is None:
        raise _unavailable("A local model needs the extra `local`: pip install '.[local]'.")
    if profile.gguf and not Path(profile.gguf).is_file():
        name = Path(profile.gguf).name
        raise _unavailable(f"The model file {name} is not there. See `agentloop model install`.")


def _start(profile: Profile, host: str) -> tuple[subprocess.Popen[bytes], Serving]:
    """A child whose server is ready."""
    told = ""
    for _ in range(PORT_TRIES):
        key, port = secrets.token_urlsafe(24), _free_port(host)
        child = _spawn(profile, host, port, key)
        try:
            port = _ready(child, profile, host, port, key)
        except _Ended as exc:
            _stop(child)
            told = str(exc)
            if "address already in use" not in told.casefold():
                break
        except BaseException:
            _stop(child)
            raise
        else:
            return child, Serving(f"http://{host}:{port}/v1", key, child.pid)
    raise _unavailable(f"The model server {profile.runtime} did not start: {told}")


def _spawn(profile: Profile, host: str, port: int, key: str) -> subprocess.Popen[bytes]:
    settings: Mapping[str, object]
    if profile.runtime == "xllamacpp":
        settings = runtimes.child_settings(profile, host, 0, key)
    else:
        command = runtimes.command(profile, host, port, key)
        settings = {"argv": command.argv, "env": command.env}
    child = subprocess.Popen(
        [sys.executable, "-P", str(CHILD)],  # as a script: it needs nothing of this package
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        bufsize=0,  # select sees every line
    )
    if child.stdin is None:
        raise AssertionError("the child was started with pipes")
    # through a pipe: an argument would show the key to other users
    child.stdin.write(json.dumps(settings).encode() + b"\n")
    child.stdin.flush()
    return child


def _ready(child: subprocess.Popen[bytes], profile: Profile, host: str, port: int, key: str) -> int:
    """The server's port, once it answers and serves the model that was asked for."""
    deadline = time.monotonic() + profile.start_seconds
    if profile.runtime == "xllamacpp":
        port = int(_line(child, deadline).get("port", 0))
    while time.monotonic() < deadline:
        served = served_models(host, port, key)
        if served is not None:
            if profile.model not in served:
                told = ", ".join(served)[:200] or "none"
                raise _unavailable(f"The model server serves {told} instead of {profile.model}.")
            return port
        _line(child, min(deadline, time.monotonic() + POLL_SECONDS), needed=False)
    raise _unavailable(
        f"The model server {profile.runtime} was not ready after start_seconds={profile.start_seconds:g}."
    )


def _line(child: subprocess.Popen[bytes], deadline: float, *, needed: bool = True) -> dict[str, Any]:
    """What the child says until a time; raises when it says that its server failed, or is gone."""
    if child.stdout is None:
        raise AssertionError("the child was started with pipes")
    ready, _, _ = select.select([child.stdout], [], [], max(0.0, deadline - time.monotonic()))
    if not ready:
        if needed:
            raise _Ended("it said nothing")
        return {}
    try:
        said: dict[str, Any] = json.loads(child.stdout.readline())
    except ValueError:
        raise _Ended("is the file a GGUF model?") from None
    if "failed" in said:
        raise _Ended(str(said["failed"]))
    if "ended" in said:
        raise _Ended(f"it ended with status {said['ended']}: {said['said']}")
    return said


def served_models(host: str, port: int, key: str) -> list[str] | None:
    """The names that a server says it serves; None while it is not ready (nobody listens, 503)."""
    permit(f"http://{host}:{port}")
    connection = http.client.HTTPConnection(host, port, timeout=2)
    try:
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        body = json.loads(response.read(1 << 20)) if response.status == 200 else None
        return None if body is None else [str(model["id"]) for model in body["data"]]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()


def healthy(port: int, key: str, host: str = LOOPBACK) -> bool:
    """Whether the server on a port says that its model is loaded."""
    return served_models(host, port, key) is not None


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End the process group: the server gets SIGTERM, then SIGKILL."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()  # which tells a child that keeps a server
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, sign)
        except ProcessLookupError:
            break
        try:
            child.wait(STOP_SECONDS)
            if not _group_alive(child.pid):
                break
        except subprocess.TimeoutExpired:
            continue
    child.wait()


def _group_alive(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True


def _unavailable(message: str) -> AgentloopError:
    return AgentloopError(ErrorCode.MODEL_UNAVAILABLE, message, Stage.LOOP)
