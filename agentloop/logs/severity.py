"""How severe a log line is: its level where a logger wrote one, and the words of failing tools.

The vocabulary is that of the tools themselves: javac, Maven, Gradle, pytest, unittest, cargo, rustc,
go, npm, yarn, tsc, jest, mocha, vitest, gcc, clang, CMake, make, ninja, Bazel, git, tar, curl, Docker,
and the runners around them.
"""

from __future__ import annotations

import re
from enum import IntEnum

LOOK = 600  # characters of a message that any pattern sees


class Level(IntEnum):
    """Severity as a logger names it; `NONE` where the line names none."""

    NONE = 0
    DEBUG = 1
    INFO = 2
    WARNING = 3
    ERROR = 4
    FATAL = 5


_LEVELS = {
    "trace": Level.DEBUG,
    "debug": Level.DEBUG,
    "fine": Level.DEBUG,
    "info": Level.INFO,
    "notice": Level.INFO,
    "warn": Level.WARNING,
    "warning": Level.WARNING,
    "error": Level.ERROR,
    "err": Level.ERROR,
    "severe": Level.ERROR,
    "critical": Level.FATAL,
    "crit": Level.FATAL,
    "fatal": Level.FATAL,
    "alert": Level.FATAL,
    "emerg": Level.FATAL,
}
_ANYWHERE = re.compile(
    r"(?:^|[\s\[(|{,\"'])(?:level|severity|lvl|levelname)[\"']?[=:]\s?[\"']?(\w{3,8})"
    r"|(?:^|[\]\s|])[\[(<]?(TRACE|DEBUG|INFO|WARN|WARNING|ERROR|SEVERE|CRITICAL|FATAL)[\])>:]?(?=[\s:|\]])"
)
_KLOG = {"I": Level.INFO, "W": Level.WARNING, "E": Level.ERROR, "F": Level.FATAL, "D": Level.DEBUG}


def level_named(word: str) -> Level:
    """The level of a logger's word, `NONE` for another word."""
    return _LEVELS.get(word.lower(), Level.NONE)


def level_of_klog(letter: str) -> Level:
    """The level of klog's first letter."""
    return _KLOG.get(letter, Level.NONE)


def level_inside(head: str) -> Level:
    """A level that stands after a thread or logger name, or as a key of structured logging."""
    match = _ANYWHERE.search(head)
    return level_named(match.group(1) or match.group(2)) if match else Level.NONE


class Weight(IntEnum):
    """How much a line's own words speak of a failure."""

    ORDINARY = 0
    MENTION = 1  # a word of trouble, as progress and file names hold them too
    TROUBLE = 2  # something did not work
    FAILURE = 3  # a tool's own form of an error
    CRASH = 4  # the program itself ended


_CRASH = re.compile(
    r"^\s*(?:panic: |fatal error: |thread '.{0,80}'(?: \(\d+\))? panicked|Traceback \(most recent call last\)"
    r"|Exception in thread |Unhandled exception|Uncaught |FATAL:? )"
    r"|Segmentation fault|core dumped|\bOOM\b|OutOfMemoryError|[Oo]ut of memory|No space left on device"
    r"|AddressSanitizer|SIGSEGV|SIGABRT|internal compiler error|Killed\s*$"
)
_FAILURE = re.compile(
    r"^\s*(?:error\b(?!s? ?[=:] ?0)|ERROR\b|Error:|fatal:|FAIL(?:ED|URE)?\b|E {2,}\S|npm (?:ERR!|error) "
    r"|yarn error "
    r"|make(?:\[\d+\])?: \*\*\*|ninja: build stopped|--- FAIL|not ok \d|[✗✘✖×●] |❌|CMake Error|ld: "
    r"|Undefined symbols"
    r"|\* What went wrong:|Execution failed for task|error\[E\d+\]|Build failed|BUILD FAILED|Failed to "
    r"|failed to "
    r"|Could not |Cannot |Unable to |unable to |Compilation failed|FAILURE: )"
    r"|:\d+(?::\d+)?:? (?:fatal )?error\b|\): error [A-Z]{2,}\d+|\]: error |: error (?:TS|CS|C|LNK|MSB)\d+"
    r"|\berror: |\bfatal: |: fatal |\bERROR[: ]| ERROR |\bFAILED\b|<<< (?:FAILURE|ERROR)!|BUILD FAILURE"
    r"|\b[A-Z]\w{2,80}(?:Error|Exception)\b(?=[:\s]|$)|\bAssertionError\b|undefined reference to"
    r"|cannot find symbol"
    r"|^[\w./-]+\.go:\d+:\d+: \S"
    r"|command not found|\bdoes not exist\b|returned (?:a )?(?:status|non-zero|error)|\bgave up\b"
    r"|exit(?:ed)?(?: with)?(?: code| status)?:? [1-9]\d{0,2}\b|Process completed with exit code [1-9]"
    r"|did not complete successfully|[Ee]xpected .{1,120} but (?:was|got)|has stopped|res=failed"
)
_TROUBLE = re.compile(
    r"(?i:(?<![\w./-])(?:failed|fails?|failure|failures|failing|errors?|fatal|exception|aborted|aborting"
    r"|denied|refused|rejected"
    r"|cannot|can't|could not|couldn't|unable|not found|no such|undefined|unresolved|invalid|unexpected"
    r"|timed out"
    r"|timeout|crash(?:ed)?|unsuccessful|unsuccessfully|mismatch|missing|unsupported|unsafe"
    r"|corrupt(?:ed)?|lost|panic"
    r"|something went wrong|does not look like|doesn't look like|exhausted|overflow|violation|conflict"
    r"|unreachable"
    r"|expired|forbidden|unauthorized|no heartbeat|killed|not supported|wrong)(?![\w/-]|\.\w))"
)
_MENTION = re.compile(r"(?i:warn(?:ing)?|deprecated|skipp(?:ed|ing)|retry(?:ing)?|error|exception|fail)")
_HARMLESS = re.compile(
    r"(?i:\b(?:0|no|zero|without) (?:\w+ )?(?:errors?|failures?|failed|problems?)\b"
    r"|(?:failures?|errors?|failed)[\"']?\s?[:=] ?0\b(?!.*(?:failures?|errors?|failed)[\"']?\s?[:=] ?[1-9])"
    r"|error-?prone|\bon-?(?:error|failure)\b|-werror|fail-?(?:fast|safe|over)|ignor(?:e|ed"
    r"|ing) (?:\w+ )?(?:error|failure)"
    r"|continue-on-error|error[-_ ]?(?:handl|pages?|codes?\b|report|log)|\b(?:retry|retrying) on)"
)
_PASSED = re.compile(
    r"^\s*(?:PASS(?:ED)?\b|ok\b(?! *\d+ .*# TODO)|✓|✔|√|\[ +OK +\]|--- PASS)|\b(?:PASSED|\.\.\. ok|: ok"
    r"|SUCCESS)\s*$"
    r"|^\s*(?:Progress|Downloading|Downloaded|Fetched|Fetching|Get:\d+|Collecting|Unpacking|Compiling"
    r"|Installing)\b"
)
_COMMAND = re.compile(
    r"^\s*(?:\+{1,3} |\$ |> (?:git|\w+@)|\[command\]|##\[(?:command|group)\]|Run |\w+@[\w-]+:\S*[$#] )"
)


_NAMED = {Level.FATAL: Weight.CRASH, Level.ERROR: Weight.FAILURE, Level.WARNING: Weight.MENTION}


def weigh(text: str, level: Level) -> Weight:
    """How much a message speaks of a failure. `text` is without stamp, level and ANSI."""
    text = text[:LOOK]
    named = _NAMED.get(level, Weight.ORDINARY)
    if not _hinted(text):
        return named
    calm = level in (Level.DEBUG, Level.INFO)  # its own logger did not think it a failure
    crash = _CRASH.search(text) is not None
    if not crash and (_COMMAND.match(text) or _PASSED.search(text)):
        return min(named, Weight.MENTION)
    if not crash and _HARMLESS.search(text):
        return min(named, Weight.TROUBLE)
    if crash:
        said = Weight.CRASH
    elif _FAILURE.search(text):
        said = Weight.FAILURE
    else:
        said = Weight.TROUBLE if _TROUBLE.search(text) else Weight.MENTION
    if calm:
        said = Weight.TROUBLE if said >= Weight.FAILURE else Weight.MENTION
    return max(named, said)


# Substrings without which none of the patterns above can match: one pass that spares ordinary lines.
_HINTS = (
    "err", "fail", "except", "fatal", "panic", "abort", "kill", "denied", "refus", "reject", "cannot",
    "can't", "could", "unable", "undef", "unres", "invalid", "unexp", "timed", "timeout", "crash", "wrong",
    "mism", "missing", "unsup", "unsafe", "corrupt", "lost", "exhaus", "overflow", "violat", "conflict",
    "unreach", "expir", "forbid", "unauth", "warn", "depre", "skip", "retr", "trace", "segm", "dumped",
    "memory", "oom", "sigs", "siga", "stopped", "exit", "uncaught", "unhandled", "ld:", "expected",
    "heartbeat", "not ", "no ", "gave up", "look like", "✗", "✘", "✖", "×", "●", "❌", "e  ",
)  # fmt: skip


def _hinted(text: str) -> bool:
    low = text.lower()
    return any([hint in low for hint in _HINTS])  # noqa: C419 - a list is twice as fast as a generator here
