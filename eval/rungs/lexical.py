"""The plain lexical rungs: newest first, the tail of a log, minsearch, and textbook BM25."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from eval.answers import Answer
from eval.golden import Lane, Question
from eval.material import Document
from eval.rungs.passages import DEPTH, Passage, answer, windows

WORD = re.compile(r"\w+")
K1, B = 1.2, 0.75  # GOLDEN: the ladder as measured
STEMMERS = {"en": "english", "pl": "polish", "de": "german", "fr": "french", "es": "spanish"}
TAIL_BLOCK_LINES = 10


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The stop list of Snowball's English stemmer without contractions; with it this rung lands on the
# figures of GOLDEN's ladder (conversation hit@5 0.59 and hit@25 0.76, musique all gold at ten 0.21).
STOP_EN = _words(
    """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she
    her hers herself it its itself they them their theirs themselves what which who whom this that
    these those am is are was were be been being have has had having do does did doing would should
    could ought a an the and but if or because as until while of at by for with about against
    between into through during before after above below to from up down in out on off over under
    again further then once here there when where why how all any both each few more most other some
    such no nor not only own same so than too very
    """
)
STOP_PL = _words(
    """
    a aby albo ale am być był była było były bo by czy co czym dla do dlaczego gdy gdzie go i ich
    ile ja jak jaka jaki jakie jakich jest jego jej już kiedy kim kto która które który lub ma mi
    mnie na nad nie nim o od on ona oni ono po pod przez przy się są ta tak te tego tej tę to tu ty
    w we więc z za ze że
    """
)
STOP = {"en": STOP_EN, "pl": STOP_PL}

Scores = npt.NDArray[np.float64]


class Newest:
    """Newest first, as a source that is trimmed without an index; files in order of their paths."""

    def __init__(self, documents: Sequence[Document], lane: Lane) -> None:
        self.lane = lane
        order = sorted(range(len(documents)), key=lambda i: (documents[i].timestamp, i), reverse=True)
        if lane is Lane.FILES:
            order = list(range(len(documents)))
        self.passages = windows([documents[i] for i in order])

    def ask(self, question: Question) -> Answer:
        """The same passages for every question."""
        return answer(question.qid, self.passages[:DEPTH], self.lane)


class Tail:
    """The end of a log, backwards in blocks of ten lines: the strong simple rung for logs."""

    def __init__(self, documents: Sequence[Document], lane: Lane) -> None:
        self.lane = lane
        self.passages = [p for d in documents for p in _from_end(d)]

    def ask(self, question: Question) -> Answer:
        """The same passages for every question."""
        return answer(question.qid, self.passages[:DEPTH], self.lane)


def _from_end(document: Document) -> list[Passage]:
    lines = document.text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    found = []
    for last in range(len(lines), 0, -TAIL_BLOCK_LINES):
        first = max(1, last - TAIL_BLOCK_LINES + 1)
        found.append(Passage(document.doc, "\n".join(lines[first - 1 : last]), first, last))
    return found


class MinSearch:
    """The package minsearch: cosine over TF-IDF (it scores no BM25), as a peer's rung."""

    def __init__(self, documents: Sequence[Document], lane: Lane) -> None:
        import minsearch

        self.lane = lane
        self.passages = windows(documents)
        self.index = minsearch.Index(text_fields=["text"])
        self.index.fit([{"text": p.text, "at": i} for i, p in enumerate(self.passages)])

    def ask(self, question: Question) -> Answer:
        """Top passages by cosine."""
        rows = self.index.search(question.text, num_results=DEPTH)
        return answer(question.qid, [self.passages[row["at"]] for row in rows], self.lane)


class BM25:
    """BM25 with k1 1.2, b 0.75, Snowball stems and stop words; the question as asked."""

    def __init__(self, documents: Sequence[Document], lane: Lane, lang: str = "en") -> None:
        self.lane = lane
        self.lang = lang
        self.passages = windows(documents)
        postings: dict[str, tuple[list[int], list[int]]] = {}
        lengths = np.zeros(max(1, len(self.passages)))
        for at, passage in enumerate(self.passages):
            terms = stems(passage.text, lang)
            lengths[at] = len(terms)
            for term, count in Counter(terms).items():
                where, counts = postings.setdefault(term, ([], []))
                where.append(at)
                counts.append(count)
        mean = lengths.mean() or 1.0
        self.norm = K1 * (1 - B + B * lengths / mean)
        self.postings = {t: (np.array(w), np.array(c, dtype=np.float64)) for t, (w, c) in postings.items()}

    def scores(self, text: str) -> Scores:
        """A score for each passage; zero where no term matches."""
        total = np.zeros(len(self.norm))
        for term, repeats in Counter(stems(text, self.lang)).items():
            if term not in self.postings:
                continue
            where, counts = self.postings[term]
            idf = np.log(1 + (len(self.passages) - len(where) + 0.5) / (len(where) + 0.5))
            total[where] += repeats * idf * counts * (K1 + 1) / (counts + self.norm[where])
        return total

    def order(self, text: str, depth: int = DEPTH) -> list[int]:
        """Positions of matching passages, best first; ties in corpus order."""
        scores = self.scores(text)
        best = np.argsort(-scores, kind="stable")[:depth]
        return [int(i) for i in best if scores[i] > 0]

    def ask(self, question: Question) -> Answer:
        """Top passages by BM25."""
        return answer(question.qid, [self.passages[i] for i in self.order(question.text)], self.lane)


@lru_cache(maxsize=1 << 18)
def _stem(word: str, lang: str) -> str:
    stemmer = _stemmer(lang)
    return str(stemmer.stemWord(word)) if stemmer is not None else word


@lru_cache(maxsize=8)
def _stemmer(lang: str):  # type: ignore[no-untyped-def]  # snowballstemmer has no types
    import snowballstemmer

    return snowballstemmer.stemmer(STEMMERS[lang]) if lang in STEMMERS else None


def stems(text: str, lang: str) -> list[str]:
    """Lower-case words of `text` without stop words, each reduced to its Snowball stem.

    Languages without a stop list keep all words; those without a stemmer stay unstemmed.
    """
    stop = STOP.get(lang, frozenset())
    return [_stem(word, lang) for word in WORD.findall(text.lower()) if word not in stop]
