"""The corpus of one group, as files on disk (for the engine) and as documents (for plain rungs).

Records sets become one JSONL file a group; logs one file each; sets of files a folder, taken from
`--corpus NAME=DIR`, from `corpus/` or `corpora/PACKAGE` inside the set (a folder or an archive), or
from published wheels with `--fetch`.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentloop.reasons import unreadable
from eval.archives import ArchiveError, find_archive, unpack
from eval.exports import messages
from eval.golden import GoldenError, GoldenSet, Lane, Question

SELECTION = "corpus.toml"
MAX_PLAIN_FILE_BYTES = 2_000_000  # plain rungs leave larger files and binary ones out


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a plain rung. `timestamp` sorts by recency; empty where unknown."""

    doc: str
    text: str
    timestamp: str = ""


@dataclass(frozen=True, slots=True)
class Material:
    """A group's corpus. `path` is the engine's input; `single` is the document id of a lone file."""

    lane: Lane
    path: Path
    single: str = ""
    baseline: Path | None = None

    def missing(self, docs: tuple[str, ...]) -> tuple[str, ...]:
        """Those of `docs` that this corpus doesn't hold."""
        if self.lane is Lane.FILES:
            return tuple(doc for doc in docs if not (self.path / doc).is_file())
        if self.lane is Lane.LOGS:
            return tuple(doc for doc in docs if doc != self.single)
        if self.lane is Lane.EXPORT:
            known = frozenset(message["id"] for message in messages(self.path))
        else:
            known = _record_ids(self.path)
        return tuple(doc for doc in docs if doc not in known)

    def documents(self) -> list[Document]:
        """All text documents, in corpus order.

        Raises:
            GoldenError: the corpus can't be read.
        """
        if self.lane is Lane.RECORDS:
            with self.path.open(encoding="utf-8") as lines:
                return [_record(json.loads(line)) for line in lines]
        if self.lane is Lane.EXPORT:
            return [_record(message) for message in messages(self.path)]
        if self.lane is Lane.LOGS:
            return [Document(self.single, self.path.read_text(encoding="utf-8", errors="replace"))]
        return [d for path in _walk(self.path) if (d := _file(path, self.path)) is not None]


@dataclass(frozen=True, slots=True)
class MaterialOptions:
    """Where sets of files have their corpora, and how logs are varied."""

    corpora: Mapping[str, str]  # set name -> folder
    scratch: Path
    append_ordinary: int = 0
    with_baseline: bool = False


def prepare(golden: GoldenSet, question: Question, pooled: bool, options: MaterialOptions) -> Material:
    """The corpus for a question's group, written below `options.scratch` at most once.

    Raises:
        GoldenError: there is no corpus for it; the message says what to pass.
    """
    if golden.lane is Lane.FILES:
        return Material(Lane.FILES, _folder(golden, question, options))
    if golden.lane is Lane.EXPORT:
        return Material(Lane.EXPORT, golden.export_file)
    group = "" if pooled else question.group
    # enumerate groups: their names may hold separators, and must not become paths
    slot = "pooled" if pooled else str(golden.groups().index(question.group))
    place = options.scratch / golden.name / slot
    if golden.lane is Lane.LOGS:
        return _log(golden, question, place, options)
    target = place / "corpus.jsonl"
    if not target.exists():
        grouped = any(q.group for q in golden.questions) and not pooled
        items = golden.documents(group if grouped else None)
        _publish(target, "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items))
    return Material(Lane.RECORDS, target)


@lru_cache(maxsize=16)
def _record_ids(path: Path) -> frozenset[str]:
    with path.open(encoding="utf-8") as lines:
        return frozenset(str(json.loads(line)["id"]) for line in lines)


def _record(item: Mapping[str, Any]) -> Document:
    return Document(str(item["id"]), str(item["text"]), str(item.get("timestamp", "")))


def _file(path: Path, root: Path) -> Document | None:
    """A text file below `root`; None for a binary or very large one."""
    if path.stat().st_size > MAX_PLAIN_FILE_BYTES:
        return None
    data = path.read_bytes()
    if b"\0" in data[:8192]:
        return None
    return Document(path.relative_to(root).as_posix(), data.decode("utf-8", "replace"))


def _selection(golden: GoldenSet, target: Path) -> Path:
    """A copy of the files that `corpus.toml` selects: `root` (relative to the set), `include`, `exclude`."""
    if target.is_dir():
        return target
    chosen = tomllib.loads((golden.folder / SELECTION).read_text(encoding="utf-8"))
    root = (golden.folder / chosen["root"]).resolve()
    part = target.with_name(f".selected.{os.getpid()}")
    for name in chosen["include"]:
        for path in _walk(root / name) if (root / name).is_dir() else [root / name]:
            inside = path.relative_to(root)
            if any(inside.is_relative_to(left_out) for left_out in chosen.get("exclude", ())):
                continue
            (part / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, part / inside)
    try:
        part.rename(target)
    except OSError:  # another worker was faster
        shutil.rmtree(part, ignore_errors=True)
    return target


def _walk(root: Path) -> list[Path]:
    found = []
    for folder, names, files in os.walk(root):
        names[:] = sorted(n for n in names if n not in {".git", "__pycache__", "node_modules"})
        found += [Path(folder, name) for name in sorted(files)]
    return [path for path in sorted(found) if path.is_file() and not path.is_symlink()]


def _publish(target: Path, text: str) -> None:
    """Write by rename: worker processes prepare the same group at once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8", newline="")
    part.replace(target)


def _log(golden: GoldenSet, question: Question, place: Path, options: MaterialOptions) -> Material:
    name = str(question.extra["log"])
    target = place / Path(name).name
    if not target.exists():
        text = _log_text(golden, name)
        if options.append_ordinary:
            text = append_ordinary(text, question, options.append_ordinary)
        _publish(target, text)
    baseline = None
    if options.with_baseline and question.extra.get("pass_log"):
        baseline = place / "baseline" / Path(str(question.extra["pass_log"])).name
        if not baseline.exists():
            _publish(baseline, _pass_log(golden, str(question.extra["pass_log"])))
    return Material(Lane.LOGS, target, single=name, baseline=baseline)


def _log_text(golden: GoldenSet, name: str) -> str:
    inside = golden.folder / name
    if golden.corpus_file.is_file():
        for item in golden.documents():
            if item["id"] == name:
                return str(item["text"])
    elif inside.is_file() and inside.resolve().is_relative_to(golden.folder.resolve()):
        return inside.read_bytes().decode("utf-8", "surrogateescape")
    raise GoldenError(f"{golden.folder}: the log {name!r} is neither in corpus.jsonl nor a file of the set.")


def _pass_log(golden: GoldenSet, name: str) -> str:
    packed = golden.folder / "pass_logs.jsonl.gz"
    try:
        with gzip.open(packed, "rt", encoding="utf-8") as lines:
            for line in lines:
                item = json.loads(line)
                if item["id"] == name:
                    return str(item["text"])
    except OSError as exc:
        raise GoldenError(f"{packed}: {unreadable(exc)}.") from None
    raise GoldenError(f"{packed}: no passing log {name!r}.")


def sessions(golden: GoldenSet) -> dict[str, str]:
    """The session (thread, conversation) of each document, where the corpus names one."""
    if golden.lane is Lane.EXPORT:
        return {message["id"]: message["session"] for message in messages(golden.export_file)}
    if golden.lane is not Lane.RECORDS:
        return {}
    return {str(item["id"]): str(item["session"]) for item in golden.documents() if item.get("session")}


def append_ordinary(text: str, question: Question, count: int) -> str:
    """`text` with `count` lines of its own beginning after its end, repeated where it has fewer.

    Lines that are gold stay out; so a reader that only looks at the end of a log is blind.
    """
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    gold = {n for span in question.lines for n in range(span.first, span.last + 1)}
    ordinary = [line for number, line in enumerate(lines, 1) if number not in gold][:count]
    if not ordinary:
        raise GoldenError(f"{question.qid}: every line is gold, so there is nothing ordinary to append.")
    repeated = [ordinary[i % len(ordinary)] for i in range(count)]
    return "\n".join(lines + repeated) + "\n"


def _folder(golden: GoldenSet, question: Question, options: MaterialOptions) -> Path:
    """The folder of a set of files: named by option, or inside the set."""
    package = question.group
    version = str(question.extra.get("version", ""))
    if (golden.folder / SELECTION).is_file() and golden.name not in options.corpora:
        return _selection(golden, options.scratch / golden.name / "selected")
    places = [Path(options.corpora[golden.name])] if golden.name in options.corpora else []
    places += [golden.folder / "corpora", golden.folder / "corpus"]
    names = [f"{package}-{version}", package] if package else []
    for place in places:
        for name in names:
            if (place / name).is_dir():
                return place / name
        found = find_archive(place, names) if names else find_archive(place.parent, [place.name])
        if found is not None:
            target = options.scratch / golden.name / "unpacked" / found.name
            try:
                return unpack(found, target)
            except ArchiveError as exc:
                raise GoldenError(str(exc)) from None
        if place.is_dir() and not names:
            return place
    wanted = f"{package} {version}".strip() or "its files"
    raise GoldenError(
        f"{golden.name}: no corpus for {wanted}. Pass --corpus {golden.name}=DIR, put it in "
        f"{golden.folder.name}/corpora/, or use --fetch to download the published package."
    )
