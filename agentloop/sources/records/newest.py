"""The newest records whose text fits the cap; what surely is older is let go while the file is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from agentloop.items import Group, Item, PackedItems, Span4

LONGEST_TEXT = 2_000_000
"""Characters of one record that are kept, here as in verification: one huge record must not fill the cap."""
_PARTS = 8  # of the cap: the size of the runs that are let go


class Newest:
    """Takes items in the order of the file and keeps those at its newer end.

    Which end that is shows in the times of the first and the last item that has one: a file without times,
    or whose times fall, has its newest items first. Until the last item is seen both ends are kept, so
    that memory stays within about two caps, however large the file is.
    """

    def __init__(self, max_chars: int) -> None:
        self.total = 0  # items seen
        self.cut = 0  # items whose text was longer than LONGEST_TEXT
        self._max = max_chars
        self._runs: deque[PackedItems] = deque([PackedItems()])
        self._chars = 0  # of text in the runs
        self._head: PackedItems | None = None  # the first items that fit, once not all do
        self._stamps = ("", "")

    def add(self, text: str, span: Span4, record_id: str, timestamp: str, group: Group) -> None:
        """Take the next item, by its parts."""
        self.total += 1
        if timestamp:
            self._stamps = (self._stamps[0] or timestamp, timestamp)
        if len(text) > LONGEST_TEXT:
            text = text[:LONGEST_TEXT]
            self.cut += 1
        size = len(text)
        if self._head is None and self._chars + size > self._max:
            self._head = PackedItems()
            for run in self._runs:
                self._head.extend(run)
            if not len(self._head):
                self._head.add(text[: self._max], span, record_id, timestamp, group)
        run = self._runs[-1]
        if run.chars * _PARTS > self._max:
            run = PackedItems()
            self._runs.append(run)
        run.add(text, span, record_id, timestamp, group)
        self._chars += size
        if self._head is not None:
            while self._chars - self._runs[0].chars > self._max:
                self._chars -= self._runs.popleft().chars

    def append(self, item: Item) -> None:
        """Take the next item."""
        span = (item.byte_start, item.byte_end, item.line_start, item.line_end)
        group = (item.scope, item.speaker, item.page, item.heading)
        self.add(item.text, span, item.record_id, item.timestamp, group)

    def notes(self, what: str, kept: int) -> Iterator[str]:
        """What was cut off, for the extractor's notes; `what` names the items, of which `kept` are left."""
        if kept < self.total:
            left = self.total - kept
            yield f"{left} of {self.total} {what} are left out: the text is over the cap; the newest are kept"
        if self.cut:
            yield f"{self.cut} {what} are cut at {LONGEST_TEXT} characters"

    def kept(self) -> PackedItems:
        """The items that fit, in the order of the file; of an item that alone is too long, its beginning."""
        if self._head is None:
            return _one(self._runs)
        return self._tail() if self._stamps[1] > self._stamps[0] else self._head

    def _tail(self) -> PackedItems:
        items = [item for run in self._runs for item in run]
        room, first = self._max, len(items)
        while first and len(items[first - 1].text) <= room:
            first -= 1
            room -= len(items[first].text)
        if first == len(items):
            return PackedItems([replace(items[-1], text=items[-1].text[: self._max])])
        return PackedItems(items[first:])


def _one(runs: deque[PackedItems]) -> PackedItems:
    """All runs as one; they are used up."""
    whole = runs.popleft()
    while runs:
        whole.extend(runs.popleft())
    return whole
