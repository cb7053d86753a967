"""`agentloop eval init DIR`: begin a golden set of one's own data.

Samples documents or records, and drafts `questions.draft.jsonl`: a row a sample, with the place it came
from as gold, an excerpt to look at, and an empty question to fill in.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from eval.golden import GoldenError, Lane, read_jsonl
from eval.material import Document, Material
from eval.rungs.passages import Passage, windows

DRAFT = "questions.draft.jsonl"
EXCERPT_CHARS = 400
MIN_CHARS = 120  # shorter passages hold too little to ask about
KINDS = ("paraphrase", "exact name", "multi-hop", "temporal", "where is it done")
GUIDE = """\
Next: open {draft}. Each row shows a passage of your data. For the rows you like, write a question that this
passage answers, in words of your own (not the passage's), and delete the `passage` field if it may not be
shared. Delete the other rows. For questions that need several places, add them to `gold`. Thirty questions
are a start, a hundred tell rungs apart. Then: mv {draft} {final}, and
agentloop eval run {folder} --rungs bm25,single_shot,agentic --out results
"""


def init(folder: Path, *, count: int, seed: int, force: bool) -> str:
    """Draft questions for the set in `folder`; returns what to do next.

    `folder` holds `corpus.jsonl`, or a `corpus/` folder of files.

    Raises:
        GoldenError: there is no corpus, or a draft is there already.
    """
    draft = folder / DRAFT
    if draft.exists() and not force:
        raise GoldenError(f"{draft} is there already; --force replaces it.")
    passages, lines = _corpus(folder)
    usable = [p for p in passages if len(p.text.strip()) >= MIN_CHARS] or passages
    chosen = _sample(usable, count, random.Random(seed))  # noqa: S311  # a sample, no secret
    rows = [_row(number, passage, lines) for number, passage in enumerate(chosen, 1)]
    draft.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return GUIDE.format(draft=draft, final=folder / "questions.jsonl", folder=folder)


def _corpus(folder: Path) -> tuple[list[Passage], bool]:
    """Passages of the corpus, and whether gold should name lines."""
    if (folder / "corpus.jsonl").is_file():
        items = [item for _, item in read_jsonl(folder / "corpus.jsonl")]
        return windows([Document(str(i["id"]), str(i.get("text", ""))) for i in items]), False
    if (folder / "corpus").is_dir():
        return windows(Material(Lane.FILES, folder / "corpus").documents()), True
    raise GoldenError(f"{folder} holds neither corpus.jsonl nor a folder corpus/: put your data there first.")


def _sample(passages: list[Passage], count: int, chance: random.Random) -> list[Passage]:
    """Passages of as many different documents as there are, in corpus order."""
    by_doc: dict[str, list[int]] = {}
    for at, passage in enumerate(passages):
        by_doc.setdefault(passage.doc, []).append(at)
    docs = list(by_doc)
    chance.shuffle(docs)
    chosen: list[int] = []
    while docs and len(chosen) < count:
        for doc in docs[: count - len(chosen)]:
            chosen.append(by_doc[doc].pop(chance.randrange(len(by_doc[doc]))))
        docs = [doc for doc in docs if by_doc[doc]]
    return [passages[at] for at in sorted(chosen)]


def _row(number: int, passage: Passage, lines: bool) -> dict[str, Any]:
    gold = f"{passage.doc}:{passage.first}-{passage.last}" if lines else passage.doc
    return {
        "id": f"q{number:03d}",
        "question": "",
        "gold": [gold],
        "lang": "en",
        "kind": KINDS[(number - 1) % len(KINDS)],
        "passage": passage.text.strip()[:EXCERPT_CHARS],
    }
