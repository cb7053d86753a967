"""Golden sets: questions with known gold, and the corpus that they ask about.

A set is a folder with `questions.jsonl` (`{"id", "question", "gold": [...], "lang"?, "kind"?, "group"?}`)
and, for documents and conversations, `corpus.jsonl` (`{"id", "text", "group"?, ...}`). Gold entries are
corpus ids, paths, or `path:first-last` (1-based lines, inclusive). `docs/eval.md` is the full format.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from agentloop.reasons import unreadable

LINES = re.compile(r"(?P<path>.+):(?P<first>\d+)-(?P<last>\d+)", re.DOTALL)
UNANSWERABLE_KINDS = frozenset({"adversarial", "unanswerable"})


class GoldenError(Exception):
    """A golden set that can't be read; the message names the file and line."""


class Lane(StrEnum):
    """How a set's corpus reaches a rung."""

    RECORDS = "records"  # corpus.jsonl, one record a document
    EXPORT = "export"  # conversations.json, one message a document
    FILES = "files"  # folders or archives, one file a document
    LOGS = "logs"  # one log a question, gold in its lines


@dataclass(frozen=True, slots=True)
class LineSpan:
    """Lines `first..last` (1-based, inclusive) of a document."""

    doc: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `docs` are the distinct gold documents, `lines` their gold lines where given."""

    qid: str
    text: str
    docs: tuple[str, ...]
    lines: tuple[LineSpan, ...] = ()
    group: str = ""
    kind: str = ""
    lang: str = "en"
    headline: bool = True  # False: unanswerable, reported apart
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """A loaded set. `digest` is the sha256 of its question and corpus files."""

    name: str
    folder: Path
    lane: Lane
    questions: tuple[Question, ...]
    digest: str

    @property
    def corpus_file(self) -> Path:
        """The documents of a records or log set."""
        return self.folder / "corpus.jsonl"

    def documents(self, group: str | None = None) -> Iterator[dict[str, Any]]:
        """Corpus items in file order; with `group`, those of that group."""
        for _, item in read_jsonl(self.corpus_file):
            if group is None or str(item.get("group", "")) == group:
                yield item

    @property
    def export_file(self) -> Path:
        """The conversations of an export set."""
        return self.folder / "conversations.json"

    def groups(self) -> tuple[str, ...]:
        """The groups of the questions, in order of first appearance."""
        return tuple(dict.fromkeys(q.group for q in self.questions))


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of each line that isn't blank.

    Raises:
        GoldenError: the file is missing, or a line is no JSON object.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, _object(line, f"{path}:{number}")
    except OSError as exc:
        raise GoldenError(f"{path}: {unreadable(exc)}.") from None


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except json.JSONDecodeError as exc:
        raise GoldenError(f"{where}: not JSON: {exc.msg} at column {exc.colno}.") from None
    except (UnicodeDecodeError, RecursionError) as exc:
        raise GoldenError(f"{where}: {unreadable(exc)}.") from None
    if not isinstance(value, dict):
        raise GoldenError(f"{where}: expected a JSON object.")
    return value


def load(folder: Path) -> GoldenSet:
    """Read a set's questions; the corpus stays on disk.

    Raises:
        GoldenError: a file is missing or malformed, an id is used twice, or a question has no text.
    """
    questions_file = folder / "questions.jsonl"
    rows = list(read_jsonl(questions_file))
    if not rows:
        raise GoldenError(f"{questions_file}: no questions.")
    lane = _lane(folder, [row for _, row in rows])
    if lane is Lane.RECORDS:
        _check_corpus(folder / "corpus.jsonl")
    questions = [_question(row, f"{questions_file}:{number}", lane) for number, row in rows]
    seen: set[str] = set()
    for question, (number, _) in zip(questions, rows, strict=True):
        if question.qid in seen:
            raise GoldenError(f"{questions_file}:{number}: the id {question.qid!r} is used twice.")
        seen.add(question.qid)
    return GoldenSet(folder.resolve().name, folder, lane, tuple(questions), _digest(folder))


def _lane(folder: Path, rows: list[dict[str, Any]]) -> Lane:
    if all("log" in row for row in rows):
        return Lane.LOGS
    if (folder / "conversations.json").is_file():
        return Lane.EXPORT
    return Lane.RECORDS if (folder / "corpus.jsonl").is_file() else Lane.FILES


def _check_corpus(corpus: Path) -> None:
    ids: set[str] = set()
    for number, item in read_jsonl(corpus):
        if not isinstance(item.get("id"), str) or not isinstance(item.get("text"), str):
            raise GoldenError(f"{corpus}:{number}: a corpus item needs an `id` and a `text`.")
        if item["id"] in ids:
            raise GoldenError(f"{corpus}:{number}: the id {item['id']!r} is used twice.")
        ids.add(item["id"])


def _question(row: dict[str, Any], where: str, lane: Lane) -> Question:
    qid, text, gold = row.get("id"), row.get("question"), row.get("gold")
    if not isinstance(qid, str) or not qid or not isinstance(text, str) or not text.strip():
        raise GoldenError(f"{where}: a question needs an `id` and a `question`.")
    if not isinstance(gold, list) or not all(isinstance(entry, str) for entry in gold):
        raise GoldenError(f"{where}: `gold` is a list of ids, paths or `path:first-last`.")
    docs: dict[str, None] = {}
    lines: list[LineSpan] = []
    for entry in gold:
        # a corpus id may itself look like `x:1-2`, so only sets of files have line gold
        match = LINES.fullmatch(entry) if lane in {Lane.FILES, Lane.LOGS} else None
        if match:
            span = LineSpan(match["path"], int(match["first"]), int(match["last"]))
            if not 1 <= span.first <= span.last:
                raise GoldenError(f"{where}: the lines of {entry!r} are not 1-based and in order.")
            lines.append(span)
        docs[match["path"] if match else entry] = None
    kind = str(row.get("kind", ""))
    group = row.get("group")
    if lane is Lane.FILES:
        group = row.get("package") or row.get("repo") or group
    if lane is Lane.LOGS:
        group = row["log"]
    known = {"id", "question", "gold", "kind", "lang"}
    return Question(
        qid=qid,
        text=text,
        docs=tuple(docs),
        lines=tuple(lines),
        group=str(group or ""),
        kind=kind,
        lang=str(row.get("lang", "en")),
        headline=kind not in UNANSWERABLE_KINDS,
        extra={key: value for key, value in row.items() if key not in known},
    )


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for name in ("questions.jsonl", "corpus.jsonl", "conversations.json"):
        path = folder / name
        if path.is_file():
            with path.open("rb") as data:
                while block := data.read(1 << 20):
                    digest.update(block)
    return f"sha256:{digest.hexdigest()}"
