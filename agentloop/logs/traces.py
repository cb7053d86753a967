"""Stack traces of many languages in a run of log lines: where one starts, and where it ends.

Python with chained causes, Java and Kotlin with `Caused by`, Go panics with their goroutines, Rust,
JavaScript, .NET, Ruby and PHP. A trace is found by its frames, then grown to the message above them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

# Frames stand at the start of a line, after the prefix that a logger put there.
FRAME = re.compile(
    r"\s+at [\w$<>(\[/.@~-]"  # Java, JavaScript, .NET, Rust's "at ./src/x.rs"
    r"|at [\w.$<>/]{1,200}\("  # the same behind a level tag
    r'|\s*File "[^"]{1,300}", line \d+'  # Python
    r"|\s*\.\.\. \d+ (?:more|common frames omitted)"
    r"|\s+from \S{1,300}:\d+:in "  # Ruby
    r"|\s*#\d{1,4} +(?:/|\w+ ?\(|\{main\}|0x)"  # PHP, gdb
    r"|\s*\d{1,4}: +(?:0x[0-9a-f]+ - )?[\w<][\w:<>&{}$# ]{2,200}$"  # Rust
    r"|\s*/?[\w@./~-]{1,300}\.go:\d+ \+0x"  # Go
    r"|\s*--- End of (?:inner exception )?stack trace"
)
JOINT = re.compile(
    r"\s*(?:Caused by: |Suppressed: |Wrapped by: |During handling of the above exception"
    r"|The above exception was the direct cause|Traceback \(most recent call last\)"
    r"|goroutine \d+ \[|created by |stack backtrace:|note: |\[Previous line repeated "
    r"| ---> |panic: |\[signal |exit status \d)"
)
HEAD = re.compile(
    r"(?:Exception in thread |Traceback \(most recent|panic: |fatal error: "
    r"|thread '[^']{0,80}'(?: \(\d+\))? panicked"
    r"|Unhandled exception|Uncaught |(?:[\w$.]{1,200}\.)?[A-Z]\w{0,80}(?:Error|Exception|Failure|Throwable)\b"
    r"|(?:\w+\.){2,12}[A-Z]\w*: )"
)
REPORT = re.compile(r"^(?:={5,}|_{3,} .{1,200} _{3,}$|(?:FAIL|ERROR): )")  # a test report's next entry
_GO_CALL = re.compile(r"[\w./*()\[\]{}-]{1,200}\(.{0,300}\)$")
_MESSAGE_LINES = 12  # lines that an exception's message may take above its first frame
_GAP_LINES = 4  # lines between two groups of frames of one trace: a cause's message


def grow(lines: Sequence[str], seed: int) -> tuple[int, int]:
    """First and last index of the trace that holds the frame or joint at `seed`.

    `lines` are clean (no ANSI, no logger prefix) but keep their indentation. Linear in the trace.
    """
    first = seed
    while first > 0 and (FRAME.match(lines[first - 1]) or JOINT.match(lines[first - 1])):
        first -= 1
    first = _message_start(lines, first)
    last = seed
    at = seed + 1
    gap = 0
    python = "Traceback (most recent" in lines[seed] or 'File "' in lines[seed]
    while at < len(lines):
        line = lines[at]
        if FRAME.match(line) or JOINT.match(line):
            last, gap = at, 0
            python = python or "Traceback (most" in line
        elif python and line[:2] in ("  ", "\t\t") and line.strip():
            last, gap = at, 0  # the source line below a frame, its carets
        elif python and gap == 0 and line.strip() and HEAD.match(line):
            last, gap = at, 1  # the exception itself ends the trace, unless a cause follows
        elif _GO_CALL.match(line) and at + 1 < len(lines) and FRAME.match(lines[at + 1]):
            last, gap = at, 0
        else:
            gap += 1
            if gap > _GAP_LINES:
                break
            if REPORT.match(line) or (line.strip() and not _leads_to_joint(lines, at)):
                break
        at += 1
    return _outdent(lines, first), _indented(lines, last)


def _outdent(lines: Sequence[str], first: int) -> int:
    """The entry that an indented exception belongs to, such as a runner's line that names the test."""
    for back in range(_GAP_LINES):
        if first - back < 0 or not lines[first - back].strip():
            break
        if lines[first - back][0] not in " \t":
            return first - back
    return first


def _indented(lines: Sequence[str], last: int) -> int:
    """The last of the few indented lines that follow a trace: a test runner's remarks."""
    for _ in range(_GAP_LINES - 1):
        if last + 1 >= len(lines) or not lines[last + 1][:1].isspace() or not lines[last + 1].strip():
            break
        last += 1
    return last


def _leads_to_joint(lines: Sequence[str], at: int) -> bool:
    """Whether a cause or more frames follow within the lines a message may take."""
    after = list(
        itertools.takewhile(lambda line: not REPORT.match(line), lines[at + 1 : at + 1 + _GAP_LINES])
    )
    return any(FRAME.match(line) or JOINT.match(line) for line in after)


def _message_start(lines: Sequence[str], first: int) -> int:
    """The line that names the exception above frame `first`; `first` itself where there is none."""
    for back in range(_MESSAGE_LINES + 1):
        at = first - back
        if at < 0:
            break
        line = lines[at]
        if HEAD.search(line):
            return at
        if back and FRAME.match(line):
            break
    above = first - 1
    return above if above >= 0 and lines[above].strip() else first
