"""The `stack_trace_path` strategy: frames of common languages, matched to files of the corpus.

Frames name paths of the machine that ran the program: what is compared is the tail of the path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentloop.types import Corpus, SourceFile

MAX_FRAMES = 200
MAX_CHARS = 200_000
_LONG_LINE = 2_000
"""Longer lines hold no frame; the patterns would try each of their characters."""

# Each pattern names `path` and `line`, and `function` where the frame has one.
_PYTHON = re.compile(
    r'File "(?P<path>[^"\n]{1,500})", line (?P<line>\d{1,9})(?:, in (?P<function>[^\n]{1,200}))?'
)
_OTHERS = (
    # Java, Kotlin, Scala: at com.acme.Shop.total(Shop.java:42)
    re.compile(
        r"\bat (?:[\w.$@-]+/)?(?P<function>[\w.$<>]{1,300})"
        r"\((?P<path>[\w$-]+\.(?:java|kt|scala|groovy|clj)):(?P<line>\d{1,9})\)"
    ),
    # .NET: at Shop.Cart.Total(Item i) in C:\src\Cart.cs:line 42
    re.compile(
        r"\bat (?P<function>[\w.`<>\[\],]{1,300})\([^\n)]{0,300}\) in "
        r"(?P<path>[^\n]{1,300}?):line (?P<line>\d{1,9})"
    ),
    # JavaScript: at total (/app/cart.js:10:5), at /app/cart.js:10:5, at async Foo.bar (file:///x.mjs:1:2)
    re.compile(
        r"\bat (?:async )?(?:(?P<function>[\w.$<> \[\]]{1,200}?) \()?(?:file://|webpack(?:-internal)?:///)?"
        r"(?P<path>[^\s():]{1,300}\.\w{1,5}):(?P<line>\d{1,9})(?::\d+)?\)?"
    ),
    # Ruby: cart.rb:10:in `total'
    re.compile(r"(?P<path>[\w./@+-]{1,300}\.rb):(?P<line>\d{1,9}):in [`'](?P<function>[^'\n]{1,100})'"),
    # PHP: #0 /app/cart.php(10): total()
    re.compile(r"#\d+ (?P<path>[^\s(]{1,300}\.php)\((?P<line>\d{1,9})\): (?P<function>[\w\\:>-]{1,200})"),
    # C, C++, Rust, Swift debuggers and sanitizers: #0 0x12 in total cart.c:10, at cart.c:10
    re.compile(
        r"#\d+\s+(?:0x[0-9a-f]+ in )?(?P<function>[\w:~<>]{1,200})[^\n]{0,200}?\s(?:at )?"
        r"(?P<path>[\w./@+-]{1,300}\.\w{1,4}):(?P<line>\d{1,9})"
    ),
    # anything else that names a file and a line: Go, Rust, compilers, linters, test runners
    re.compile(
        r"(?<![\w./\\@+-])(?P<path>(?:[A-Za-z]:)?[\w./\\@+-]{1,300}\.[A-Za-z]\w{0,4})"
        r"(?::(?P<line>\d{1,9})|\((?P<paren>\d{1,9})(?:,\d+)?\))"
    ),
)


@dataclass(frozen=True, slots=True)
class Frame:
    """A place that a trace names. `depth` 0 is the innermost frame of its trace."""

    path: str
    line: int
    function: str
    depth: int


def frames(text: str) -> list[Frame]:
    """The frames of a text, innermost of each trace first, each place once."""
    text = "\n".join(line for line in text.split("\n") if len(line) <= _LONG_LINE)[:MAX_CHARS]
    found: list[Frame] = []
    python = list(_PYTHON.finditer(text))
    for depth, match in enumerate(reversed(python)):  # Python prints the innermost frame last
        found.append(Frame(match["path"], int(match["line"]), match["function"] or "", depth))
    rest = _PYTHON.sub(" ", text)
    taken: set[tuple[str, int]] = set()
    ordered: list[tuple[int, str, int, str]] = []
    for pattern in _OTHERS:
        for match in pattern.finditer(rest):
            groups = match.groupdict()
            line = int(groups.get("line") or groups.get("paren") or 0)
            key = (match["path"].replace("\\", "/").rpartition("/")[2], line)
            if key not in taken:
                taken.add(key)
                path = _java_path(match["path"], groups.get("function") or "")
                ordered.append((match.start(), path, line, groups.get("function") or ""))
    for depth, (_, path, line, function) in enumerate(sorted(ordered)):
        found.append(Frame(path, line, function, depth))
    return found[:MAX_FRAMES]


def _java_path(path: str, function: str) -> str:
    """A Java frame names only the file; its package is in the method's name."""
    if "/" in path or "\\" in path or not re.search(r"\.(?:java|kt|scala|groovy)$", path):
        return path
    packages = [part for part in function.split(".")[:-2] if part]
    return "/".join([*packages, path])


class PathIndex:
    """Files by base name, to match paths whose prefix differs."""

    def __init__(self, corpus: Corpus) -> None:
        self._by_name: dict[str, list[SourceFile]] = {}
        for file in corpus.files:
            self._by_name.setdefault(file.path.rpartition("/")[2].lower(), []).append(file)

    def match(self, path: str) -> list[SourceFile]:
        """The files whose path shares the longest tail with `path`; none if not even the name agrees."""
        parts = [part for part in re.split(r"[/\\]+", path.strip()) if part not in ("", ".", "..")]
        if not parts:
            return []
        best: list[SourceFile] = []
        longest = 0
        for file in self._by_name.get(parts[-1].lower(), ()):
            shared = _shared_tail(file.path.split("/"), parts)
            if shared > longest:
                best, longest = [file], shared
            elif shared == longest:
                best.append(file)
        return best


def _shared_tail(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(reversed(one), reversed(other), strict=False):
        if left.lower() != right.lower():
            break
        count += 1
    return count


def located(texts: Iterable[str], paths: PathIndex) -> list[tuple[Frame, SourceFile]]:
    """Frames that lie in the corpus, first text first; a name that fits many files is left out."""
    found = []
    for text in texts:
        for frame in frames(text):
            files = paths.match(frame.path)
            if 0 < len(files) <= 3:
                found += [(frame, file) for file in files]
    return found
