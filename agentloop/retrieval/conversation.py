"""Records of a conversation: a turn is judged with the turns around it, and cited as a run of turns.

An answer often stands beside the words that a question shares with the conversation: in the reply, or in
the remark before. So each turn's score takes part of its neighbours' in the same session, and turns that
follow each other become one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentloop.chunks import Chunks
from agentloop.types import Candidate, Corpus, FileKind, Item, Span

NEIGHBOURS = ((1, 0.6), (2, 0.3))
"""What a turn takes of the score of the turns one and two places away."""
FAR = 0.2
"""What a turn takes of the scores of all the others of a short session: what came of a matter is often
told at its end, in words of its own."""
SHORT = 8
"""Turns of a short session; in longer ones a turn takes less, by the square, and nothing past twice that."""
SPEAKER = 0.1
"""A turn by a speaker whom the question names, against the best score."""
ROLE = 0.2
"""In a chat with an assistant, a turn by the side that knows: questions about a person's own life are
answered by that person, those that address the assistant by the assistant."""
RUN_TURNS = 24
"""So many of the best turns are joined into runs where they touch; the others stand alone."""
LONGEST_RUN = 8
_PERSON = frozenset({"user", "human"})
_ASSISTANT = frozenset({"assistant", "chatgpt", "claude"})
_ADDRESSED = _ASSISTANT | {"you", "your", "asystent", "ty"}


class Conversation:
    """Which chunks are turns, and which are next to each other."""

    def __init__(self, corpus: Corpus, chunks: Chunks) -> None:
        self._corpus = corpus
        self._chunks = chunks
        self._records = frozenset(file.index for file in corpus.files if file.kind is FileKind.RECORDS)

    def turn(self, number: int) -> Item | None:
        """The item of a chunk that is a turn of a session; None for anything else."""
        if not self._records or not 0 <= number < len(self._chunks):
            return None
        if self._chunks.files[number] not in self._records:
            return None
        chunk = self._chunks[number]
        file = self._corpus.files[chunk.file]
        if file.derived is None or chunk.first_item < 0:
            return None
        item = file.derived.items[chunk.first_item]
        return item if item.scope else None

    def beside(self, number: int, step: int) -> int | None:
        """The turn `step` places away, if it belongs to the same session."""
        one, other = self.turn(number), self.turn(number + step)
        if one is None or other is None or one.scope != other.scope:
            return None
        return number + step if self._chunks[number].file == self._chunks[number + step].file else None

    def smoothed(self, scores: Mapping[int, float], asked: frozenset[str]) -> dict[int, float]:
        """Scores with the neighbours' share, turns that no search found included; other chunks keep theirs.

        Args:
            asked: the question's words in lower case, for the names of speakers.
        """
        turns = {n: score for n, score in scores.items() if self.turn(n) is not None}
        if not turns:
            return dict(scores)
        near = set(turns)
        far: dict[int, float] = {}
        for number in sorted(turns):
            near.update(n for n in (self.beside(number, s) for s in (-2, -1, 1, 2)) if n is not None)
            if number not in far:
                session = self._session(number)
                far.update(dict.fromkeys(session, FAR * min(1.0, (SHORT / max(1, len(session))) ** 2)))
                near.update(session)
        knowing = _ASSISTANT if asked & _ADDRESSED else _PERSON
        highest = max(turns.values())
        summed: dict[int, float] = {}
        for number in sorted(near):
            total = turns.get(number, 0.0)
            for step, share in NEIGHBOURS:
                for other in (self.beside(number, -step), self.beside(number, step)):
                    total += share * turns.get(other, 0.0) if other is not None else 0.0
            if number in far:
                others = (n for n in self._session(number) if abs(n - number) > len(NEIGHBOURS))
                total += far[number] * sum(turns.get(n, 0.0) for n in others)
            turn = self.turn(number)
            speaker = set(turn.speaker.lower().split()) if turn is not None else set()
            total += highest * (SPEAKER * bool(speaker & asked) + ROLE * bool(speaker & knowing))
            summed[number] = total
        scale = highest / max(summed.values())  # turns stay comparable with chunks of other files
        return {**scores, **{number: total * scale for number, total in summed.items()}}

    def _session(self, number: int) -> range:
        """The chunks of a turn's session; empty for one of more than twice `SHORT` turns."""
        first = last = number
        for step in (-1, 1):
            end: int | None = number
            while last - first < 2 * SHORT and end is not None:
                first, last = min(first, end), max(last, end)
                end = self.beside(end, step)
        return range(first, last + 1) if last - first < 2 * SHORT else range(0)

    def runs(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Candidates with the best turns joined: the best of a run stands for it, its span is the focus."""
        order = [c.chunk for c in candidates if self.turn(c.chunk) is not None][:RUN_TURNS]
        free = set(order)
        home: dict[int, tuple[int, int]] = {}
        for number in order:
            if number not in free:
                continue
            first = last = number
            free.discard(number)
            for step in (-1, 1):
                end = number
                while last - first + 1 < LONGEST_RUN:
                    other = self.beside(end, step)
                    if other is None or other not in free or self._of_one_member(end, other):
                        break
                    free.discard(other)
                    end = other
                    first, last = min(first, end), max(last, end)
            home[number] = (first, last)
        joined = set(order) - set(home)
        found: list[Candidate] = []
        for candidate in candidates:
            if candidate.chunk in joined:
                continue
            first, last = home.get(candidate.chunk, (0, 0))
            if first < last:
                rest = tuple(n for n in order if first <= n <= last and n != candidate.chunk)
                candidate = replace(candidate, focus=(self._span(first, last),), joined=rest)  # noqa: PLW2901
            found.append(candidate)
        return found

    def _of_one_member(self, one: int, other: int) -> bool:
        """Whether two records share their bytes, those of a member's header: no span holds these alone."""
        a, b = self._chunks[one], self._chunks[other]
        return a.byte_start == b.byte_start and a.first_item != b.first_item

    def _span(self, first: int, last: int) -> Span:
        head, tail = self._chunks[first], self._chunks[last]
        return Span(head.byte_start, tail.byte_end, head.line_start, tail.line_end)
