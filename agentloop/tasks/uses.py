"""The names that a piece of code uses, and how: bare, as a member of something, or through an operator.

Words of comments and strings are no uses. The patterns serve every language of the index; operators that
call methods are known for Python, whose operators are methods of their own names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class How(Enum):
    """How a name is used."""

    BARE = "bare"
    MEMBER = "member"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Use:
    """One use. `receiver` is the word before the dot, if it is one; of an operator, the words of its line.

    `line` is 1-based in the file.
    """

    name: str
    how: How
    receiver: str
    called: bool
    line: int


_USE = re.compile(
    r"(?:(?P<receiver>[A-Za-z_]\w*(?:\(\))?)?(?P<dot>\.|->|::|\?\.))?"
    r"(?P<name>[A-Za-z_]\w{1,80})(?P<call>\s?\()?"
)
_WORD = re.compile(r"(?<![.\w])[A-Za-z_]\w*")
_QUOTED = r'[rbRB]{0,2}(?:"""[\s\S]*?(?:"""|\Z)|\'\'\'[\s\S]*?(?:\'\'\'|\Z)|"(?:\\.|[^"\\\n])*")'
_SINGLE = r"|(?<!\w)[rbRB]{0,2}'(?:\\.|[^'\\\n])*'"
_HASHED = re.compile(rf"{_QUOTED}{_SINGLE}|#[^\n]*")
_SLASHED = re.compile(rf'"(?:\\.|[^"\\\n])*"{_SINGLE}|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)')
_LIFETIMES = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)')
_HASH_LANGUAGES = frozenset({"python", "ruby", "shell", "bash", "perl", "r", "elixir"})
_ITERATED = r"\b(?:list|tuple|set|frozenset|sorted|sum|dict|enumerate|zip|map|filter|iter|any|all|max|min)\("
_OPERATORS = tuple(
    (re.compile(pattern), names.split())
    for pattern, names in (
        (r"\blen\(", "__len__"),
        (r"\bwith\b", "__enter__ __exit__"),
        (rf"\bfor\b.*\bin\b|{_ITERATED}", "__iter__ __next__"),
        (r"\bnext\(", "__next__"),
        (r"(?<!for )(?:[\w)\]\"]) (?:not )?in\b", "__contains__"),
        (r"[\w\])]\[(?![^\]]*\] ?=[^=])", "__getitem__"),
        (r"\] ?(?:[-+*/|&]|//)?=(?!=)", "__setitem__"),
        (r"\bdel\b.*\[", "__delitem__"),
        (r"[=!]=|\bassert\w*Equals?\(", "__eq__ __ne__"),
        (r"[^-=<]>=?|<=?[^<]|\b(?:sorted|max|min)\(", "__lt__ __le__ __gt__ __ge__"),
        (r"[\w\])] ?\+=? ?", "__add__ __radd__ __iadd__"),
        (r"[\w\])] ?-=? ?", "__sub__ __rsub__ __isub__"),
        (r"[\w\])] ?\*=? ?", "__mul__ __rmul__ __imul__"),
        (r"[\w\])] ?\|=? ?", "__or__ __ror__ __ior__"),
        (r"[\w\])] ?&=? ?", "__and__ __rand__ __iand__"),
        (r"[\w\])] ?\^=? ?", "__xor__ __rxor__ __ixor__"),
        (r"\bhash\(", "__hash__"),
        (r"\brepr\(|!r\b|%r", "__repr__"),
        (r"\bstr\(|\bformat\(|\bprint\(", "__str__ __format__"),
        (r"\bbool\(|\bnot\b|\bassertTrue\(|\bassertFalse\(", "__bool__"),
        (r"\breversed\(", "__reversed__"),
        (r"\bpickle\b|\bcopy\b", "__reduce__ __reduce_ex__ __getstate__ __setstate__ __copy__ __deepcopy__"),
        (r"\bsignature\(", "__signature__"),
        # what the standard library's mixins make of these (collections.abc)
        (r"\.(?:update|setdefault)\(", "__setitem__"),
        (r"\.(?:pop|popitem|clear)\(", "__delitem__ __getitem__"),
        (r"\.(?:get|items|values)\(", "__getitem__"),
        (r"\)\(|\]\(", "__call__"),
    )
)
OPERATORS = frozenset(name for _, names in _OPERATORS for name in names)


_DISPATCH = re.compile(r"\bgetattr\s*\(|\bmethodcaller\s*\(|\[[^\]\n]*\+|\.(?:send|call|public_send)\b")
_PREFIX = re.compile(r"""[fF]?["'`](?P<open>[A-Za-z_]\w{1,40}_)(?:\{|%s|\$\{|["'`]\s*(?:\+|%|\.format))""")


def dispatched(text: str) -> list[str]:
    """Prefixes of members that code looks up by a name it puts together: `getattr(self, f"visit_{x}")`."""
    return list(dict.fromkeys(m["open"] for m in _PREFIX.finditer(text))) if _DISPATCH.search(text) else []


def plain(text: str, language: str) -> str:
    """The text without comments and the contents of strings; its lines stay where they are."""
    pattern = _LIFETIMES if language == "rust" else _SLASHED
    if language in _HASH_LANGUAGES:
        pattern = _HASHED
    return pattern.sub(lambda match: '""' + "\n" * match[0].count("\n"), text)


def uses(text: str, first_line: int, language: str) -> Iterator[Use]:
    """The uses of a piece of code in its order; `text` is `plain`."""
    for number, line in enumerate(text.split("\n"), first_line):
        for match in _USE.finditer(line[:2_000]):
            receiver = match["receiver"] or ""
            called = match["call"] is not None
            how = How.MEMBER if match["dot"] else How.BARE
            yield Use(match["name"], how, receiver.removesuffix("()"), called, number)
            if receiver and receiver != "super()":
                yield Use(receiver.removesuffix("()"), How.BARE, "", receiver.endswith("()"), number)
        if language == "python" and line.strip():
            for pattern, names in _OPERATORS:
                if pattern.search(line):
                    operands = " ".join(dict.fromkeys(_WORD.findall(line)))
                    yield from (Use(name, How.OPERATOR, operands, True, number) for name in names)


_TYPED = re.compile(
    r"\b(?P<name>[A-Za-z_]\w*)\s?(?:=\s?(?:await )?(?:new )?|:\s?)(?:\w+\.)*"
    r"(?P<type>[A-Za-z_]\w*)(?=[\s(,)\[]|$)",
    re.MULTILINE,
)


def typed(text: str) -> dict[str, str]:
    """Names that a piece of code makes or annotates, each with the word of its type: `p = Pair()`."""
    return {match["name"]: match["type"] for match in _TYPED.finditer(text)}
