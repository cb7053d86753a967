"""Chunks and index text of files, made by a child process while its parent reads further files.

A cold request spends most of its time in one interpreter; on two cores a second one takes about a third off
(`bench/cold.py`). The child is forked before anything was read, is sent the bytes of files as they are read,
and sends back what `chunk_corpus` and the index would have made of them. Whatever it can't give (it died,
a file was not sent) is made by the parent: with it and without it the outcome is the same.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import socket
import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from agentloop.chunking.corpus import add_chunks
from agentloop.chunks import Chunks, Dump
from agentloop.index.build import Beside, FileText, IndexText, path_words
from agentloop.types import FileKind, Memory, SourceFile

_BATCH_BYTES = 1 << 18
"""Files are sent together up to about so many bytes: a message costs as much as a small file."""
_MOST_WAITING = 200
"""Batches without an answer; the parent makes the chunks of files beyond them by itself."""
_MOST_BYTES = 4 << 20
"""Larger files are left to the parent: one of them would keep everything behind it waiting."""
_MESSAGE = 1

Key = tuple[str, str, str, str]
"""Kind, language, path and content hash of a file: all that its chunks and index text depend on."""


class _Made(NamedTuple):
    """The chunks of a file, and what is indexed beside their text."""

    chunks: Dump
    text: FileText


def _key(file: SourceFile) -> Key:
    return (file.kind.value, file.language, file.path, file.content_hash)


class Ahead:
    """The parent's side: `offer` files as they are read, `flush`, then ask for `chunks` and `text` in order.

    `close()` ends the child; what it gave until then stays.
    """

    def __init__(self) -> None:
        """Fork.

        Raises:
            OSError, AttributeError: no process can be made, or it can't be sent anything here.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                os.close(os.memfd_create("agentloop"))
                pid = os.fork()
            except (OSError, AttributeError):
                ours.close()
                raise
            if pid == 0:
                ours.close()
                _serve(theirs)
        self._socket = ours
        self._waiting: list[SourceFile] = []
        self._bytes = 0
        self._sent: dict[Key, int] = {}  # the number of the batch that a file went with
        self._batches = 0
        self._received = 0
        self._made: dict[Key, _Made] = {}
        self.close = weakref.finalize(self, _end, pid, ours)

    def offer(self, file: SourceFile) -> None:
        """Send a file, if its chunks can be made there. Nothing here raises."""
        if (
            file.derived is not None
            or file.kind is FileKind.LOG
            or not isinstance(file.content, Memory)
            or file.size > _MOST_BYTES
            or _key(file) in self._sent
            or self._batches - self._received >= _MOST_WAITING
        ):
            return
        self._waiting.append(file)
        self._sent[_key(file)] = self._batches
        self._bytes += file.size
        if self._bytes >= _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what waits to be sent."""
        if not self._waiting or not self.close.alive:
            return
        batch = [(_key(file), file.content.read(0, file.size)) for file in self._waiting]
        self._waiting, self._bytes = [], 0
        self._batches += 1
        try:
            _send(self._socket, batch)
            while self._received < self._batches and select.select([self._socket], [], [], 0)[0]:
                self._take(_receive(self._socket))
        except (OSError, EOFError):  # it died
            self.close()

    def chunks(self, file: SourceFile) -> Dump | None:
        """The chunks of a file; None where the parent has to make them. Waits for the child."""
        made = self._of(file)
        return None if made is None else made.chunks

    def text(self, file: SourceFile) -> FileText | None:
        """What is indexed beside the text of a file; None where the parent has to make it."""
        made = self._of(file)
        return None if made is None else made.text

    def _of(self, file: SourceFile) -> _Made | None:
        key = _key(file)
        batch = self._sent.get(key)
        if batch is None:
            return None
        while self.close.alive and batch >= self._received:
            try:
                self._take(_receive(self._socket))
            except (OSError, EOFError):  # it died
                self.close()
        return self._made.get(key)

    def _take(self, answers: list[Any]) -> None:
        self._received += 1
        for key, chunks, path, beside in answers:
            self._made[key] = _Made(chunks, FileText(path, beside))


def started_for(files: Sequence[SourceFile]) -> Ahead | None:
    """As `start`, with files that were read already."""
    ahead = start()
    if ahead is not None:
        for file in files:
            ahead.offer(file)
        ahead.flush()
    return ahead


def start() -> Ahead | None:
    """A child that makes chunks ahead, where that is of use: a second core, and no other thread here."""
    try:
        alone = threading.active_count() == 1
        return Ahead() if alone and len(os.sched_getaffinity(0)) > 1 else None
    except (OSError, AttributeError):  # not Linux
        return None


def _serve(link: socket.socket) -> None:
    """The child's life: answers batches until the parent has gone. Never returns."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):  # who waits for the end of the parent's output waits for nothing else
            os.dup2(null, standard)
        text = IndexText()
        while True:
            _send(link, [_answer(text, *given) for given in _receive(link)])
    finally:
        os._exit(0)


def _answer(text: IndexText, key: Key, data: bytes) -> tuple[Key, Dump, str, list[Beside]]:
    _, language, path, _ = key
    kind = FileKind(key[0])
    chunks = Chunks()
    add_chunks(chunks, 0, data, kind, language)
    beside = [
        text.beside(kind, chunks.name(row), data[start:end])
        for row, (start, end) in enumerate(zip(chunks.byte_starts, chunks.byte_ends, strict=True))
    ]
    return key, chunks.dumped(), path_words(path), beside


def _end(pid: int, link: socket.socket) -> None:
    link.close()
    os.kill(pid, signal.SIGKILL)  # it holds nothing but memory
    os.waitpid(pid, 0)


def _send(link: socket.socket, value: list[Any]) -> None:
    """Hand over a value in memory of its own: sending never waits for the other side to read."""
    with open(os.memfd_create("agentloop"), "wb") as file:
        marshal.dump(value, file)
        file.flush()
        socket.send_fds(link, [b"."], [file.fileno()])


def _receive(link: socket.socket) -> list[Any]:
    _, descriptors, _, _ = socket.recv_fds(link, _MESSAGE, 1)
    if not descriptors:
        raise EOFError("the other process has gone")
    with open(descriptors[0], "rb") as file:
        file.seek(0)
        found: list[Any] = marshal.loads(file.read())  # noqa: S302 - both sides are this program
    return found
