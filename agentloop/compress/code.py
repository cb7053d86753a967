"""Claims about code: the symbol, its signature, what it says it does, and the lines that decide."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from agentloop.compress.region import Region, chunk_region, place_of, quotable, span_region
from agentloop.compress.terms import Question
from agentloop.compress.wording import Claim, clip, one_line
from agentloop.index.symbols import SymbolParser
from agentloop.pack import MAX_REF_LINES
from agentloop.redact.injection import instruction_like
from agentloop.types import Candidate, Chunk, Corpus, Place, Span, Symbol, Trait

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z])|\n\s*\n")
_TRIVIAL = re.compile(
    r"^[\s{}()\[\];,:]*$|^\s*(?:else|try|finally|end|pass|break|fi|done|\"\"\"|''')\s*[:{]?\s*$"
)
_COMMENT = re.compile(r"^\s*(?:#|//|/\*|\*|--|;|%)")
_RETURN = re.compile(r"^\s*(?:return|yield|raise|throw)\b")
_OVERLOADING = frozenset({"typescript", "tsx", "python"})
MAX_JOINED = 4  # lines of one statement that a claim quotes together
MAX_HEAD_CHARS = 140  # of a long signature: what the symbol does matters more than its last parameters
CONTEXT_LINES = 12  # around the decisive line of a definition that is longer than a ref may be


def code_claim(
    candidate: Candidate, corpus: Corpus, chunk: Chunk, question: Question, parser: SymbolParser
) -> Claim | None:
    """What a candidate of a code file shows, or None when it holds nothing but blank lines."""
    file = corpus.files[chunk.file]
    matched = quotable(chunk_region(corpus, chunk))
    symbol = candidate.symbol
    if symbol is None or symbol.line_end - symbol.line_start >= MAX_REF_LINES:
        symbol = _best_symbol(matched, parser.symbols(file), question) or symbol
    if symbol is None:
        return _plain(candidate, corpus, matched, question)
    if _is_overload(corpus, chunk.file, symbol):
        symbol = _implementation(symbol, parser.symbols(file))
    whole = quotable(span_region(corpus, chunk.file, _span(symbol)))
    return _definition(symbol, whole, _within(matched, symbol), corpus, question, file.traits)


def _is_overload(corpus: Corpus, file: int, symbol: Symbol) -> bool:
    """Whether a definition declares a signature only: TypeScript without a body, Python's `@overload`."""
    source = corpus.files[file]
    if source.language not in _OVERLOADING:
        return False
    text = source.content.read(symbol.byte_start, min(symbol.byte_end, symbol.byte_start + 4096))
    if source.language == "python":
        return text.startswith((b"@overload", b"@typing.overload", b"@t.overload"))
    return symbol.kind in ("function", "method") and b"{" not in text.rpartition(b")")[2]


def _implementation(symbol: Symbol, symbols: Sequence[Symbol]) -> Symbol:
    """The last definition of an overload's name, which has the body, told with the first real doc of all."""
    same = [s for s in symbols if (s.name, s.parent, s.kind) == (symbol.name, symbol.parent, symbol.kind)]
    if len(same) < 2:
        return symbol
    body = same[-1]
    docs = [s.doc for s in (body, *same) if s.doc and not s.doc.startswith("@deprecated")]
    return replace(body, doc=docs[0] if docs else body.doc)


def _best_symbol(matched: Region, symbols: Sequence[Symbol], question: Question) -> Symbol | None:
    """Of the definitions that the matched lines touch, the one that holds most; of equals the smallest.

    The head counts whole, what its best line adds six tenths: a name that is asked for beats a mention.
    """
    start, end = matched.lines[0].byte_start, matched.lines[-1].byte_end
    best, best_key = None, (0.0, 0)
    for symbol in symbols:
        if symbol.byte_start >= end or symbol.byte_end <= start:
            continue
        lines = [
            line.text
            for line in matched.lines
            if line.byte_start < symbol.byte_end and line.byte_end > symbol.byte_start
        ]
        told = question.held(f"{symbol.name} {symbol.signature} {first_sentence(symbol.doc)}")
        head = question.weight(told)
        body = max((question.weight(question.held(text) - told) for text in lines), default=0.0)
        key = (round(head + 0.6 * body, 6), symbol.byte_start - symbol.byte_end)
        if key > best_key or best is None:
            best, best_key = symbol, key
    return best if best_key[0] > 0 else None


def _definition(
    symbol: Symbol,
    whole: Region,
    matched: range | None,
    corpus: Corpus,
    question: Question,
    traits: frozenset[Trait],
) -> Claim:
    name = qualified(symbol)
    head = clip(_head(symbol, name), MAX_HEAD_CHARS)
    doc = "" if instruction_like(symbol.doc) else first_sentence(symbol.doc)
    told = question.held(f"{head} {doc}")
    known = _head_lines(symbol, whole)
    best = decisive_line(whole, question, told, skip=known, inside=matched)
    if best is None and not doc:
        best = _telling_line(whole, known)
    parts = [head]
    if doc:
        parts.append(f": {doc}")
    if best is not None:
        parts.append(f"{';' if doc else ':'} {quoted(whole, best)}")
    if len(whole.lines) <= MAX_REF_LINES:
        place = place_of(corpus, whole, 0, len(whole.lines) - 1)
        others: tuple[Place, ...] = ()
    else:
        place, others = _long(whole, best, matched, corpus)
    kind = "test" if Trait.TEST in traits else symbol.kind or "code"
    lines = symbol.line_end - symbol.line_start + 1
    derived = f"{symbol.kind or 'symbol'} {name}, {lines} line{'s' if lines > 1 else ''}"
    return Claim(kind, "".join(parts), (place, *others), derived, symbol)


def _long(
    whole: Region, best: int | None, matched: range | None, corpus: Corpus
) -> tuple[Place, tuple[Place, ...]]:
    """Of a definition longer than a ref: the lines around the decisive one, then its head."""
    head = place_of(corpus, whole, 0, min(CONTEXT_LINES, len(whole.lines)) - 1)
    if best is None and matched is None:
        return head, ()
    if best is not None:
        first, last = max(0, best - CONTEXT_LINES), min(len(whole.lines) - 1, best + CONTEXT_LINES)
    else:
        assert matched is not None  # noqa: S101 - tested above
        first, last = matched.start, min(matched.stop - 1, matched.start + MAX_REF_LINES - 1)
    place = place_of(corpus, whole, first, last)
    return (place, ()) if first < CONTEXT_LINES else (place, (head,))


def _plain(candidate: Candidate, corpus: Corpus, region: Region, question: Question) -> Claim | None:
    """Code outside any definition: its decisive lines."""
    best = decisive_line(region, question, frozenset(), skip=frozenset())
    if best is None:
        best = next((n for n, line in enumerate(region.lines) if not _TRIVIAL.match(line.text)), None)
    if best is None:
        return None
    first, last = block_around(region, best, MAX_REF_LINES // 2)
    told = question.held(region.lines[best].text)
    more = decisive_line(region, question, told, skip=frozenset({best}))
    text = quoted(region, best)
    if more is not None and first <= more <= last and quoted(region, more) not in text:
        text += f"; {quoted(region, more)}"
    kind = "test" if Trait.TEST in corpus.files[region.file].traits else "code"
    return Claim(
        kind,
        text,
        (place_of(corpus, region, first, last),),
        f"code outside any definition, {last - first + 1} lines",
    )


def decisive_line(
    region: Region,
    question: Question,
    told: frozenset[str],
    skip: frozenset[int],
    inside: range | None = None,
) -> int | None:
    """Index of the line that adds most of the question to what is told; code beats comments, first wins.

    None when no line adds anything.
    """
    best, best_score = None, 0.0
    for n in inside or range(len(region.lines)):
        text = region.lines[n].text
        if n in skip or _TRIVIAL.match(text):
            continue
        new = question.held(text) - told
        if not new:
            continue
        score = question.score(text, told) * (0.8 if _COMMENT.match(text) else 1.0)
        if score > best_score:
            best, best_score = n, score
    return best


def quoted(region: Region, line: int) -> str:
    """A line with its number; a comment together with the line of code that it is about."""
    text = one_line(region.lines[line].text)
    if _COMMENT.match(region.lines[line].text):
        for n in range(line + 1, min(len(region.lines), line + 6)):
            after = region.lines[n].text
            if not after.strip():
                break
            if not _COMMENT.match(after) and not _TRIVIAL.match(after):
                return f"L{region.lines[n].number}: {one_line(after)} ({text})"
    for n in range(line + 1, min(len(region.lines), line + MAX_JOINED)):
        if not _is_open(text):
            break
        text += " " + one_line(region.lines[n].text)
    return f"L{region.lines[line].number}: {text}"


def _is_open(text: str) -> bool:
    """Whether a statement goes on in the next line: more brackets were opened than closed."""
    return sum(map(text.count, "([")) > sum(map(text.count, ")]"))


def _telling_line(whole: Region, known: frozenset[int]) -> int | None:
    """What a definition without words does: its first `return`, else its first line of code."""
    body = [n for n, line in enumerate(whole.lines) if n not in known and not _TRIVIAL.match(line.text)]
    body = [n for n in body if not _COMMENT.match(whole.lines[n].text)]
    returns = [n for n in body if _RETURN.match(whole.lines[n].text)]
    return next(iter(returns or body), None)


def block_around(region: Region, best: int, most: int) -> tuple[int, int]:
    """First and last line of the run without blank lines around a line, at most `most` lines each way."""
    first = last = best
    while first > 0 and best - first < most and region.lines[first - 1].text.strip():
        first -= 1
    while last + 1 < len(region.lines) and last - best < most and region.lines[last + 1].text.strip():
        last += 1
    return first, last


def first_sentence(doc: str) -> str:
    """The first sentence of a docstring or comment, on one line."""
    text = doc.strip().strip("\"'*/#").strip()
    return one_line(_SENTENCE_END.split(text, maxsplit=1)[0]) if text else ""


def qualified(symbol: Symbol) -> str:
    """`Parent.name`, or the name alone."""
    return f"{symbol.parent}.{symbol.name}" if symbol.parent else symbol.name


def _head(symbol: Symbol, name: str) -> str:
    """The signature under its qualified name."""
    signature = one_line(symbol.signature).rstrip("{: ")
    if not signature:
        return f"{symbol.kind} {name}".strip()
    if symbol.parent and name not in signature:
        return f"{name}: {signature}" if symbol.name not in signature else _qualify(signature, symbol)
    return signature


def _qualify(signature: str, symbol: Symbol) -> str:
    pattern = re.compile(rf"(?<![\w.]){re.escape(symbol.name)}(?!\w)")
    return pattern.sub(lambda _: qualified(symbol), signature, count=1)


def _head_lines(symbol: Symbol, whole: Region) -> frozenset[int]:
    """Lines that the signature and the doc already tell."""
    told = clip(one_line(f"{symbol.signature} {symbol.doc}"), 4000)
    bare = (one_line(line.text).rstrip(" {:,=") for line in whole.lines)
    return frozenset(n for n, text in enumerate(bare) if text and text in told)


def _span(symbol: Symbol) -> Span:
    return Span(symbol.byte_start, symbol.byte_end, symbol.line_start, symbol.line_end)


def _within(matched: Region, symbol: Symbol) -> range | None:
    """The matched lines as indexes of the symbol's lines; None when they are not inside it."""
    first = max(matched.lines[0].number, symbol.line_start) - symbol.line_start
    last = min(matched.lines[-1].number_end, symbol.line_end) - symbol.line_start
    return range(first, last + 1) if first <= last else None
