"""The sieve leaves out no file that holds a literal, whatever the bytes, and most of those that don't."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from agentloop.index import sieve as sieves
from agentloop.index.lexical import LexicalIndex
from agentloop.index.sieve import Sieve
from agentloop.retrieval import exact
from agentloop.retrieval.chunkmap import ChunkMap
from tests.unit.retrieval_case import corpus_of

LONG = "Zx9" * 60  # longer than any word of the index
TEXTS = {
    "plain.py": b"def select_for_update(self, of=()):\n    return QuerySet.of(self)._get_response(0x1F)\n",
    "camel.py": b"class MyQuerySetMixin(HTTPServer2):\n    __x_y__ = selectForUpdate\r\n    a = 'ABQuery'\n",
    "long.txt": f"before needle_{LONG}_after\n{LONG}QuerySet{LONG}\n".encode(),
    "line.txt": b"filler_word QuerySet select_for_update " * 4000,  # one line of many chunks
    "accents.md": "caf\u0065\u0301_x \u00e9QuerySet\u0142 \u212aelvin \u0130D \ufb01le na\u00efve\n".encode(),
    "script.md": "使用QuerySet的例子select_for_update例\nข้อมูลQuerySetข้อมูล\n".encode(),
    "broken.py": b"x = 'select_for\xff_update'\nQuery\xc3Set = QuerySet\xe2\x82\n# \x85 of\n",
    "chat.jsonl": b'{"id": "1", "text": "QuerySet of select_for_update"}\n{"id": "2", "text": "no"}\n',
    "many.py": b"".join(b"def of_%d(of):\n    return idea_%d\n\n" % (n, n) for n in range(300)),
}
LITERALS = (
    "select_for_update", "QuerySet", "_get_response", "of", "id", "of_12", "0x", "->", "__x_y__", "ABQuery",
    "needle_", "x", "café", "elvin", "caf", "Query\nSet", "QuerySet.of(self)", "HTTPServer2", "nothing_here",
    LONG, "update select", "ile", "D", "=", "idea_299",
)  # fmt: skip


def _scans(folder: Path, literals: list[str], before: Sieve | None = None) -> Sieve:
    """Compare what is found with and without the sieve; the sieve."""
    corpus, chunks = corpus_of(folder)
    sieve = Sieve(corpus, chunks, LexicalIndex(corpus, chunks), before)
    sieved = exact.scan(corpus, chunks, ChunkMap(chunks), literals, sieve)
    whole = exact.scan(corpus, chunks, ChunkMap(chunks), literals)
    for one, other in zip(sieved, whole, strict=True):
        assert (one, list(one.chunks)) == (other, list(other.chunks))
    return sieve


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The texts as files."""
    for name, data in TEXTS.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def test_named_literals_are_found_as_without_it(folder: Path) -> None:
    _scans(folder, list(LITERALS))


def test_any_part_of_any_text_is_found_as_without_it(folder: Path) -> None:
    rng = random.Random(7)
    literals = set()
    for data in TEXTS.values():
        text = data.decode("utf-8", "ignore")
        for _ in range(60):
            at = rng.randrange(len(text))
            literals.add(text[at : at + rng.randint(1, 30)])
    _scans(folder, sorted(literals - {""}))


def test_files_that_hold_nothing_of_it_are_left_out(folder: Path) -> None:
    sieve = _scans(folder, [])
    corpus, _ = corpus_of(folder)
    paths = {file.index: file.path for file in corpus.files}
    able = sieve.places("select_for_update")
    assert able is not None
    left_out = {paths[n] for n in paths.keys() - dict(able).keys()}
    assert {"accents.md", "many.py"} <= left_out
    # what the index does not tell whole is always looked at
    assert not left_out & {"plain.py", "long.txt", "line.txt", "chat.jsonl"}


def test_after_an_edit_the_words_listed_before_still_serve(folder: Path) -> None:
    before = _scans(folder, ["QuerySet"])
    text = TEXTS["many.py"].replace(b"idea_7\n", b"brandNewWord_7\n")
    (folder / "many.py").write_bytes(text)
    (folder / "new.py").write_bytes(b"anotherNewWord = 1\n")
    literals = ["NewWord", "brandNewWord_7", "idea_7", "anotherNew", *LITERALS]
    after = _scans(folder, literals, before)
    assert after._words is before._words
    able = after.places("select_for_update")
    corpus, _ = corpus_of(folder)
    assert able is not None
    assert {file.path for file in corpus.files if file.index in dict(able)} >= {"many.py", "new.py"}


def test_after_many_edits_the_words_are_listed_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _scans(folder, ["QuerySet"])
    monkeypatch.setattr(sieves, "MOST_UNKNOWN", 1)
    for name in ("one.py", "two.py"):
        (folder / name).write_bytes(b"anotherNewWord = 1\n")
    after = _scans(folder, ["NewWord", "anotherNewWord"], before)
    assert after._words is not before._words
    assert re.search(rb"\nanothernewword\n", after._words._text)
