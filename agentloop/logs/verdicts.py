"""How tools and runners word a failure: verdicts, advice, summaries, epilogues, headers of reports."""

from __future__ import annotations

import re

LOOK = 400  # characters of a message that a pattern sees

# How tools say that the whole run failed: the end of the story, never its cause.
TERMINAL = re.compile(
    r"BUILD FAIL|Build FAILED|Failed to execute goal|marked build as failure|^Finished: (?:FAILURE|ABORTED)"
    r"|Process completed with exit code [1-9]|^The command .{1,300} exited with [1-9]"
    r"|Your build (?:exited|has been stopped)"
    r"|Job failed|npm (?:ERR!|error) (?:code|A complete log)|make(?:\[\d+\])?: \*\*\* |ninja: build stopped"
    r"|^FAILED \((?:failures|errors)=|^=+ .{0,80}\d+ (?:failed|error).{0,120}=+$|^test result: FAILED|^FAIL\t"
    r"|^exit (?:status|code):? [1-9]|[Cc]ould not compile|FAILURE: Build failed|failed to solve|^# fail [1-9]"
    r"|^Tests?:? +\d+ failed|^Test (?:Files|Suites):? +\d+ failed|did NOT complete successfully"
    r"|error Command failed"
    r"|script returned exit code [1-9]|exited with (?:code|status) [1-9]|^error: test failed|ELIFECYCLE"
    r"|^Bailing out|^Failed! +- Failed: +[1-9]|^Test Run Failed\."
    r"|[Aa]borting due to|There were failing tests|There are test failures|^\d+ failing$|^FAILURES!$"
)
# Advice and boilerplate that follow a failure.
ADVICE = re.compile(
    r"^-> \[Help \d|^\[Help \d\]|To see the full stack trace|Re-run Maven|For more information about"
    r"|After correcting"
    r"|^\s*mvn <|^> ?Run with --|Run with --(?:stacktrace|info|debug|scan)|Get more help at"
    r"|A complete log of this run"
    r"|^\* (?:Try|Get more help)|See (?:the report|https?:)|note: run with|[Pp]lease (?:refer|see|read)"
    r"|^Sending e-?mails?"
    r"|^Some errors have detailed|^For more information about|GitHub Issue Notifier|Archiving artifacts"
    r"|/archive does not exist|Publish .{1,80} failed|^Recording test results"
)
# What a runner does after a failure: never part of it.
EPILOGUE = re.compile(
    r"^\s*(?:\[WS-CLEANUP\]|Archiving artifacts|Sending e-?mails|Recording test results|Post job cleanup"
    r"|Cleaning up"
    r"|Uploading artifacts|Running after.script|Saving cache|Finished: |Skipped archiving|Notifying"
    r"|\[Pipeline\]"
    r"|Started calculate|Email was triggered|An attempt to send|Terminate orphan process|travis_|section_)"
)
# Lines that say that the run failed and nothing about why.
BARE = re.compile(
    r"^\s*(?:={5,} (?:FAILURES|ERRORS) ={5,}|\d+ errors?|BUILD FAIL(?:URE|ED)\b.{0,40}|Finished: \w+"
    r"|Process completed with exit code \d+\.?|FAILURE: Build failed with.{0,30}"
    r"|Build step .{1,200} marked build as failure|exit (?:code|status):? \d+|\* What went wrong:"
    r"|Build FAILED\.?"
    r"|script returned exit code \d+|error Command failed with exit code \d+\.?"
    r"|(?:g?make|mingw32-make)(?:\[\d+\])?: \*\*\* \[.{1,200}\] Error \d+(?: \(ignored\))?"
    r"|ninja: build stopped: .{0,60}|(?:error: )?fatalError"
    r"|(?:ERROR: )?(?:failed to solve: )?process \".{1,200}\" did not complete successfully: .{1,20}"
    r"|Failed! +- Failed: +\d.{0,200}|Test Run Failed\."
    r"|Done\. Your build exited with \d+\.?|ERROR: Job failed.{0,40}|Job failed.{0,40}"
    r"|.{0,80}exited with \d+\.?|There (?:were failing tests|are test failures).{0,200})\s*$"
)
COMMAND = re.compile(
    r"^(?:\+{1,3} [\w./-]+(?: [^+]|$)|\$ \S|> (?:git|\S+@\d)|\[command\]|##\[(?:group|command)\]"
    r"|\[Pipeline\])"
)
SUMMARY_LIST = re.compile(
    r"^(?:FAILED|ERROR) \S+::|short test summary|^Results ?:|^(?:Failed tests|Tests in error|Failures"
    r"|Errors) ?:"
    r"|^Tests run: .{0,60}(?:Failures|Errors): [1-9]|^=+ .{0,80}(?:failed|error)"
    r"|\d+ tests? completed, \d+ failed|^failures:$"
    r"|^(?:test )?\S.{0,200} \.\.\. (?:FAILED|FAIL|ERROR|failed)$|^\S+::\S.{0,200} (?:FAILED|ERROR)\b"
    r"|^FAILED \("
    r"|[Cc]ould not compile|^COMPILATION ERROR ?:?\s*$|^Reactor Summary|^> Task \S+ FAILED"
)
TEST = re.compile(
    r"^\s*(?:FAIL(?:ED)?\b|--- FAIL|not ok \d|● |✗|✘|✖|×)|<<< (?:FAILURE|ERROR)!|\bFAILED\s*$|^E {2,}"
    r"|AssertionError"
    r"|AssertionFailed|ComparisonFailure|^_{3,} .{1,200} _{3,}$|^(?:FAIL|ERROR): test"
    r"|^---- .{1,200} std(?:out|err) ----"
    r"|^Failed asserting|[Ee]xpected.{1,120}(?:but|to (?:be|equal))|Tests run: .{0,60}(?:Failures"
    r"|Errors): [1-9]"
)
COMPILE = re.compile(
    r":\d+(?::\d+)?:? (?:fatal )?error\b|:\[\d+,\d+\]|error TS\d+|error\[E\d+\]|cannot find symbol"
    r"|COMPILATION ERROR"
    r"|Compilation (?:failure|failed)|undefined reference|SyntaxError|\(\d+,\d+\): error |syntax error"
    r"|\.\w{1,4}:\d+: error|^[\w./-]+\.go:\d+:\d+: "
    r"|^# [\w./-]+(?: \[[\w./-]+\])?$|[Ee]rror: .{1,120} redeclared|ld returned \d|Undefined reference"
)
HEADER = re.compile(r"^=== RUN |^_{3,} .{1,200} _{3,}$|^---- .{1,200} ----$|^(?:FAIL|ERROR): |^● ")
CARET = re.compile(r"^\s*\|?\s*\^[~^]*\s*$")
RULER = re.compile(r"^\s*[-=_*~#.]{4,}\s*$")


def sums_up(text: str) -> bool:
    """Whether an unindented line sums up the run: a count of failures, a verdict on the whole."""
    told = TERMINAL.search(text[:LOOK]) or SUMMARY_LIST.search(text[:LOOK])
    return text[:1] not in " \t" and told is not None


def says_nothing(text: str) -> bool:
    """Whether a line says that something failed and nothing about what, or is blank."""
    text = text[:LOOK]
    return bool(BARE.match(text) or ADVICE.search(text) or SUMMARY_LIST.search(text)) or not text.strip()


def is_echo(text: str) -> bool:
    """Whether a line repeats that the run failed, or advises. Maven's last word, with a reason, is none."""
    text = text[:LOOK]
    if text.startswith("Failed to execute goal"):
        return False
    told = TERMINAL.search(text) or ADVICE.search(text) or SUMMARY_LIST.search(text)
    return told is not None or not text.strip()
