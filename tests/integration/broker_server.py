"""A real broker process on a free port with a home of its own, for tests that need one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.client import BrokerClient

START_SECONDS = 60
_MAIN = """
import asyncio, os
from broker.config import load
from broker.logs import set_up
from broker.serve import serve
set_up()
asyncio.run(serve(load(os.environ), lambda line: print(line, flush=True)))
"""


@dataclass
class Server:
    """A broker process. `environ` is what it gets beside PATH."""

    home: Path
    roots: Path
    environ: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self, *, check: bool = True) -> Server:
        """Start it, and wait until it announces itself."""
        env = {
            "PATH": os.environ["PATH"],
            "BROKER_HOME": str(self.home),
            "BROKER_LISTEN": "127.0.0.1:0",
            "BROKER_ALLOWED_ROOTS": str(self.roots),
            **self.environ,
        }
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "broker.json").unlink(missing_ok=True)
        with (self.home.parent / f"{self.home.name}.err").open("ab") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _MAIN], env=env, stdout=subprocess.PIPE, stderr=err
            )
        if not check:
            return self
        deadline = time.monotonic() + START_SECONDS
        while not (self.home / "broker.json").exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the broker did not start: {self.errors()}")
            time.sleep(0.02)
        return self

    def errors(self) -> str:
        """What it wrote to its log."""
        return (self.home.parent / f"{self.home.name}.err").read_text("utf-8")

    @property
    def url(self) -> str:
        """Where it listens."""
        return str(json.loads((self.home / "broker.json").read_text())["url"])

    @property
    def token(self) -> str:
        """The local token."""
        return (self.home / "local-token").read_text().strip()

    def client(self) -> BrokerClient:
        """A client of it."""
        return BrokerClient.local(self.home)

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send a signal and wait for the end; the exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def stop(self) -> None:
        """Stop it if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.kill(signal.SIGTERM)
        elif self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()

    def request(self, query: str = "where is the parser?", **more: Any) -> dict[str, Any]:
        """A request over the roots."""
        ref = {"type": "directory", "uri": str(self.roots)}
        return {"query": query, "input_refs": [ref], "task_type": "rag_compress", **more}


def small_tree(root: Path) -> Path:
    """A folder with a few sources and a log."""
    (root / "src").mkdir(parents=True)
    (root / "src" / "parser.py").write_text(
        "def parse_header(line):\n    '''Split a header line at its colon.'''\n"
        "    name, _, value = line.partition(':')\n    return name.strip(), value.strip()\n"
    )
    (root / "src" / "retry.py").write_text(
        "def back_off(failures):\n    '''Seconds before the next attempt.'''\n"
        "    return min(30, 2**failures)\n"
    )
    (root / "build.log").write_text(
        "2026-07-01T13:00:00Z INFO compiling\n"
        "2026-07-01T13:00:05Z ERROR parser.c:12: fatal error: gen.h: No such file\n"
        "2026-07-01T13:00:06Z ERROR build failed\n"
    )
    return root


@contextmanager
def server(tmp: Path, **environ: str) -> Iterator[Server]:
    """A running broker over a small tree."""
    found = Server(tmp / "home", small_tree(tmp / "data"), dict(environ))
    found.start()
    try:
        yield found
    finally:
        found.stop()


async def finished(client: BrokerClient, job_id: str, seconds: float = 60) -> dict[str, Any]:
    """A job's record in its terminal state."""
    record = await client.wait(job_id, seconds)
    assert record["state"] in {"succeeded", "failed", "cancelled", "timed_out"}, record
    return record


async def until(check: Any, seconds: float = 30) -> None:
    """Wait until an async check holds."""
    async with asyncio.timeout(seconds):
        while not await check():
            await asyncio.sleep(0.02)
