"""Lines that a reviewer would stop at, in files that matter to the question."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agentloop.types import FileKind, SourceFile, Trait

MAX_FILE_BYTES = 2 << 20
_RULES = (
    ("known_gap", re.compile(rb"\b(?:FIXME|XXX|HACK|TODO)\b[^\n]{0,160}")),
    ("shell_command", re.compile(rb"\bshell\s*=\s*True\b|\bos\.system\(|\bchild_process\.exec\(")),
    ("dynamic_code", re.compile(rb"(?<![\w.])(?:eval|exec)\(\s*[^\s)'\"]")),
    (
        "unsafe_deserialisation",
        re.compile(rb"\bpickle\.loads?\(|\byaml\.load\((?![^\n]*Loader)|\bObjectInputStream\("),
    ),
    (
        "swallowed_error",
        re.compile(rb"except(?:\s+(?:Base)?Exception)?\s*:\s*\n\s*pass\b|catch\s*\([^)]*\)\s*\{\s*\}"),
    ),
    (
        "disabled_check",
        re.compile(rb"\bverify\s*=\s*False\b|InsecureSkipVerify:\s*true|rejectUnauthorized:\s*false"),
    ),
    ("weak_hash", re.compile(rb"\b(?:hashlib\.)?(?:md5|sha1)\(")),
    (
        "sql_by_hand",
        re.compile(rb"(?:execute|query)\(\s*f[\"'](?:SELECT|INSERT|UPDATE|DELETE)\b", re.IGNORECASE),
    ),
    ("unsafe_block", re.compile(rb"\bunsafe\s*\{")),
)


@dataclass(frozen=True, slots=True)
class Risk:
    """One line of a file and the rule that it meets."""

    file: SourceFile
    rule: str
    byte_start: int
    byte_end: int
    line: int
    text: str


def risks(files: Iterable[SourceFile]) -> Iterator[Risk]:
    """Risks in order of the files, then of the rules: at most one a rule and file."""
    for file in files:
        if file.kind is not FileKind.CODE or file.size > MAX_FILE_BYTES or Trait.TEST in file.traits:
            continue
        data = file.content.read(0, file.content.size)
        for rule, pattern in _RULES:
            match = pattern.search(data)
            if match:
                start = data.rfind(b"\n", 0, match.start()) + 1
                end = data.find(b"\n", match.end())
                end = len(data) if end < 0 else end
                line = data.count(b"\n", 0, start) + 1
                yield Risk(file, rule, start, end, line, data[start:end].decode("utf-8", "replace").strip())
