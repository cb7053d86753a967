"""Claims about derived text: messages of a conversation, rows, pages."""

from __future__ import annotations

from agentloop.compress.prose import sentences
from agentloop.compress.region import Region, place_of
from agentloop.compress.terms import Question
from agentloop.compress.wording import Claim, clip, one_line
from agentloop.pack import MAX_REF_LINES
from agentloop.types import Chunk, Corpus, Item, Place

MAX_CHARS = 420
MAX_TITLE_CHARS = 90


def record_claim(region: Region, corpus: Corpus, question: Question, found: Chunk) -> Claim | None:
    """Date, speaker and the sentences of the best record.

    The place is the run of records around what was `found`, as far as a ref's lines reach. Nothing outside
    of it is told: a claim must stand in what it cites.
    """
    derived = corpus.files[region.file].derived
    if derived is None or not any(line.text.strip() for line in region.lines):
        return None
    cited = _around(region, found.first_item, found.last_item)
    ranked = sorted(
        dict.fromkeys(line.item for line in region.lines if line.item in cited),
        key=lambda n: (-question.score(_text(region, n)), n),
    )
    best = ranked[0]
    told = [_say(derived.items[best], _answer(region, best, question))]
    held = question.held(_text(region, best))
    for n in ranked[1:]:
        more = question.held(_text(region, n)) - held
        if more and sum(map(len, told)) < MAX_CHARS // 2:
            told.append(_say(derived.items[n], _answer(region, n, question)))
            held |= more
            break
    count = len(ranked)
    item = derived.items[best]
    who = "message" if item.speaker else "record"
    summary = f"{who} run of {count}" if count > 1 else who
    if item.timestamp:
        summary += f", {item.timestamp}"
    kind = "message" if item.speaker else "page" if item.page else "record"
    return Claim(
        kind,
        clip(" / ".join(told), MAX_CHARS),
        (_place(corpus, region, cited),),
        f"{summary}, {len(held)} question terms",
    )


def _around(region: Region, first: int, last: int) -> range:
    """Items `first..last` and as many neighbours on both sides as a ref of 80 lines has room for."""
    items = [line.item for line in region.lines]
    first, last = max(first, items[0]), min(last, items[-1])
    grew = True
    while grew:
        grew = False
        for low, high in ((first, last + 1), (first - 1, last)):
            if low < items[0] or high > items[-1]:
                continue
            inside = [line for line in region.lines if low <= line.item <= high]
            height = max(x.number_end for x in inside) - min(x.number for x in inside)
            if height < MAX_REF_LINES and len(inside) <= MAX_REF_LINES:
                first, last, grew = low, high, True
    return range(first, last + 1)


def _place(corpus: Corpus, region: Region, cited: range) -> Place:
    at = [n for n, line in enumerate(region.lines) if line.item in cited]
    return place_of(corpus, region, at[0], at[-1])


def _text(region: Region, item: int) -> str:
    return "\n".join(line.text for line in region.lines if line.item == item)


def _answer(region: Region, item: int, question: Question) -> str:
    """The best sentence of an item, and the next ones while they are short."""
    lines = [n for n, line in enumerate(region.lines) if line.item == item]
    title = _title(region, lines)
    found = sentences(region, lines[1] if title else lines[0], lines[-1])
    if not found:
        return title
    best = max(range(len(found)), key=lambda n: (question.score(found[n].text), -n))
    text = found[best].text
    for sentence in found[best + 1 : best + 3]:
        if len(text) + len(sentence.text) > MAX_CHARS // 2:
            break
        text += " " + sentence.text
    if title and not text.startswith(title):
        text = f"{title}: {text}"
    return clip(text, MAX_CHARS)


def _title(region: Region, lines: list[int]) -> str:
    """The first line of an item, where it is a title over the text and no part of a sentence."""
    first = one_line(region.lines[lines[0]].text)
    is_title = len(lines) > 1 and 0 < len(first) <= MAX_TITLE_CHARS and first[-1] not in ".!?:;,…"
    return first if is_title else ""


def _say(item: Item, text: str) -> str:
    """`date speaker: text`; a speaker that the text already names is not repeated."""
    date = item.timestamp[:10]
    heading = item.heading or (f"p. {item.page}" if item.page else "")
    if item.speaker and text.startswith(item.speaker):
        return one_line(f"{date} {text}")
    lead = " ".join(part for part in (date, item.speaker or heading) if part)
    return one_line(f"{lead}: {text}" if lead else text)
