"""One line of a `.gitignore` as a regular expression over bytes, exactly as git's wildmatch reads it.

Follows `dir.c` (parse_path_pattern, match_basename, match_pathname) and `wildmatch.c` of git 2.39.
The expressions use lazy atomic groups, so a hostile pattern can't make them backtrack for long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SPECIAL = frozenset(b"*?[\\")
_CLASSES = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"\x21-\x7e",
    b"lower": rb"a-z",
    b"print": rb"\x20-\x7e",
    b"punct": rb"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    b"space": rb"\x20\t-\r",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}
_NEVER = rb"(?!)"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed line. `literal` is set where no wildcard is; `regex` matches a base name or a path."""

    regex: bytes
    negated: bool
    dirs_only: bool
    base_name: bool  # matches the last component; otherwise the path below the ignore file's folder
    literal: bytes | None


def parse_line(line: bytes) -> Pattern | None:
    """The pattern of a line, or None for blank lines and comments."""
    if line.startswith(b"#"):
        return None
    line = _trim(line)
    negated = line.startswith(b"!")
    if negated:
        line = line[1:]
    dirs_only = line.endswith(b"/")
    if dirs_only:
        line = line[:-1]
    if not line:
        return None
    if b"/" not in line:
        literal = None if _SPECIAL & set(line) else line
        return Pattern(_glob(line, slashes=False), negated, dirs_only, True, literal)
    line = line.removeprefix(b"/")
    # git compares the part before the first wildcard as it is and matches the rest on its own, so a
    # `**` there counts as the start of a component: `a**/b` matches `a/x/b` and `ab`
    cut = next((n for n, char in enumerate(line) if char in _SPECIAL), len(line))
    regex = re.escape(line[:cut]) + _glob(line[cut:], slashes=True)
    return Pattern(regex, negated, dirs_only, False, line if cut == len(line) else None)


def _trim(line: bytes) -> bytes:
    """`line` without trailing spaces, but those that a backslash keeps."""
    end, at = len(line), 0
    last_space = -1
    while at < end:
        if line[at] == 0x20:
            if last_space < 0:
                last_space = at
        else:
            last_space = -1
            if line[at] == 0x5C:
                at += 1
                if at >= end:
                    return line
        at += 1
    return line if last_space < 0 else line[:last_space]


@dataclass(frozen=True, slots=True)
class _Star:
    """A run of stars. `crosses` slashes; `folder` is `**/`, which also stands for no folder at all."""

    crosses: bool
    folder: bool


def _glob(pattern: bytes, *, slashes: bool) -> bytes:
    """A regex for the whole of `pattern`; with `slashes`, `*` and `?` stop at them (WM_PATHNAME)."""
    tokens = _tokens(pattern, slashes)
    if tokens is None:
        return _NEVER
    return _assemble(tokens, rb"[^/]" if slashes else rb".")


def _tokens(pattern: bytes, slashes: bool) -> list[bytes | _Star] | None:
    """Single-byte expressions and stars; None for a pattern that git never matches."""
    tokens: list[bytes | _Star] = []
    at, end = 0, len(pattern)
    while at < end:
        char = pattern[at : at + 1]
        if char == b"*":
            run = at
            while at < end and pattern[at] == 0x2A:
                at += 1
            star = _star(pattern, run, at, slashes)
            tokens.append(star)
            at += star.folder
        elif char == b"\\":
            if at + 1 >= end:
                return None
            tokens.append(re.escape(pattern[at + 1 : at + 2]))
            at += 2
        elif char == b"[":
            bracket = _bracket(pattern, at, slashes)
            if bracket is None:
                return None
            tokens.append(bracket[0])
            at = bracket[1]
        else:
            tokens.append((rb"[^/]" if slashes else rb".") if char == b"?" else re.escape(char))
            at += 1
    return tokens


def _star(pattern: bytes, run: int, at: int, slashes: bool) -> _Star:
    if not slashes:
        return _Star(True, False)
    if at - run < 2:
        return _Star(False, False)
    starts = run == 0 or pattern[run - 1] == 0x2F
    rest = pattern[at : at + 2]
    if starts and rest[:1] == b"/":
        return _Star(True, True)
    return _Star(starts and (not rest or rest == b"\\/"), False)


def _assemble(tokens: list[bytes | _Star], one: bytes) -> bytes:
    """Join tokens so that no star is tried twice.

    From one slash-crossing star to the next, the match that ends first is as good as any later one, since
    the next star makes up for it; the same holds for plain stars within. Only the last must reach the end.
    """
    groups: list[list[bytes | _Star]] = [[]]
    for token in tokens:
        if isinstance(token, _Star) and token.crosses:
            groups.append([])
        groups[-1].append(token)
    joined = [b"(?>" + _group(group, one, last=False) + b")" for group in groups[:-1] if group]
    return b"".join(joined) + _group(groups[-1], one, last=True)


def _group(tokens: list[bytes | _Star], one: bytes, *, last: bool) -> bytes:
    parts: list[bytes] = [b""]
    for number, token in enumerate(tokens):
        if isinstance(token, bytes):
            parts[-1] += token
        elif number == 0:
            parts[-1] += _lazy(token, one)
        else:
            parts.append(_lazy(token, one))
    inner = parts[1:-1] if last else parts[1:]
    end = parts[-1] if last and len(parts) > 1 else b""
    return parts[0] + b"".join(b"(?>" + part + b")" for part in inner) + end


def _lazy(star: _Star, one: bytes) -> bytes:
    if star.folder:
        return rb"(?:.*?/)??"
    return rb".*?" if star.crosses else one + rb"*?"


def _bracket(pattern: bytes, start: int, slashes: bool) -> tuple[bytes, int] | None:
    """The expression of `[…]` at `start` and the offset behind it; None where it never matches."""
    at = start + 1
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    members: list[bytes] = []
    opened, before = at, -1  # `before` is the byte that a `-` may make a range from
    while at == opened or pattern[at : at + 1] != b"]":
        if pattern[at : at + 2] == b"[:":
            named = _named_class(pattern, at)
            if named is None:
                return None
            members.append(named[0] or _byte(0x5B))
            before, at = -1 if named[0] else 0x5B, named[1]
            continue
        ranged = pattern[at : at + 1] == b"-" and before >= 0 and pattern[at + 1 : at + 2] != b"]"
        member = _member(pattern, at + 1 if ranged else at)
        if member is None:
            return None
        char, at = member
        if not ranged:
            members.append(_byte(char))
        elif before <= char:
            members.append(_byte(before) + b"-" + _byte(char))
        before = -1 if ranged else char
    return _set(members, negated, slashes), at + 1


def _member(pattern: bytes, at: int) -> tuple[int, int] | None:
    """The byte at `at`, a backslash before it skipped, and the offset behind; None at the pattern's end."""
    at += pattern[at : at + 1] == b"\\"
    return (pattern[at], at + 1) if at < len(pattern) else None


def _named_class(pattern: bytes, at: int) -> tuple[bytes, int] | None:
    """`[:name:]` at `at`: its members and the offset behind; no members when it is a plain `[`."""
    close = pattern.find(b"]", at + 2)
    if close < 0:
        return None
    if close - at < 3 or pattern[close - 1] != 0x3A:
        return b"", at + 1
    members = _CLASSES.get(pattern[at + 2 : close - 1])
    return None if members is None else (members, close + 1)


def _byte(value: int) -> bytes:
    return b"\\x%02x" % value


def _set(members: list[bytes], negated: bool, slashes: bool) -> bytes:
    inner = b"".join(members)
    if negated:
        return b"[^" + inner + (b"/" if slashes else b"") + b"]"
    if not inner:
        return _NEVER
    return (rb"(?!/)" if slashes else b"") + b"[" + inner + b"]"
