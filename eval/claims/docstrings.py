"""True and false claims made by rules from the docstrings of Python's own library.

Nothing is stored: the passages are read from the running Python, so that the sets differ a little from
one version to the next, and each is the same on every run of one version.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MODULES = tuple(
    """argparse asyncio.tasks bisect calendar codecs collections configparser contextlib csv datetime
    decimal difflib email.message enum fractions functools gzip heapq html http.client imaplib inspect
    ipaddress json locale logging mailbox math mimetypes multiprocessing.pool operator optparse os pathlib
    pickle platform plistlib poplib posixpath pprint queue random re sched secrets selectors shelve shlex
    shutil signal smtplib socket sqlite3 ssl statistics string subprocess sys tarfile tempfile textwrap
    threading time timeit tokenize traceback types typing unittest.case urllib.parse urllib.request uuid
    warnings weakref xml.etree.ElementTree zipfile zlib""".split()  # noqa: SIM905
)
HELD_OUT = tuple(
    """aiohttp aiohttp.web aiosqlite jsonschema jsonschema.protocols openai prometheus_client pydantic
    pydantic.fields pypdf rich.console rich.live rich.panel rich.progress rich.prompt rich.segment rich.style
    rich.table rich.text rich.tree tantivy tree_sitter""".split()  # noqa: SIM905
)
"""Packages that agentloop depends on: no rule was written with a look at these."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])|\n\s*\n")
_AUXILIARY = re.compile(r"\b(is|are|was|were|will|can|must|should|may|does|do|has|have)\b(?! not)")
_NOT = re.compile(r"\b(is|are|was|were|will|must|should|may|does|do|can) not\b|\bcannot\b")
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.]|\))")
_PAIRS = (
    re.compile(
        r"\b(?P<a>(?:a|an|the) [a-z]{3,} ?(?:[a-z]{4,})?) (?P<mid>to|from|into|before|after|than|of|with) "
        r"(?P<b>(?:a|an|the) [a-z]{3,})\b(?! (?:of|that))"
    ),
    re.compile(
        r"(?P<a>\b[A-Z][a-z]+ [a-z]{4,}\b) (?P<mid>is|are|contains|holds|raises) (?P<b>[a-z]+ [a-z]{4,}\b)"
    ),
)
MIN_WORDS, MAX_WORDS = 6, 32


@dataclass(frozen=True, slots=True)
class Example:
    """A claim over a passage. `kind` is `true` or the way in which the claim is false."""

    kind: str
    claim: str
    passage: str
    label: str


@dataclass(frozen=True, slots=True)
class _Doc:
    label: str
    text: str
    sentences: tuple[str, ...]


def examples(modules: Sequence[str] = MODULES) -> list[Example]:
    """All examples, in the order of modules, names and sentences."""
    docs = list(_docs(modules))
    made: list[Example] = []
    for at, doc in enumerate(docs):
        made += _true(doc)
        made += _false(doc)
        made += _elsewhere(doc, [other for other in docs[max(0, at - 12) : at + 12] if other is not doc])
    return made


def _docs(modules: Sequence[str]) -> Iterator[_Doc]:
    seen: set[str] = set()
    for module_name in modules:
        module = importlib.import_module(module_name)
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or not callable(value):
                continue
            text = inspect.getdoc(value) or ""
            if text in seen or not 120 <= len(text) <= 1600 or ">>>" in text or "DEPRECATED" in text:
                continue
            seen.add(text)
            sentences = tuple(s for s in map(_clean, _SENTENCE.split(text)) if _plain(s))
            if len(sentences) >= 2:
                yield _Doc(f"{module_name}.{name}", text, sentences)


def _clean(sentence: str) -> str:
    return " ".join(sentence.split())


def _plain(sentence: str) -> bool:
    """Whether a sentence is prose that can stand alone."""
    count = len(sentence.split())
    return (
        MIN_WORDS <= count <= MAX_WORDS
        and sentence[0].isupper()
        and sentence.endswith(".")
        and not re.search(r"[{}<>=|*\[\]]|--|\be\.g|\bi\.e", sentence)
    )


def _true(doc: _Doc) -> Iterator[Example]:
    first = doc.sentences[0]
    yield Example("true", first, doc.text, doc.label)
    name = doc.label.rsplit(".", 1)[1]
    verb = re.match(
        r"(Return|Create|Convert|Read|Write|Remove|Open|Send|Run|Call|Wait|Set|Get|Print|Add)\b ", first
    )
    if verb:
        yield Example("true", f"`{name}` {verb[1].lower()}s {first[verb.end() :]}", doc.text, doc.label)
    last = doc.sentences[-1]
    shorter = _clean(re.sub(r"\s*\([^()]*\)", "", last))
    yield Example("true", shorter, doc.text, doc.label)
    if len(doc.sentences) > 2:
        yield Example("true", f"{first[:-1]}; {doc.sentences[1]}", doc.text, doc.label)


def _false(doc: _Doc) -> Iterator[Example]:
    for sentence in doc.sentences:
        if match := _NOT.search(sentence):
            verb = match[1] or "can"
            yield Example(
                "negated", sentence[: match.start()] + verb + sentence[match.end() :], doc.text, doc.label
            )
        elif match := _AUXILIARY.search(sentence):
            yield Example(
                "negated", f"{sentence[: match.end()]} not{sentence[match.end() :]}", doc.text, doc.label
            )
        if match := _NUMBER.search(sentence):
            changed = sentence[: match.start()] + str(int(match[0]) + 7) + sentence[match.end() :]
            yield Example("number", changed, doc.text, doc.label)
        for pattern in _PAIRS:
            if (match := pattern.search(sentence)) and match["a"].split()[-1] != match["b"].split()[-1]:
                turned = f"{match['b']} {match['mid']} {match['a'].lower()}"
                swapped = sentence[: match.start()] + turned + sentence[match.end() :]
                yield Example("swapped", swapped[0].upper() + swapped[1:], doc.text, doc.label)
                break


def _telling(sentence: str) -> set[str]:
    """Words of four letters and more: where all of them stand in one sentence here, it says the same."""
    return set(re.findall(r"\w{4,}", sentence.lower()))


def _elsewhere(doc: _Doc, others: list[_Doc]) -> Iterator[Example]:
    """The sentence of a neighbour that shares most words with this passage, unless it stands here too."""
    here = set(re.findall(r"\w+", doc.text.lower()))

    def shared(sentence: str) -> float:
        found = re.findall(r"\w+", sentence.lower())
        return sum(word in here for word in found) / len(found)

    flat = _clean(doc.text)
    said = [_telling(s) for s in _SENTENCE.split(doc.text)]
    candidates = [
        s
        for other in others
        for s in other.sentences
        if s[:-1] not in flat and not any(_telling(s) <= known for known in said)
    ]
    if candidates:
        best = max(candidates, key=lambda s: (shared(s), s))
        yield Example("wrong span", best, doc.text, doc.label)
