"""Line templates: a message with what varies masked, as log parsers group lines."""

from __future__ import annotations

import re

MASK = "<*>"
LOOK = 300  # characters of a message that make its template
_VARYING = re.compile(
    r"\"[^\"]{0,200}\"|'[^']{0,200}'|`[^`]{0,200}`"
    r"|\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F-]{17}\b|\b0x[0-9a-fA-F]+"
    r"|\b(?=[a-f]{0,63}\d)[0-9a-f]{7,64}\b"
    r"|(?:[A-Za-z]:)?(?:[/\\][\w.@+~-]{1,100}){2,40}|\b[\w.-]{1,100}/[\w./@+-]{1,200}"
    r"|\d+(?:[.,:_-]\d+)*"
)
_WORD = re.compile(r"[A-Za-z_][\w.$-]{3,80}")
_KEY = {ord(digit): None for digit in "0123456789"}


def template(text: str) -> str:
    """`text` with quoted strings, ids, hex, paths and numbers masked; at most 300 characters of it."""
    return _VARYING.sub(MASK, text[:LOOK].strip())


def quick_key(text: str) -> str:
    """A cheap key that most lines of one template share: the text without its digits."""
    return text[:200].translate(_KEY)


def words(text: str) -> frozenset[str]:
    """The words of a message that can tie two lines together: identifiers of four and more characters."""
    return frozenset(_WORD.findall(text[:LOOK]))
