"""llama.cpp's server in a child process, for a GGUF on this machine. Needs the extra `local`.

The child listens on a free loopback port, with a random key, in its own process group.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from agentloop.errors import AgentloopError, ErrorCode, Stage

START_SECONDS = 60.0
STOP_SECONDS = 5.0
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that answers: its base URL, and the key that it wants."""

    endpoint: str
    api_key: str
    pid: int


@contextmanager
def serve(gguf: Path, context_tokens: int, threads: int = 0) -> Iterator[Serving]:
    """Serve a model while the block runs. The whole process group is gone afterwards.

    Args:
        threads: 0 is half of the cores: llama.cpp's threads spin, and a busy machine starves them all.

    Raises:
        AgentloopError: MODEL_UNAVAILABLE: the extra or the file is missing, or the server did not start.
    """
    if find_spec("xllamacpp") is None:
        raise _unavailable("A local model needs the extra `local`: pip install 'agentloop[local]'.")
    if not gguf.is_file():
        raise _unavailable(f"The model file {gguf.name} is not there. See `agentloop model install`.")
    count = threads or max(1, (os.cpu_count() or 2) // 2)
    key = secrets.token_urlsafe(24)
    # The key goes through a pipe: an argument or the environment would show it to other users.
    child = subprocess.Popen(
        [sys.executable, "-m", "agentloop.loop.local_child", str(gguf), str(context_tokens), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        endpoint = _started(child, key)
        yield Serving(endpoint, key, child.pid)
    finally:
        _stop(child)


def _started(child: subprocess.Popen[bytes], key: str) -> str:
    """The base URL, once the server has said its port and answers its health check."""
    if child.stdin is None or child.stdout is None:
        raise AssertionError("the child was started with pipes")
    child.stdin.write(key.encode() + b"\n")
    child.stdin.flush()
    line = child.stdout.readline()  # the child prints one line, or ends and closes the pipe
    try:
        port = int(json.loads(line)["port"])
    except (ValueError, KeyError, TypeError):
        raise _unavailable("The local model server did not start; is the file a GGUF model?") from None
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and child.poll() is None:
        if healthy(port, key):
            return f"http://127.0.0.1:{port}/v1"
        time.sleep(POLL_SECONDS)
    raise _unavailable("The local model server started and did not become ready.")


def healthy(port: int, key: str) -> bool:
    """Whether the server on a loopback port says that its model is loaded."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stop(child: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, sign)
        except ProcessLookupError:
            break
        try:
            child.wait(STOP_SECONDS)
            break
        except subprocess.TimeoutExpired:
            continue
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
    child.wait()


def _unavailable(message: str) -> AgentloopError:
    return AgentloopError(ErrorCode.MODEL_UNAVAILABLE, message, Stage.LOOP)
