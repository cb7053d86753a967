"""Where a program starts: main functions, guards, and what manifests declare."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

from agentloop.types import Corpus, FileKind, SourceFile, Trait

MAX_MANIFEST_BYTES = 1 << 20
_MAINS = {
    "python": re.compile(rb"^if __name__ == ['\"]__main__['\"]", re.MULTILINE),
    "go": re.compile(rb"^func main\(\)", re.MULTILINE),
    "rust": re.compile(rb"^(?:pub )?(?:async )?fn main\(\)", re.MULTILINE),
    "java": re.compile(rb"\bpublic static void main\(", re.MULTILINE),
    "kotlin": re.compile(rb"^fun main\(", re.MULTILINE),
    "c": re.compile(rb"^(?:int|void)\s+main\s*\(", re.MULTILINE),
    "cpp": re.compile(rb"^(?:int|auto)\s+main\s*\(", re.MULTILINE),
    "csharp": re.compile(rb"\bstatic (?:async )?(?:void|int|Task|Task<int>) Main\(", re.MULTILINE),
    "dockerfile": re.compile(rb"^(?:CMD|ENTRYPOINT)\b", re.MULTILINE),
}
_LEFT_OUT = frozenset({Trait.TEST, Trait.EXAMPLE, Trait.VENDORED, Trait.GENERATED, Trait.MINIFIED})


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A place where the program starts. `name` is what starts it: a command, a main function."""

    file: SourceFile
    byte_start: int
    byte_end: int
    line: int
    name: str
    how: str


def entry_points(corpus: Corpus) -> list[EntryPoint]:
    """The entry points of a corpus, what manifests declare first."""
    declared: list[EntryPoint] = []
    found: list[EntryPoint] = []
    for file in corpus.files:
        if file.derived is not None or file.traits & _LEFT_OUT:
            continue
        base = file.path.rpartition("/")[2]
        if base in _MANIFESTS and file.size <= MAX_MANIFEST_BYTES:
            declared += _declared(file, base)
        elif file.kind is FileKind.CODE and file.language in _MAINS:
            found += _mains(file)
    return [*declared, *found]


def _mains(file: SourceFile) -> Iterator[EntryPoint]:
    data = file.content.read(0, file.content.size)
    match = _MAINS[file.language].search(data)
    if match is None:
        return
    how = "guard" if file.language == "python" else "command" if file.language == "dockerfile" else "main"
    yield _at(file, data, match.start(), file.path, how)


def _declared(file: SourceFile, base: str) -> Iterator[EntryPoint]:
    data = file.content.read(0, file.content.size)
    try:
        names = _MANIFESTS[base](data.decode("utf-8"))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return  # a manifest that its own tools can't read declares nothing
    for name, needle in names:
        at = data.find(needle.encode())
        if at >= 0:
            yield _at(file, data, at, name, "declared")


def _at(file: SourceFile, data: bytes, start: int, name: str, how: str) -> EntryPoint:
    start = data.rfind(b"\n", 0, start) + 1
    end = data.find(b"\n", start)
    end = len(data) if end < 0 else end
    return EntryPoint(file, start, end, data.count(b"\n", 0, start) + 1, name, how)


def _pyproject(text: str) -> list[tuple[str, str]]:
    project = tomllib.loads(text)
    poetry = project.get("tool", {}).get("poetry", {})
    scripts = {**project.get("project", {}).get("scripts", {}), **poetry.get("scripts", {})}
    return [(f"{name} = {target}", str(target)) for name, target in scripts.items()]


def _package_json(text: str) -> list[tuple[str, str]]:
    package = json.loads(text)
    bins = package.get("bin") or {}
    bins = {package.get("name", "bin"): bins} if isinstance(bins, str) else bins
    named = [(f"{name} = {target}", str(target)) for name, target in bins.items()]
    if package.get("main"):
        named.append((f"main = {package['main']}", '"main"'))
    return named


def _cargo(text: str) -> list[tuple[str, str]]:
    bins = tomllib.loads(text).get("bin", [])
    return [(f"{b['name']} = {b.get('path', 'src/main.rs')}", str(b["name"])) for b in bins if "name" in b]


def _setup_cfg(text: str) -> list[tuple[str, str]]:
    section = re.search(r"^console_scripts\s*=\s*\n((?:[ \t]+\S.*\n?)+)", text, re.MULTILINE)
    lines = section[1].splitlines() if section else []
    return [(line.strip(), line.strip()) for line in lines if "=" in line]


_MANIFESTS = {
    "pyproject.toml": _pyproject,
    "package.json": _package_json,
    "Cargo.toml": _cargo,
    "setup.cfg": _setup_cfg,
}
