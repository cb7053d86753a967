"""Duplicates collapse in all the ways of the specification, and every source is kept."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentloop.budget import Ledger
from agentloop.chunking import chunk_corpus
from agentloop.chunks import Chunks
from agentloop.clock import SystemClock
from agentloop.config import Caps, Policy
from agentloop.request import parse_request
from agentloop.retrieval.dedup import collapse
from agentloop.sources import discover
from agentloop.types import Candidate, Corpus

NOUNS = (
    "amber birch cedar delta ember fjord grove heron inlet jetty knoll lagoon marsh nook otter pier quay reef"
)
WORDS = NOUNS.split()


def corpus_of(root: Path, files: Mapping[str, str]) -> tuple[Corpus, Chunks]:
    """Files through discovery and chunking."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    ledger = Ledger(SystemClock())
    request = parse_request({"query": "x", "input_refs": [{"type": "directory", "uri": str(root)}]})
    corpus = discover(request, Caps(), Policy(), ledger)
    return corpus, chunk_corpus(corpus, ledger, Caps())


def candidates(
    chunks: Chunks, corpus: Corpus, order: list[str], terms: tuple[str, ...] = ()
) -> list[Candidate]:
    """All chunks as candidates, files in the given order."""
    place = {path: n for n, path in enumerate(order)}
    found = sorted(range(len(chunks)), key=lambda n: (place[corpus.files[chunks[n].file].path], n))
    return [Candidate(n, 1 - rank / 1000, {"bm25": rank + 1}, terms=terms) for rank, n in enumerate(found)]


def paths(kept: list[Candidate], corpus: Corpus, chunks: Chunks) -> list[str]:
    """Paths of what stays, best first."""
    return [corpus.files[chunks[c.chunk].file].path for c in kept]


def story(seed: int, length: int = 120) -> str:
    """Words in a fixed random order."""
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(length))


def test_identical_chunks_become_one_with_all_sources(tmp_path: Path) -> None:
    files = {f"{name}/notes.md": f"# Notes\n\n{story(1)}\n" for name in "abcd"}
    corpus, chunks = corpus_of(tmp_path, files)
    kept = collapse(candidates(chunks, corpus, list(files)), corpus, chunks)
    assert len(kept) == 1
    assert sorted([kept[0].chunk, *kept[0].duplicates]) == list(range(len(chunks)))


def test_white_space_does_not_matter(tmp_path: Path) -> None:
    text = story(2)
    files = {"a.txt": text + "\n", "b.txt": text.replace(" ", "\n  ") + "\n"}
    corpus, chunks = corpus_of(tmp_path, files)
    kept = collapse(candidates(chunks, corpus, list(files)), corpus, chunks)
    assert paths(kept, corpus, chunks) == ["a.txt"]


def test_near_duplicates_collapse_and_others_stay(tmp_path: Path) -> None:
    text = story(3, 200)
    files = {
        "a.md": text + "\n",
        "b.md": text.replace("otter", "otter", 1) + " coda\n",
        "c.md": story(4, 200) + "\n",
    }
    corpus, chunks = corpus_of(tmp_path, files)
    kept = collapse(candidates(chunks, corpus, list(files)), corpus, chunks)
    assert paths(kept, corpus, chunks) == ["a.md", "c.md"]


@pytest.mark.parametrize(("a", "b"), [("26 months", "3 months"), ("port 8080", "port 8443")])
def test_texts_that_differ_in_a_figure_are_two_facts(tmp_path: Path, a: str, b: str) -> None:
    text = story(5, 200)
    files = {"a.md": f"{text} {a}\n", "b.md": f"{text} {b}\n"}
    corpus, chunks = corpus_of(tmp_path, files)
    assert len(collapse(candidates(chunks, corpus, list(files)), corpus, chunks)) == 2


def test_a_text_with_another_term_of_the_question_stays(tmp_path: Path) -> None:
    text = story(6, 200)
    corpus, chunks = corpus_of(tmp_path, {"a.md": text + "\n", "b.md": text + " zebra\n"})
    found = candidates(chunks, corpus, ["a.md", "b.md"])
    found = [found[0], Candidate(found[1].chunk, 0.5, terms=("zebra",))]
    assert len(collapse(found, corpus, chunks)) == 2


def test_log_lines_collapse_by_template(tmp_path: Path) -> None:
    lines = [
        f"2024-05-0{d} 10:00:00 ERROR worker {d * 7} lost job 0x{d * 991:08x} after {d}.{d} s"
        for d in range(1, 5)
    ]
    files = {f"day{n}.log": line + "\n" for n, line in enumerate(lines)}
    corpus, chunks = corpus_of(tmp_path, files)
    kept = collapse(candidates(chunks, corpus, list(files)), corpus, chunks)
    assert len(kept) == 1
    assert len(kept[0].duplicates) == 3


def test_stack_traces_collapse_without_their_line_numbers(tmp_path: Path) -> None:
    def trace(n: int) -> str:
        return (
            f'Traceback (most recent call last):\n  File "app/run.py", line {n}, in run\n    go()\n'
            f'  File "app/go.py", line {n + 3}, in go\n    raise ValueError("bad")\nValueError: bad\n'
        )

    files = {f"try{n}.log": trace(10 + n) for n in range(3)}
    corpus, chunks = corpus_of(tmp_path, files)
    kept = collapse(candidates(chunks, corpus, list(files)), corpus, chunks)
    assert len(kept) == 1


def test_a_vendored_copy_never_stands_for_the_original(tmp_path: Path) -> None:
    code = "\n".join(f"def step_{w}(x):\n    return x + '{w}'\n" for w in WORDS)
    files = {"vendor/lib/steps.py": code, "src/steps.py": code}
    corpus, chunks = corpus_of(tmp_path, files)
    found = candidates(chunks, corpus, list(files))
    kept = collapse(found, corpus, chunks)
    assert set(paths(kept, corpus, chunks)) == {"src/steps.py"}
    assert kept[0].score == found[0].score
    assert kept[0].duplicates


def test_the_same_chunk_found_again_is_one(tmp_path: Path) -> None:
    corpus, chunks = corpus_of(tmp_path, {"a.md": story(7) + "\n"})
    twice = [Candidate(0, 1.0), Candidate(0, 0.5)]
    assert collapse(twice, corpus, chunks) == [Candidate(0, 1.0)]


def test_nothing_is_lost_and_order_is_kept(tmp_path: Path) -> None:
    rng = random.Random(8)
    files = {f"f{n:02d}.md": story(rng.randrange(6), 90) + "\n" for n in range(30)}
    corpus, chunks = corpus_of(tmp_path, files)
    found = candidates(chunks, corpus, sorted(files, key=lambda name: name[::-1]))
    kept = collapse(found, corpus, chunks)
    everything = [n for c in kept for n in (c.chunk, *c.duplicates)]
    assert sorted(everything) == sorted(c.chunk for c in found)
    assert [c.score for c in kept] == sorted((c.score for c in kept), reverse=True)
    assert collapse(found, corpus, chunks) == kept
