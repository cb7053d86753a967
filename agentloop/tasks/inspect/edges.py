"""Which files depend on which, from their import lines: raw targets resolved to files of the corpus."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from agentloop.index.symbols import import_edges
from agentloop.types import Corpus, FileKind, SourceFile

_SUFFIXES = (
    "",
    ".py",
    ".ts",
    ".tsx",
    ".js",
    ".jsx",
    ".mjs",
    ".go",
    ".rs",
    ".java",
    ".kt",
    ".rb",
    ".h",
    ".hpp",
)
_INDEXES = ("/__init__.py", "/index.ts", "/index.tsx", "/index.js", "/mod.rs")


class ImportMap:
    """Files by every name under which another file may import them."""

    def __init__(self, corpus: Corpus) -> None:
        self._by_tail: dict[str, list[SourceFile]] = {}
        self._by_folder: dict[str, list[SourceFile]] = {}
        self._paths = {f.path: f for f in corpus.files if f.kind is FileKind.CODE}
        for file in self._paths.values():
            stem = re.sub(r"(?:/__init__|/index|/mod)?\.\w+$", "", file.path)
            self._by_tail.setdefault(stem.rpartition("/")[2], []).append(file)
            self._by_folder.setdefault(posixpath.dirname(file.path), []).append(file)

    def targets(self, file: SourceFile) -> list[SourceFile]:
        """The files of the corpus that `file` imports, each once, in the order of its import lines."""
        found: dict[int, SourceFile] = {}
        for raw in import_edges(file):
            for target in self._resolve(raw, file):
                if target.index != file.index:
                    found.setdefault(target.index, target)
        return list(found.values())

    def _resolve(self, raw: str, file: SourceFile) -> Iterable[SourceFile]:
        folder = posixpath.dirname(file.path)
        if raw.startswith(("./", "../")):
            return self._exact(posixpath.normpath(posixpath.join(folder, raw)))
        if raw.startswith("."):  # Python: from .a import b
            up = len(raw) - len(raw.lstrip("."))
            base = "/".join(folder.split("/")[: len(folder.split("/")) - up + 1])
            return self._exact(posixpath.join(base, raw.lstrip(".").replace(".", "/")).rstrip("/"))
        if file.language == "go":  # an import names a folder
            return self._folders(raw)
        parts = [p for p in re.split(r"::|[./\\]", raw) if p and p not in ("crate", "self", "super")]
        return self._tail(parts)

    def _exact(self, path: str) -> list[SourceFile]:
        for candidate in [path + s for s in _SUFFIXES] + [path + i for i in _INDEXES]:
            if candidate in self._paths:
                return [self._paths[candidate]]
        return []

    def _folders(self, raw: str) -> list[SourceFile]:
        for folder, files in self._by_folder.items():
            if folder and (raw == folder or raw.endswith("/" + folder)):
                return files[:1]
        return []

    def _tail(self, parts: list[str]) -> list[SourceFile]:
        """The one file whose path ends as the dotted name does; the last part may be a name inside it."""
        for cut in range(len(parts), max(0, len(parts) - 2), -1):
            want = parts[:cut]
            fits = [f for f in self._by_tail.get(want[-1], ()) if _ends_with(f.path, want)]
            if len(fits) == 1:
                return fits
        return []


def _ends_with(path: str, parts: list[str]) -> bool:
    stem = re.sub(r"(?:/__init__|/index|/mod)?\.\w+$", "", path).split("/")
    shared = min(len(stem), len(parts))
    return stem[-shared:] == parts[-shared:] and (shared == len(parts) or shared == len(stem))
