"""Run the units: in this process, or in several; keep each answer at once; go on where a run stopped."""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

from agentloop.request import TaskType
from eval.answers import Answer, answer_from_json
from eval.golden import GoldenError, GoldenSet, Lane, Question, load
from eval.material import Material, MaterialOptions, prepare
from eval.plan import RunConfig, Unit, Variant, identity, units
from eval.rungs.build import Rung, build
from eval.rungs.options import EngineOptions, RungOptions

RUN_FILE = "run.json"
KEPT_RUNGS = 3  # indexes that a worker holds at once


class RunRefused(Exception):
    """`--out` holds results that this run must not touch; the message says which flag would."""


def open_run(config: RunConfig, sets: list[Variant], *, resume: bool, force: bool) -> None:
    """Claim `--out` for this run.

    Raises:
        RunRefused: it holds another run, or this one without `--resume` or `--force`.
    """
    ours = identity(config, sets)
    marker = config.out / RUN_FILE
    if force:
        _clear(config.out)
    elif marker.exists():
        try:
            theirs = json.loads(marker.read_text(encoding="utf-8"))
        except ValueError:
            theirs = {}
        changed = sorted(key for key in ours if ours[key] != theirs.get(key))
        if changed:
            raise RunRefused(
                f"{config.out} holds another run (different: {', '.join(changed)}). "
                "Choose another --out, or --force to replace it."
            )
        if not resume:
            raise RunRefused(f"{config.out} holds this run already. Use --resume, or --force to start again.")
    elif any(config.out.glob("*.trec")) or (config.out / "results.json").exists():
        raise RunRefused(f"{config.out} holds results of unknown origin. Use another --out, or --force.")
    config.out.mkdir(parents=True, exist_ok=True)
    marker.write_text(json.dumps(ours, indent=1) + "\n", encoding="utf-8")


def _clear(out: Path) -> None:
    """Remove what a run writes, and nothing else."""
    patterns = ("*.trec", "*.items.jsonl", "*.answers.jsonl", "*.png", "results.json", "report.md", RUN_FILE)
    for pattern in patterns:
        for path in out.rglob(pattern):
            path.unlink()


def kept_answers(folder: Path, rung: str) -> dict[str, Answer]:
    """Answers that are on disk; a line that was cut off by a crash is left out."""
    path = folder / f"{rung}.answers.jsonl"
    found: dict[str, Answer] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                answer = answer_from_json(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue
            found[answer.qid] = answer
    return found


Answers = dict[Path, dict[str, dict[str, Answer]]]
"""By variant folder, rung and question."""


def execute(config: RunConfig, sets: list[Variant], say: Callable[[str], None]) -> Answers:
    """Answer every question with every rung.

    Answers with an error are asked again on `--resume`.

    Raises:
        GoldenError: a worker died; what was answered is kept.
    """
    found: Answers = {}
    work: list[Unit] = []
    for variant in sets:
        for rung in config.rungs:
            kept = kept_answers(variant.folder, rung)
            good = {qid: answer for qid, answer in kept.items() if not answer.error}
            found.setdefault(variant.folder, {})[rung] = good
            if rung == "tail" and variant.golden.lane is not Lane.LOGS:
                continue
            work += units(variant, rung, set(good))
    total, done = sum(len(unit.qids) for unit in work), 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agentloop-eval-") as scratch:
        for unit, answers in _work(config, work, Path(scratch)):
            _keep(unit, answers)
            found[unit.folder][unit.rung].update({answer.qid: answer for answer in answers})
            done += len(answers)
            left = (time.monotonic() - started) / done * (total - done)
            failed = sum(bool(answer.error) for answer in answers)
            why = next((answer.error for answer in answers if answer.error), "")
            told = f", {failed} could not be answered ({why})" if failed else ""
            say(f"{done}/{total} {unit.golden.name} {unit.rung}{told}, about {left:.0f} s left")
    everything = [answer for rungs in found.values() for kept in rungs.values() for answer in kept.values()]
    if everything and all(answer.error for answer in everything):
        raise GoldenError(f"no question could be answered: {everything[0].error}")
    return found


def _keep(unit: Unit, answers: list[Answer]) -> None:
    unit.folder.mkdir(parents=True, exist_ok=True)
    with (unit.folder / f"{unit.rung}.answers.jsonl").open("a", encoding="utf-8") as kept:
        for answer in answers:
            kept.write(json.dumps(answer.to_json(), ensure_ascii=True) + "\n")


def _work(config: RunConfig, work: list[Unit], scratch: Path) -> Iterator[tuple[Unit, list[Answer]]]:
    if config.jobs <= 1 or len(work) <= 1:
        worker = Worker(config, scratch)
        for unit in work:
            yield unit, worker.answer(unit)
        return
    # spawn: a forked child would inherit the threads of tantivy and OpenBLAS in any state
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(config.jobs, context, _start, (config, scratch))
    try:
        running: dict[Future[list[Answer]], Unit] = {pool.submit(_answer, unit): unit for unit in work}
        for future in as_completed(running):
            yield running[future], future.result()
    except BrokenProcessPool:
        raise GoldenError("a worker process died (out of memory?); --resume goes on.") from None
    finally:
        # after an interruption nothing that waits is begun any more
        pool.shutdown(wait=True, cancel_futures=True)


class Worker:
    """Holds the sets and indexes of one process."""

    def __init__(self, config: RunConfig, scratch: Path) -> None:
        self.config, self.scratch = config, scratch
        self.sets: dict[Path, GoldenSet] = {}
        self.rungs: dict[tuple[Path, bool, str, str], tuple[Rung, Material]] = {}

    def answer(self, unit: Unit) -> list[Answer]:
        """Answers to a unit's questions; one that fails carries its reason."""
        if unit.golden not in self.sets:
            self.sets[unit.golden] = load(unit.golden)
        golden = self.sets[unit.golden]
        questions = {q.qid: q for q in golden.questions}
        return [self._ask(golden, unit, questions[qid]) for qid in unit.qids]

    def _ask(self, golden: GoldenSet, unit: Unit, question: Question) -> Answer:
        try:
            rung, material = self._rung(golden, unit, question)
            missing = material.missing(question.docs)
            if missing and len(missing) == len(question.docs):
                return Answer(question.qid, error=f"the gold {missing[0]} is not in the corpus")
            started = time.monotonic()
            answer = rung.ask(question)
            return answer if answer.seconds else replace(answer, seconds=time.monotonic() - started)
        except GoldenError as exc:
            return Answer(question.qid, error=str(exc))
        except Exception as exc:  # noqa: BLE001  # the boundary of a rung: the run goes on, counted apart
            return Answer(question.qid, error=f"{type(exc).__name__}: {exc}")

    def _rung(self, golden: GoldenSet, unit: Unit, question: Question) -> tuple[Rung, Material]:
        key = (unit.golden, unit.pooled, "" if unit.pooled else question.group, unit.rung)
        if key not in self.rungs:
            material = prepare(golden, question, unit.pooled, self._material_options())
            while len(self.rungs) >= KEPT_RUNGS:
                del self.rungs[next(iter(self.rungs))]
            self.rungs[key] = build(unit.rung, material, self._rung_options()), material
        return self.rungs[key]

    def _material_options(self) -> MaterialOptions:
        config = self.config
        return MaterialOptions(config.corpora, self.scratch, config.append_ordinary, config.with_baseline)

    def _rung_options(self) -> RungOptions:
        config = self.config
        record = config.record
        if record is None and config.model not in {None, "builtin"}:
            record = self.scratch / "exchanges"
            record.mkdir(exist_ok=True)
        engine = EngineOptions(
            budgets=config.budgets,
            task=TaskType(config.task) if config.task else None,
            max_tool_calls=config.max_tool_calls,
            model=config.model,
            record=record,
            replay=config.replay,
            price=config.price,
            embeddings_profile=config.embeddings_profile,
            rerank_profile=config.rerank_profile,
        )
        return RungOptions(engine, config.embeddings, config.vectors)


_WORKER: list[Worker] = []


def _start(config: RunConfig, scratch: Path) -> None:
    _WORKER.append(Worker(replace(config, jobs=1), scratch))


def _answer(unit: Unit) -> list[Answer]:
    return _WORKER[0].answer(unit)


class Progress:
    """Progress on stderr: rewritten in place on a terminal, else a line every few seconds."""

    def __init__(self, seconds: float = 5.0) -> None:
        self.seconds = seconds
        self.last = -seconds

    def __call__(self, line: str) -> None:
        """Show `line`, unless the last one was a moment ago."""
        terminal, now = sys.stderr.isatty(), time.monotonic()
        if terminal or now - self.last >= self.seconds:
            self.last = now
            sys.stderr.write(f"eval: {line[:150]:<100}\r" if terminal else f"eval: {line}\n")
            sys.stderr.flush()
