"""Token counting. The tokenizer is named in every pack.

toktok-rs counts as tiktoken does for o200k_base and carries its ranks: no download. Special-token
text such as `<|endoftext|>` in an input counts as the ordinary text that it is.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress

import toktok

TOKENIZER = "o200k_base"
_LENGTH = struct.Struct("<I")

_lock = threading.Lock()
_beside: list[Counter] = []  # at most one


class Counter:
    """A child process that counts. It loads the ranks (half a second) while the parent does other work.

    Loading holds the interpreter's lock, so a thread would be no help.
    """

    def __init__(self) -> None:
        """Fork; only a process without other threads may do that.

        Raises:
            OSError: no process can be made.
        """
        ours, theirs = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(ours[1])  # else the child would never see the end of its own input
            os.close(theirs[0])
            _serve(ours[0], theirs[1])
        os.close(ours[0])
        os.close(theirs[1])
        self._to, self._from = ours[1], theirs[0]
        self.close = weakref.finalize(self, _end, pid, self._to, self._from)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each text.

        Raises:
            OSError: the child has gone.
        """
        _send(self._to, json.dumps(texts).encode("ascii"))
        found: list[int] = json.loads(_receive(self._from))
        return found


def _serve(source: int, target: int) -> None:
    """The child's life: counts until the parent closes its end. Never returns."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):  # who waits for the end of the parent's output waits for nothing else
            if standard not in (source, target):
                os.dup2(null, standard)
        load()
        while True:
            _send(target, json.dumps(_counts(json.loads(_receive(source)))).encode("ascii"))
    finally:
        os._exit(0)


def _end(pid: int, *descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
    os.kill(pid, signal.SIGKILL)  # it may still be loading
    os.waitpid(pid, 0)


def _send(descriptor: int, data: bytes) -> None:
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(descriptor, view) :]


def _receive(descriptor: int) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(descriptor, _LENGTH.size))
    return _exactly(descriptor, length)


def _exactly(descriptor: int, length: int) -> bytes:
    parts = []
    while length:
        part = os.read(descriptor, length)
        if not part:
            raise OSError("the counting process has gone")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def load_beside() -> None:
    """Count in a child process from now on, if none can be made in this one. For single-threaded starts."""
    with suppress(OSError):
        _beside[:] = [Counter()]


def load() -> None:
    """Load the ranks into this process, which the first count would do."""
    with _lock:  # else two threads that count first would both load them
        toktok.batch_count([], TOKENIZER)


def count(text: str) -> int:
    """Number of o200k_base tokens of `text`; lone surrogates count as U+FFFD."""
    return count_all([text])[0]


def count_all(texts: Sequence[str]) -> list[int]:
    """Number of o200k_base tokens of each text, in order."""
    clean = [t if t.isascii() else t.encode("utf-8", "replace").decode("utf-8") for t in texts]
    with _lock:
        if _beside:
            try:
                return _beside[0].count(clean)
            except OSError:  # killed, out of memory: this process counts
                _beside.clear()
    return _counts(clean)


def _counts(clean: list[str]) -> list[int]:
    load()
    counts: list[int] = toktok.batch_count(clean, TOKENIZER)
    return counts
