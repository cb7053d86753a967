"""Regular expressions of a question (`/.../`), matched by ripgrep over the bytes in memory.

Rust's regex engine takes time linear in the text whatever the pattern, which Python's does not; a file is
never opened again: the content goes to `rg` on its standard input. The only module of the engine's
retrieval that starts a process.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentloop.retrieval.chunkmap import ChunkMap
from agentloop.types import Chunk, Corpus

MAX_MATCHES = 5_000
SECONDS = 20.0
_BLOCK = 4 << 20


class RegexUnavailable(Exception):
    """`rg` is missing, refused the pattern or ran out of time; the text says which."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of what `rg` reads: where it starts there, and the file and offset, or the chunk, it is."""

    start: int
    file: int
    offset: int
    chunk: int = -1


def matches(
    corpus: Corpus, chunks: Sequence[Chunk], where: ChunkMap, pattern: str, ignore_case: bool = False
) -> dict[int, int]:
    """How many matches each chunk holds, the first `MAX_MATCHES` of the corpus.

    Raises:
        RegexUnavailable: nothing could be matched; the message is for a warning.
    """
    if "\0" in pattern or not pattern.isprintable():
        raise RegexUnavailable("The regular expression of the question holds control characters; not used.")
    command = [
        _binary(), "--no-config", "--text", "--byte-offset", "--only-matching", "--no-filename",
        "--no-line-number", "--color=never", "--ignore-case" if ignore_case else "--case-sensitive",
        "--regexp", pattern, "-",
    ]  # fmt: skip
    pieces: list[_Piece] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        feeder = threading.Thread(target=_feed, args=(process, corpus, chunks, where, pieces), daemon=True)
        feeder.start()
        try:
            offsets = _offsets(process)
        finally:
            timed_out = not timer.is_alive()
            timer.cancel()
            process.kill()
            feeder.join()
    if timed_out or process.returncode == 2:  # 2: rg's exit status for a pattern it can't read
        reason = "took too long" if timed_out else "is not one that ripgrep understands"
        raise RegexUnavailable(
            f"The regular expression of the question {reason}; its text was searched instead."
        )
    return _counts(offsets, pieces, where)


def _binary() -> str:
    """The wheel's `rg`, else one on the path."""
    own = Path(sysconfig.get_path("scripts")) / "rg"
    found = str(own) if own.exists() else shutil.which("rg")
    if found is None:
        raise RegexUnavailable("ripgrep is not installed, so the question's regular expression was not used.")
    return found


def _feed(
    process: subprocess.Popen[bytes],
    corpus: Corpus,
    chunks: Sequence[Chunk],
    where: ChunkMap,
    pieces: list[_Piece],
) -> None:
    """Write the corpus to `rg`, and remember what lies where."""
    assert process.stdin is not None  # noqa: S101 - asked for above
    at = 0
    try:
        for piece, data in _content(corpus, chunks, where):
            pieces.append(_Piece(at, piece.file, piece.offset, piece.chunk))
            process.stdin.write(data)
            process.stdin.write(b"\n")
            at += len(data) + 1
        process.stdin.close()
    except (BrokenPipeError, ValueError):
        pass  # enough matches: rg was stopped


def _content(corpus: Corpus, chunks: Sequence[Chunk], where: ChunkMap) -> Iterator[tuple[_Piece, bytes]]:
    for file in corpus.files:
        if file.derived is not None:
            for number in where.of_file(file.index):
                yield _Piece(0, file.index, 0, number), corpus.text(chunks[number]).encode("utf-8", "replace")
            continue
        start = 0
        while start < file.content.size:
            end = min(file.content.size, start + _BLOCK)
            data = file.content.read(start, end)
            cut = data.rfind(b"\n") + 1 if end < file.content.size else len(data)
            data = data[: cut or len(data)]  # blocks end at line ends, where there are any
            yield _Piece(0, file.index, start), data
            start += len(data)


def _offsets(process: subprocess.Popen[bytes]) -> list[int]:
    """Offsets of the matches; reading stops at the cap, and only the first bytes of a line are looked at."""
    assert process.stdout is not None  # noqa: S101 - asked for above
    found: list[int] = []
    while len(found) < MAX_MATCHES:
        line = process.stdout.readline(1 << 16)
        if not line:
            process.wait()
            break
        head = line.partition(b":")[0]
        if head.isdigit():
            found.append(int(head))
    return found


def _counts(offsets: Sequence[int], pieces: Sequence[_Piece], where: ChunkMap) -> dict[int, int]:
    found: dict[int, int] = {}
    for offset in offsets:
        at = bisect_right(pieces, offset, key=lambda piece: piece.start) - 1
        if at < 0:
            continue
        piece = pieces[at]
        number = (
            piece.chunk
            if piece.chunk >= 0
            else where.at_byte(piece.file, piece.offset + offset - piece.start)
        )
        if number is not None:
            found[number] = found.get(number, 0) + 1
    return found
