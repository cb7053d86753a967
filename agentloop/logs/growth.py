"""How far a failure reaches: the lines after its first that belong to it, and the header above it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentloop.logs import traces
from agentloop.logs.lines import Line
from agentloop.logs.severity import Level, Weight
from agentloop.logs.templates import quick_key
from agentloop.logs.verdicts import BARE, CARET, COMMAND, EPILOGUE, HEADER, LOOK, RULER, sums_up

_JOIN_BLANKS = 2  # blank lines or rulers that a block spans
_LOOSE = 40  # indented or unprefixed lines in a row that continue an entry
RARE = 2  # times that a line may stand in the log to continue an entry without a prefix or indentation
_HEADER_LOOK = 40  # lines above the first error in which a test's header stands


def starts(line: Line, weight: Weight) -> bool:
    """Whether a line makes a block or goes on with one; a warning must word a failure."""
    return weight >= (Weight.FAILURE if line.level is Level.WARNING else Weight.TROUBLE)


@dataclass(frozen=True, slots=True)
class Growth:
    """What a block's reach depends on.

    `in_trace` maps a line of a stack trace or a test's report to its last line. `counts` of the lines' keys
    are given where most lines have a prefix: there a rare line without one continues the entry before it.
    """

    lines: Sequence[Line]
    weights: Sequence[Weight]
    in_trace: Mapping[int, int]
    counts: Counter[str]

    def last_of(self, at: int) -> int:
        """The last line of the block that starts at `at`."""
        last = self.in_trace.get(at, at)
        loose = blanks = 0
        ahead = last + 1
        while ahead < len(self.lines):
            text = self.lines[ahead].text
            if self._ends(ahead, at, last, blanks):
                break
            if ahead in self.in_trace or self._goes_on_with(ahead, last):
                last, loose, blanks = self.in_trace.get(ahead, ahead), 0, 0
            elif not text.strip() or RULER.match(text):
                blanks += 1
            elif self._is_loose(ahead):
                loose += 1
                if blanks and not self._spans_blank(at, last):
                    break
                last, blanks = ahead, 0
            else:
                break
            if blanks > _JOIN_BLANKS or loose > _LOOSE:
                break
            ahead = max(ahead, last) + 1
        return last

    def header_of(self, at: int, floor: int) -> int:
        """The header above an error (a test's name), over the code that stands between; `at` without one."""
        for back in range(1, _HEADER_LOOK + 1):
            above = at - back
            if above < floor:
                break
            text = self.lines[above].text
            if HEADER.match(text):
                return above
            if text.strip() and text[0] not in " \t>E":
                break
        return at

    def _ends(self, ahead: int, at: int, last: int, blanks: int) -> bool:
        """Whether something else begins: the runner's epilogue, a command, a test's report, the summary."""
        text = self.lines[ahead].text
        if EPILOGUE.match(text) or COMMAND.match(text):
            return True
        if traces.REPORT.match(text[:LOOK]) and not sums_up(text) and (last > at or text.startswith("___")):
            return True
        return bool(blanks) and last > at and ahead not in self.in_trace and sums_up(text)

    def _goes_on_with(self, ahead: int, last: int) -> bool:
        """Whether a line is of the failure by what it says, or by what stands beside it."""
        line = self.lines[ahead]
        if starts(line, self.weights[ahead]) and not (line.level is Level.INFO and BARE.match(line.text)):
            return True
        if not line.text.strip() or RULER.match(line.text):
            return False
        if ahead + 1 < len(self.lines) and CARET.match(self.lines[ahead + 1].text):
            return True  # the source line that a compiler points into
        announced = last == ahead - 1 and self.lines[last].text.rstrip().endswith(":")
        return announced and line.level not in (Level.INFO, Level.DEBUG)

    def _is_loose(self, ahead: int) -> bool:
        """Whether a line continues an entry by its form: indented, or rare and without a prefix."""
        line = self.lines[ahead]
        if line.level in (Level.INFO, Level.DEBUG):
            return False
        if line.text[0] in " \t|":
            return True
        return bool(self.counts) and not line.prefixed and self.counts[quick_key(line.text)] <= RARE

    def _spans_blank(self, at: int, last: int) -> bool:
        """Whether a block reaches over a blank line: it is indented (jest, pytest), or announces more."""
        text = self.lines[last].text
        if text.rstrip().endswith(":"):
            return True
        return last > at and text[:1] in (" ", "\t") and not traces.FRAME.match(text)
