"""Values that an assertion shows and its test does not hold: something in the program wrote them down."""

from __future__ import annotations

import re

MOST = 8  # values of one failure
_SHOWN = re.compile(
    r"^\s*(?:E\s+(?:AssertionError: )?(?:assert )?|AssertionError: |[Aa]ctual:?|[Gg]ot:?|Received:?|left:"
    r"|\s*-\s|\s*\+\s)(.{1,400})",
    re.MULTILINE,
)
_VALUE = re.compile(r"""(?<![\w.'"-])(\d{2,9})(?![\w.'"])|'([^'\\\n]{3,60})'|"([^"\\\n]{3,60})\"""")

Shown = tuple[re.Pattern[str], ...]


def shown_values(text: str, test: str) -> Shown:
    """Patterns of the numbers (two digits or more) and strings of a failure's assertion lines.

    Args:
        text: the failure's part of the log.
        test: the source of the failing tests; what stands there was expected, not made.
    """
    found: dict[str, re.Pattern[str]] = {}
    for line in _SHOWN.findall(text):
        for number, single, double in _VALUE.findall(line):
            value = number or single or double
            if value not in found and value not in test and len(found) < MOST:
                exact = re.escape(value)
                found[value] = re.compile(rf"(?<!\w){exact}(?!\w)" if number else rf"['\"]{exact}['\"]")
    return tuple(found.values())
