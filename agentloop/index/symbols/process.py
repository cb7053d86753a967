"""The parent's side of the parse worker: start it, ask it, kill it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import select
import signal
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from agentloop.index.symbols.worker import REQUEST, RESPONSE

_START_SECONDS = 10.0
"""How long a loaded machine may take to start the worker or to unpack a grammar (0.2 s when idle)."""
_WALL_FACTOR = 10
"""The worker ends itself by its processor time; waiting for it is bounded by this many times more."""
_ENVIRONMENT = ("HOME", "XDG_CACHE_HOME", "SEMBLE_GRAMMARS_CACHE_DIR")
"""What the grammars' package needs to find its cache; the worker gets nothing else."""


class ParseFailed(Exception):
    """The worker gave no answer for a file; the message says why."""

    def __init__(self, reason: str, *, unavailable: bool = False) -> None:
        super().__init__(reason)
        self.unavailable = unavailable


class Answer(NamedTuple):
    """Definitions as rows, byte offsets of calls by name, and whether the parser saw errors."""

    rows: list[list[Any]]
    calls: dict[str, list[int]]
    errors: bool


class ParseProcess:
    """One worker process. After a `ParseFailed` it is gone; make another one."""

    def __init__(self) -> None:
        """Start the worker without waiting for it.

        Raises:
            ParseFailed: the process can't be started, or tree-sitter isn't installed.
        """
        search = _package_folders()
        here = Path(__file__).parent
        child_in, to_worker = os.pipe()
        from_worker, child_out = os.pipe()
        argv = [sys.executable, "-I", "-S", str(here / "worker.py"), str(here), *search]
        null = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
        actions = [(os.POSIX_SPAWN_DUP2, child_in, 0), (os.POSIX_SPAWN_DUP2, child_out, 1), null]
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        try:
            self._pid = os.posix_spawn(sys.executable, argv, environment, file_actions=actions)
        except OSError as error:
            for descriptor in (to_worker, from_worker):
                os.close(descriptor)
            raise ParseFailed(f"the parser can't be started ({error.strerror})", unavailable=True) from error
        finally:
            os.close(child_in)
            os.close(child_out)
        self._to = to_worker
        self._from = from_worker
        self._answered = False
        os.set_blocking(to_worker, False)
        self._end = weakref.finalize(self, _end, self._pid, to_worker, from_worker)

    def ask(self, data: bytes, language: str, seconds: float) -> Answer:
        """Parse one file.

        Args:
            data: the file's bytes.
            language: a language of `TAGS`.
            seconds: of processor time, after which the worker is killed.

        Raises:
            ParseFailed: the time was used up, or the worker died.
        """
        name = language.encode("ascii")
        patience = _START_SECONDS + _WALL_FACTOR * seconds
        try:
            self._send(REQUEST.pack(seconds, len(name), len(data)) + name, patience)
            self._send(data, patience)
            (length,) = RESPONSE.unpack(self._receive(RESPONSE.size, patience))
            answer = Answer(*json.loads(self._receive(length, patience)))
        except (BrokenPipeError, EOFError, TimeoutError) as error:
            status = self.close()
            if isinstance(error, TimeoutError) or (status is not None and -status == signal.SIGPROF):
                raise ParseFailed(f"parsing took longer than {seconds:g} s") from error
            raise ParseFailed("the parser failed", unavailable=not self._answered) from error
        self._answered = True
        return answer

    def kill(self) -> None:
        """End the worker, whoever waits for it: they get a `ParseFailed`."""
        if self._end.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def close(self) -> int | None:
        """Kill the worker and wait for it. Returns its exit status, negative for a signal; None if gone."""
        return self._end() if self._end.alive else None

    def _send(self, data: bytes, patience: float) -> None:
        view = memoryview(data)
        poll = select.poll()
        poll.register(self._to, select.POLLOUT)
        while view:
            _wait(poll, patience)
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(self._to, view) :]

    def _receive(self, length: int, patience: float) -> bytes:
        return b"".join(self._parts(length, patience))

    def _parts(self, length: int, patience: float) -> Iterator[bytes]:
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        while length:
            _wait(poll, patience)
            part = os.read(self._from, min(length, 1 << 20))
            if not part:
                raise EOFError
            length -= len(part)
            yield part


def _wait(poll: select.poll, patience: float) -> None:
    if not poll.poll(patience * 1000):
        raise TimeoutError


def _end(pid: int, *descriptors: int) -> int:
    """Kill, reap and close; also runs when the interpreter ends. A worker that has died keeps its status."""
    for descriptor in descriptors:
        os.close(descriptor)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _package_folders() -> list[str]:
    """Where the worker finds its packages: an isolated interpreter looks at no site folder."""
    folders = []
    for package in ("tree_sitter", "semble_grammars"):
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise ParseFailed(f"{package} isn't installed", unavailable=True)
        folders.append(str(Path(spec.origin).parent.parent))
    return list(dict.fromkeys(folders))
