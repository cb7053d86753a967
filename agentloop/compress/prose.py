"""Claims about text: where it stands (headings, speaker, key path) and the sentences that answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from agentloop.compress.region import Region, place_of
from agentloop.compress.terms import Question
from agentloop.compress.wording import Claim, clip, one_line
from agentloop.types import Chunk, Corpus, Span, Trait

_HEADING = re.compile(r"^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_UNDERLINE = re.compile(r"^\s{0,3}([=\-~^\"'`*+#])\1{2,}\s*$")
_LIST = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)]|\(?[a-z]\))\s+")
_TABLE = re.compile(r"^\s*\|.*\|\s*$|^\s*[+|][-=+|]+\s*$")
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[^\Wa-z])|(?<=[。！？])")
MAX_SENTENCE_CHARS = 400
MAX_PARAGRAPH_LINES = 16  # a longer run of lines is cited around its sentence only


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str
    first: int  # lines of the region
    last: int


def prose_claim(
    region: Region, chunk: Chunk, corpus: Corpus, question: Question, focus: Span | None
) -> Claim | None:
    """The heading path and the one or two sentences of a region that answer best."""
    paragraphs = _paragraphs(region)
    if not paragraphs:
        return None
    inside = [p for p in paragraphs if focus is None or _touches(region, p, focus)] or paragraphs
    scored = [(_best(region, p, question), p) for p in inside]
    # where no word decides (the hit was found by meaning), text tells more than its heading
    (score, sentence), paragraph = max(
        scored, key=lambda s: (s[0][0], not _HEADING.match(region.lines[s[1][0]].text), -s[1][0])
    )
    heading = chunk.name or heading_path(region, paragraph[0])
    text = sentence.text
    second = _second(region, paragraph, sentence, question, heading)
    if second is not None:
        text = f"{text} {second.text}" if second.first >= sentence.first else f"{second.text} {text}"
    if not score and not question.held(heading):
        text = sentence.text
    last_heading = heading.split(" > ")[-1]
    told = text if not heading or last_heading == text else f"{heading}: {text}"
    first, last = _bounds(paragraph, sentence, second)
    kind = "table" if _TABLE.match(region.lines[first].text) else _kind(corpus, region.file)
    count = last - first + 1
    derived = f"{kind} of {count} line{'s' if count > 1 else ''}, {len(question.held(text))} question terms"
    return Claim(kind, told, (place_of(corpus, region, first, last),), derived)


def _kind(corpus: Corpus, file: int) -> str:
    return "test" if Trait.TEST in corpus.files[file].traits else "statement"


def _touches(region: Region, paragraph: tuple[int, int], focus: Span) -> bool:
    first, last = region.lines[paragraph[0]], region.lines[paragraph[1]]
    return first.byte_start < focus.byte_end and focus.byte_start < max(last.byte_end, last.byte_start + 1)


def _paragraphs(region: Region) -> list[tuple[int, int]]:
    """Runs of lines: list items, table rows and headings stand alone; items of derived text end one."""
    runs: list[tuple[int, int]] = []
    start: int | None = None
    lines = region.lines
    for n, line in enumerate(lines):
        blank = not line.text.strip() or bool(_UNDERLINE.match(line.text))
        alone = bool(_HEADING.match(line.text) or _TABLE.match(line.text))
        fresh = alone or bool(_LIST.match(line.text)) or (n > 0 and lines[n - 1].item != line.item)
        if start is not None and (blank or fresh):
            runs.append((start, n - 1))
            start = None
        if blank:
            continue
        if alone:
            runs.append((n, n))
        elif start is None:
            start = n
    if start is not None:
        runs.append((start, len(lines) - 1))
    return runs


def sentences(region: Region, first: int, last: int) -> list[_Sentence]:
    """Sentences of lines `first..last`, each with the lines that hold it; very long ones are cut."""
    if _is_listing(region, first, last):
        rows = [_Sentence(one_line(region.lines[n].text), n, n) for n in range(first, last + 1)]
        return [row for row in rows if row.text]
    starts: list[int] = []
    joined = ""
    for n in range(first, last + 1):
        starts.append(len(joined))
        joined += region.lines[n].text.replace("\r", " ") + " "
    found: list[_Sentence] = []
    begin = 0
    ends = [m.start() for m in _SENTENCE.finditer(joined)] + [len(joined)]
    for end in ends:
        text = one_line(joined[begin:end])
        if text:
            a = max(i for i, s in enumerate(starts) if s <= begin + _lead(joined, begin))
            b = max(i for i, s in enumerate(starts) if s < max(end, begin + 1))
            found.append(_Sentence(text, first + a, first + b))
        begin = end
    return found


def _is_listing(region: Region, first: int, last: int) -> bool:
    """Whether lines are entries of their own (a listing, a table without bars) and no wrapped sentences.

    Wrapped prose ends a sentence every line or two; four lines and more with hardly any end are a listing.
    """
    lines = [region.lines[n].text.strip() for n in range(first, last + 1)]
    if len(lines) < 4:
        return False
    ends = sum(len(_SENTENCE.findall(f"{line} X")) for line in lines)
    return ends * 6 < len(lines) and not _flows(lines)


def _flows(lines: list[str]) -> bool:
    """Whether most lines go on in the next one: it begins in lower case, and no mark or digit ends it."""
    on = sum(b[:1].islower() and a[-1:].isalpha() for a, b in pairwise(lines))
    return on * 2 > len(lines)


def _lead(text: str, start: int) -> int:
    """How many blanks stand at `start`."""
    return len(text[start:]) - len(text[start:].lstrip())


def _best(region: Region, paragraph: tuple[int, int], question: Question) -> tuple[float, _Sentence]:
    """The best sentence of a paragraph; its score counts the whole paragraph a little, headings half."""
    found = sentences(region, *paragraph)
    context = question.score(" ".join(s.text for s in found)) if len(found) > 1 else 0.0
    scored = [(question.score(s.text) + 0.3 * context, -n, s) for n, s in enumerate(found)]
    score, _, sentence = max(scored, key=lambda s: s[:2])
    if _HEADING.match(region.lines[paragraph[0]].text):
        score *= 0.5
    return score, _cut(sentence, question)


def _cut(sentence: _Sentence, question: Question) -> _Sentence:
    """A very long sentence around its first matched stem."""
    if len(sentence.text) <= MAX_SENTENCE_CHARS:
        return sentence
    words = sentence.text.split(" ")
    hit = next((n for n, word in enumerate(words) if question.held(word)), 0)
    tail = " ".join(words[max(0, hit - 12) :])
    lead = "…" if hit > 12 else ""
    return _Sentence(lead + clip(tail, MAX_SENTENCE_CHARS), sentence.first, sentence.last)


def _second(
    region: Region, paragraph: tuple[int, int], chosen: _Sentence, question: Question, heading: str
) -> _Sentence | None:
    """Another sentence of the paragraph that adds to the question; else the one after a short choice."""
    found = sentences(region, *paragraph)
    told = question.held(f"{heading} {chosen.text}")
    others = [(question.weight(question.held(s.text) - told), -n, s) for n, s in enumerate(found)]
    others = [o for o in others if o[2].first != chosen.first or o[2].text not in chosen.text]
    if not others:
        return None
    gain, _, sentence = max(others, key=lambda o: o[:2])
    return _cut(sentence, question) if gain > 0 else None


def _bounds(paragraph: tuple[int, int], sentence: _Sentence, second: _Sentence | None) -> tuple[int, int]:
    if paragraph[1] - paragraph[0] < MAX_PARAGRAPH_LINES:
        return paragraph
    both = [sentence] if second is None else [sentence, second]
    first, last = min(s.first for s in both), max(s.last for s in both)
    if last - first >= MAX_PARAGRAPH_LINES:
        first, last = sentence.first, sentence.last
    return first, last


def heading_path(region: Region, line: int) -> str:
    """Headings of the region that stand over a line, joined with ` > `."""
    path: list[tuple[int, str]] = []
    for n in range(line):
        text = region.lines[n].text
        heading = _HEADING.match(text)
        if heading:
            level, title = len(heading.group(1)), heading.group(2)
        elif n + 1 < len(region.lines) and text.strip() and _UNDERLINE.match(region.lines[n + 1].text):
            level, title = 1 + "=-~^".find(region.lines[n + 1].text.strip()[0]), text.strip()
        else:
            continue
        path = [p for p in path if p[0] < level] + [(level, title)]
    return " > ".join(title for _, title in path)
