"""Time in a request: `time_window` over records, and questions for what was first or last."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from agentloop.budget import Ledger
from agentloop.chunks import Chunks
from agentloop.compress.refs import place_text
from agentloop.errors import AgentloopError, ErrorCode, Stage, WarningCode
from agentloop.logs.prefix import split_prefix
from agentloop.logs.timestamps import StampKind, bound, parse_iso
from agentloop.request import TimeWindow
from agentloop.types import (
    Chunk,
    Corpus,
    Draft,
    Exclusion,
    FileKind,
    Place,
    Ranking,
    SkipReason,
    SourceFile,
)

LOOKED_AT = 40  # drafts that may be put in the order of time
LEAST_WORD = 4
_FIRST = re.compile(
    r"\b(?:first|earliest|originally|initially|oldest|pierwsz\w+|najwcześniej\w*)\b",
    re.IGNORECASE,
)
_LAST = re.compile(r"\b(?:last|latest|most recent(?:ly)?|newest|ostatni\w*|najnowsz\w+)\b", re.IGNORECASE)
_ASKS_TIME = re.compile(
    r"\b(?:when|what (?:date|day|time|year|month)|first time|last time|how long ago|kiedy)\b"
    r"|\b(?:first|last|latest|earliest|newest|oldest|most recent)\b.{0,40}\b(?:message|mail|note|entry|record"
    r"|conversation|mention\w*|say|said|talk\w*|wr[io]te\w*|ask\w*)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w{4,}")


@dataclass(frozen=True, slots=True)
class Window:
    """Bounds in seconds since 1970; a date alone as the end counts to its end."""

    start: float
    end: float

    @classmethod
    def of(cls, window: TimeWindow) -> Window:
        """Read the bounds.

        Raises:
            AgentloopError: REQUEST_INVALID; a bound is not ISO 8601.
        """
        bounds = []
        for name, text, open_ in (("start", window.start, float("-inf")), ("end", window.end, float("inf"))):
            try:
                bounds.append(bound(text, end=name == "end") if text else open_)
            except ValueError:
                raise AgentloopError(
                    ErrorCode.REQUEST_INVALID,
                    f"The request is not valid: task_params.time_window.{name} is not a time in ISO 8601.",
                    Stage.REQUEST,
                    {"fields": [{"field": f"task_params.time_window.{name}", "reason": "not ISO 8601"}]},
                ) from None
        return cls(bounds[0], bounds[1])

    def holds(self, stamp: str) -> bool | None:
        """Whether a time lies inside; None for none that can be read."""
        try:
            seconds = parse_iso(stamp).timestamp() if stamp else None
        except ValueError:
            seconds = None
        return None if seconds is None else self.start <= seconds <= self.end


def within_window(corpus: Corpus, window: TimeWindow | None, ledger: Ledger) -> Corpus:
    """The corpus whose records lie in the window, from the first record inside to the last one.

    Files whose records carry no times stay, with a warning; those with none inside count as filtered.

    Raises:
        AgentloopError: REQUEST_INVALID for bounds that are no times; INPUT_DISCOVERY_FAILED, nothing is left.
    """
    if window is None or not (window.start or window.end):
        return corpus
    bounds = Window.of(window)
    kept: list[SourceFile] = []
    left_out: list[Exclusion] = []
    untimed = 0
    for file in corpus.files:
        found = _cut(file, bounds) if file.kind is FileKind.RECORDS else file
        untimed += found is None
        if found is None or found.derived is None or found.derived.items:
            kept.append(replace(found or file, index=len(kept)) if left_out else (found or file))
        else:
            left_out.append(
                Exclusion(file.input_id, file.path, SkipReason.FILTERED, "outside of time_window")
            )
    if untimed:
        ledger.warn(
            WarningCode.PARAM_IGNORED,
            f"time_window: the records of {untimed} files carry no times and were kept.",
            Stage.DISCOVERY,
        )
    if not kept:
        raise AgentloopError(
            ErrorCode.INPUT_DISCOVERY_FAILED,
            "No record of the inputs lies in task_params.time_window; widen it.",
            Stage.DISCOVERY,
            {"reason": "filtered", "files": len(corpus.files)},
        )
    return replace(corpus, files=tuple(kept), excluded=(*corpus.excluded, *left_out))


def _cut(file: SourceFile, window: Window) -> SourceFile | None:
    """The file with its items from the first in the window to the last; None where they carry no times."""
    derived = file.derived
    if derived is None:
        return file
    inside = [window.holds(item.timestamp) for item in derived.items]
    if all(found is None for found in inside):
        return None
    places = [n for n, found in enumerate(inside) if found]
    if not places:
        return replace(file, derived=replace(derived, items=()))
    if places[0] == 0 and places[-1] == len(inside) - 1:
        return file
    return replace(file, derived=replace(derived, items=tuple(derived.items[places[0] : places[-1] + 1])))


def candidates_within(ranking: Ranking, corpus: Corpus, chunks: Chunks, window: TimeWindow | None) -> Ranking:
    """The ranking without chunks of records and logs whose times all lie outside of the window.

    Where the best of several that are alike lies outside, the next of them that doesn't stands for them. A
    chunk of a log that lies partly outside is cut; what is left of it is added to `chunks`.
    """
    if window is None or not (window.start or window.end):
        return ranking
    bounds = Window.of(window)
    kept = []
    for candidate in ranking.candidates:
        alike = (candidate.chunk, *candidate.duplicates)
        first, *rest = [n for n in alike if _overlaps(corpus, chunks[n], bounds)] or [-1]
        cut = _cut_log(corpus, chunks[first], bounds) if first >= 0 else None
        if cut is not None:
            chunks.append(cut)
            first = len(chunks) - 1
        if first == candidate.chunk:
            kept.append(replace(candidate, duplicates=tuple(rest)))
        elif first >= 0:
            kept.append(replace(candidate, chunk=first, focus=(), symbol=None, duplicates=tuple(rest)))
    return replace(ranking, candidates=tuple(kept))


def _cut_log(corpus: Corpus, chunk: Chunk, bounds: Window) -> Chunk | None:
    """The lines of a log's chunk from the first in the window to the last; None where that is all of it."""
    file = corpus.files[chunk.file]
    if file.kind is not FileKind.LOG or file.derived is not None:
        return None
    *whole, rest = file.content.read(chunk.byte_start, chunk.byte_end).split(b"\n")
    lines = [line + b"\n" for line in whole] + ([rest] if rest else [])
    inside = True
    kept = []
    for n, line in enumerate(lines):
        stamp = split_prefix(line.decode("utf-8", "replace")).stamp
        if stamp is not None and stamp.kind is StampKind.DATE:
            inside = bounds.holds(stamp.text) is not False
        if inside:
            kept.append(n)
    if not kept or len(kept) == len(lines):
        return None
    start = chunk.byte_start + sum(map(len, lines[: kept[0]]))
    end = start + sum(map(len, lines[kept[0] : kept[-1] + 1]))
    first = chunk.line_start + kept[0]
    return chunk._replace(
        byte_start=start, byte_end=end, line_start=first, line_end=first + kept[-1] - kept[0]
    )


def _overlaps(corpus: Corpus, chunk: Chunk, bounds: Window) -> bool:
    file = corpus.files[chunk.file]
    if file.kind is FileKind.RECORDS and file.derived is not None and chunk.first_item >= 0:
        items = (file.derived.items[n] for n in range(chunk.first_item, chunk.last_item + 1))
        stamps = [item.timestamp for item in items]
    elif file.kind is FileKind.LOG:
        found = (split_prefix(line).stamp for line in corpus.text(chunk).split("\n"))
        stamps = [stamp.text for stamp in found if stamp is not None and stamp.kind is StampKind.DATE]
    else:
        return True
    inside = [held for stamp in stamps if (held := bounds.holds(stamp)) is not None]
    return any(inside) or not inside


def only_within(found: Sequence[Draft], corpus: Corpus, window: TimeWindow | None) -> list[Draft]:
    """Drafts without those whose first place has a time outside of the window."""
    if window is None or not (window.start or window.end):
        return list(found)
    bounds = Window.of(window)
    return [draft for draft in found if bounds.holds(_time(corpus, draft.places[0])) is not False]


def _time(corpus: Corpus, place: Place) -> str:
    """The time of a record, or the first that a line of a log carries; "" for none."""
    file = corpus.files[place.file]
    if file.kind is FileKind.RECORDS and file.derived is not None and place.first_item >= 0:
        return file.derived.items[place.first_item].timestamp
    if file.kind is FileKind.LOG:
        for line in place_text(corpus, place).split("\n"):
            stamp = split_prefix(line).stamp
            if stamp is not None and stamp.kind is StampKind.DATE:
                return stamp.text
    return ""


def in_order_of_time(found: Sequence[Draft], corpus: Corpus, question: str) -> list[Draft]:
    """Drafts of records in the order of their times, where the question asks for the first or the last.

    Only those count that hold the words of the question which the best draft holds: "when did I first
    mention varnish" is about messages with varnish. The others keep their order behind them.
    """
    first, last = _FIRST.search(question), _LAST.search(question)
    if bool(first) == bool(last) or not _ASKS_TIME.search(question) or not found:
        return list(found)
    looked, rest = list(found[:LOOKED_AT]), list(found[LOOKED_AT:])
    texts = [place_text(corpus, draft.places[0]).lower() for draft in looked]
    asked = {w[: max(LEAST_WORD, len(w) - 2)] for w in _WORD.findall(question.lower()) if not _of_time(w)}
    held = [{word for word in asked if word in text} for text in texts]
    wanted = max(held, key=len)
    if not wanted:
        return list(found)
    stamped = [
        (when, n)
        for n, draft in enumerate(looked)
        if held[n] >= wanted and (when := _record_time(corpus, draft.places[0])) is not None
    ]
    stamped.sort(key=lambda entry: (entry[0].timestamp() * (1 if first else -1), entry[1]))
    chosen = [n for _, n in stamped]
    return [looked[n] for n in chosen] + [d for n, d in enumerate(looked) if n not in set(chosen)] + rest


def _of_time(word: str) -> bool:
    return bool(
        _FIRST.fullmatch(word) or _LAST.fullmatch(word) or _ASKS_TIME.fullmatch(word)
    ) or word.startswith(("mention", "talk", "time", "date", "when", "message", "said", "wrote", "ask"))


def _record_time(corpus: Corpus, place: Place) -> datetime | None:
    if corpus.files[place.file].kind is not FileKind.RECORDS:
        return None
    try:
        stamp = _time(corpus, place)
        return parse_iso(stamp) if stamp else None
    except ValueError:
        return None
