"""The parse worker: a process that reads files from a pipe and answers with definitions and calls.

Run by path, with an isolated interpreter, so that it imports only tree-sitter and the grammars. A timer
of processor time whose signal has its default action ends the process when a parse takes too long,
whatever code runs at that time, whether or not the parent still lives, and however busy the machine is.
A memory limit bounds a grammar that blows up.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import signal
import struct
import sys
import tempfile
from typing import Any

REQUEST = struct.Struct("<dHI")  # seconds, length of the language's name, length of the data
RESPONSE = struct.Struct("<I")
MEMORY_BYTES = 2 << 30


def _read(length: int) -> bytes:
    """So many bytes from the pipe, or fewer at its end."""
    parts = []
    while length and (part := os.read(0, min(length, 1 << 20))):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _grammar(name: str) -> Any:
    """A grammar, unpacked into the user's cache, or else into a folder that goes at once.

    A library stays loaded after its file is gone.
    """
    import semble_grammars

    try:
        return semble_grammars.get_language(name)
    except (semble_grammars.GrammarLoadError, OSError, RuntimeError):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["SEMBLE_GRAMMARS_CACHE_DIR"] = folder
            return semble_grammars.get_language(name)


def _seal(here: str) -> None:
    """Give up the network: grammars are compiled code that reads whatever an input holds."""
    found = importlib.util.spec_from_file_location("seal", f"{here}/../../seal.py")
    assert found is not None and found.loader is not None  # noqa: S101, PT018 - it is part of the package
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    module.seal()


def main() -> None:
    """Answer requests until the pipe closes."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    here, *search = sys.argv[1:]
    sys.path[:0] = [here]
    sys.path += search
    import tree_sitter
    from tags import TAGS  # type: ignore[import-not-found]
    from tree import read  # type: ignore[import-not-found]

    _seal(here)
    loaded = {}
    while len(head := _read(REQUEST.size)) == REQUEST.size:
        seconds, name_length, length = REQUEST.unpack(head)
        name = _read(name_length).decode()
        data = _read(length)
        if name not in loaded:
            language = _grammar(name)
            loaded[name] = tree_sitter.Parser(language), tree_sitter.Query(language, TAGS[name])
        parser, query = loaded[name]
        signal.setitimer(signal.ITIMER_PROF, seconds)
        root = parser.parse(data).root_node
        rows, calls = read(data, root, query)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answer = json.dumps([rows, calls, root.has_error], ensure_ascii=True, separators=(",", ":")).encode()
        _write(RESPONSE.pack(len(answer)) + answer)


if __name__ == "__main__":
    main()
