"""Files that are parsed before they are asked for, while their request does other work."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from agentloop.types import SourceFile


class Turns:
    """A lock that whoever works ahead leaves to whoever waits for an answer."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._busy = False
        self._waiting = 0

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """Hold it, before all who work ahead."""
        with self._turn:
            self._waiting += 1
            self._turn.wait_for(lambda: not self._busy)
            self._waiting -= 1
            self._busy = True
        yield from self._held()

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """Hold it when nobody else wants it."""
        with self._turn:
            self._turn.wait_for(lambda: not self._busy and not self._waiting)
            self._busy = True
        yield from self._held()

    def _held(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self._turn:
                self._busy = False
                self._turn.notify_all()


class Ahead:
    """A thread that does `work` with one file after the other, until there are no more or one fails."""

    def __init__(self, work: Callable[[SourceFile], bool]) -> None:
        self._work = work
        self._files: deque[SourceFile] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._over = False

    def add(self, files: Sequence[SourceFile]) -> None:
        """These come next, before others that still wait."""
        with self._lock:
            if self._over or not files:
                return
            self._files.extendleft(reversed(files))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="parse-ahead", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """No further file is begun."""
        with self._lock:
            self._over = True
            self._files.clear()

    def join(self) -> None:
        """Wait for the file that was begun."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._files:
                    self._thread = None
                    return
                file = self._files.popleft()
            if not self._work(file):
                self.stop()
