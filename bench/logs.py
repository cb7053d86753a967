"""Labelled lines of failed CI logs that `summarize_logs` covers, beside `tail`, and the speed on a big log.

    python bench/logs.py quality GOLDEN/cidiff [--half even|odd] [--detail]
    python bench/logs.py speed LOG
    python bench/logs.py whole [--megabytes 1000] [--log LOG]

`whole` runs `agentloop compress --task summarize_logs` on a log of that size, made for it and deleted
afterwards, and tells processor seconds and peak memory of the command and all its children.
`quality` reads `questions.jsonl`, `corpus.jsonl` and `pass_logs.jsonl.gz` of a golden set. Coverage of a log
is the share of its labelled lines among the first N distinct lines that the evidence references, in order;
precision is the share of those lines that are labelled. Both are means over the logs. The evidence is that of
the pack that the whole pipeline releases within `--budget` tokens. In the noise lanes, 400 ordinary lines of
a log's own beginning stand after it; in the twin lanes its passing twin is the baseline.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentloop import compress_sync
from agentloop.api import make_request
from agentloop.budget import Ledger
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.logs.analysis import analyse
from agentloop.logs.segment import segment
from agentloop.request import Classification, TaskType
from agentloop.types import FileKind, SourceFile

NOISE_LINES = 400


@dataclass(frozen=True)
class Labelled:
    """A failed log with its labelled lines and its passing twin."""

    name: str
    question: str
    text: str
    gold: frozenset[int]
    passing: str


def load(golden: Path) -> list[Labelled]:
    """The logs of a golden set, in its order."""
    texts = {row["id"]: row["text"] for row in _rows((golden / "corpus.jsonl").read_text("utf-8"))}
    twins = {
        row["id"]: row["text"]
        for row in _rows(gzip.decompress((golden / "pass_logs.jsonl.gz").read_bytes()).decode())
    }
    logs = []
    for row in _rows((golden / "questions.jsonl").read_text("utf-8")):
        ranges = [entry.rsplit(":", 1)[1].split("-") for entry in row["gold"]]
        gold = frozenset(n for a, b in ranges for n in range(int(a), int(b) + 1))
        logs.append(
            Labelled(row["group"], row["question"], texts[row["log"]], gold, twins.get(row["pass_log"], ""))
        )
    return logs


def _rows(text: str) -> Iterator[dict]:
    return (json.loads(line) for line in text.split("\n") if line.strip())


def with_noise(log: Labelled) -> Labelled:
    """The log with ordinary lines of its own beginning, before any labelled line, appended."""
    lines = log.text.split("\n")
    ordinary = lines[: min(log.gold) - 1] or lines
    noise = list(itertools.islice(itertools.cycle(ordinary), NOISE_LINES))
    return Labelled(log.name, log.question, "\n".join([*lines, *noise]), log.gold, log.passing)


def evidence(log: Labelled, *, baseline: bool, budget: int) -> list[list[tuple[int, int]]]:
    """The line ranges that each item of a released pack of at most `budget` tokens references, in order."""
    with tempfile.TemporaryDirectory() as folder:
        failing, passing = Path(folder) / "fail.log", Path(folder) / "pass.log"
        failing.write_text(log.text, "utf-8", newline="")
        passing.write_text(log.passing, "utf-8", newline="")
        request = make_request(
            log.question,
            [failing],
            task=TaskType.SUMMARIZE_LOGS,
            baselines=[passing] if baseline else [],
            constraints={"final_evidence_pack_budget": budget},
        )
        pack = compress_sync(request).released
    assert pack["payload"]["budget"]["final_pack_tokens"] <= budget
    return [
        [(ref["line_start"], ref["line_end"]) for ref in item["source_refs"] if ref["path"] == "fail.log"]
        for item in pack["payload"]["evidence"]
    ]


def referenced(items: list[list[tuple[int, int]]], limit: int) -> list[int]:
    """The first `limit` distinct lines in order of the evidence."""
    seen: dict[int, None] = {}
    for first, last in itertools.chain.from_iterable(items):
        for line in range(first, last + 1):
            if len(seen) < limit:
                seen[line] = None
    return list(seen)


def mean(values: list[float]) -> float:
    """The mean, 0 of nothing."""
    return sum(values) / max(1, len(values))


def report(logs: list[Labelled], title: str, *, baseline: bool, budget: int, detail: bool) -> None:
    """Print coverage and precision of the evidence and of `tail`."""
    ours: dict[int, list[tuple[float, float]]] = {60: [], 200: []}
    tails: dict[int, list[tuple[float, float]]] = {60: [], 200: []}
    first: list[float] = []
    for log in logs:
        items = evidence(log, baseline=baseline, budget=budget)
        top = set(referenced(items[:1], 400))
        first.append(float(bool(top & log.gold)))
        count = log.text.count("\n") + (not log.text.endswith("\n"))
        for limit in (60, 200):
            lines = referenced(items, limit)
            tail = range(max(1, count - limit + 1), count + 1)
            for into, found in ((ours, set(lines)), (tails, set(tail))):
                hit = len(found & log.gold)
                into[limit].append((hit / len(log.gold), hit / max(1, len(found))))
        if detail:
            (c60, p60), (c200, _) = ours[60][-1], ours[200][-1]
            best = min(1.0, 60 / len(log.gold))
            print(
                f"  {log.name:32s} cov60 {c60:.2f}/{best:.2f} prec60 {p60:.2f} cov200 {c200:.2f}"
                f" first {first[-1]:.0f} items {len(items)}"
            )
    for name, rows in (("evidence", ours), ("tail", tails)):
        told = "  ".join(
            f"@{limit}: coverage {mean([c for c, _ in rows[limit]]):.3f}"
            f" precision {mean([p for _, p in rows[limit]]):.3f}"
            for limit in (60, 200)
        )
        extra = f"  labelled line in the first item {mean(first):.2f}" if name == "evidence" else ""
        print(f"{title:14s} n={len(logs):2d} {name:9s}{told}{extra}")


def quality(args: argparse.Namespace) -> None:
    """All lanes over a golden set."""
    logs = load(args.golden)
    if args.half != "all":
        logs = logs[int(args.half == "odd") :: 2]
    noisy = [with_noise(log) for log in logs]
    options = {"budget": args.budget, "detail": args.detail}
    report(logs, "plain", baseline=False, **options)
    report(noisy, "noise", baseline=False, **options)
    report(logs, "twin", baseline=True, **options)
    report(noisy, "noise+twin", baseline=True, **options)


def speed(args: argparse.Namespace) -> None:
    """Seconds and peak memory to segment and to analyse one log from disk."""

    class OnDisk:
        def __init__(self, path: Path) -> None:
            self.file, self.size = path.open("rb"), path.stat().st_size

        def read(self, start: int, end: int) -> bytes:
            self.file.seek(start)
            return self.file.read(end - start)

    content = OnDisk(args.log)
    file = SourceFile(
        0, "in1", args.log.name, FileKind.LOG, "", "text/plain", content.size, "sha256:" + "0" * 64,
        Classification.INTERNAL, content,
    )  # fmt: skip
    for name, work in (
        ("segment", lambda: segment(file, Ledger(SystemClock()), Caps())),
        ("analyse", lambda: analyse(file).lines),
    ):
        started, began = time.perf_counter(), time.process_time()
        made = len(work())
        wall, spent = time.perf_counter() - started, time.process_time() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        megabytes = content.size / 1e6
        print(
            f"{name}: {megabytes:.0f} MB in {spent:.1f} s of one core ({wall:.1f} s wall),"
            f" {megabytes / spent:.0f} MB/s, {made} kept, peak {peak:.0f} MB"
        )


FAULT = (
    "{stamp} ERROR store.segment - checksum mismatch in ledger segment 0042, refusing to serve\n"
    "Traceback (most recent call last):\n"
    '  File "/srv/app/store/segment.py", line 88, in load\n    verify(block)\n'
    "ChecksumError: segment 0042 is damaged\n"
)
ECHO = "{stamp} ERROR gateway - upstream answered 503, request {token} dropped\n"
LINES = (
    "{stamp} INFO gateway - {token} GET /api/v1/orders/{number} 200 in {small} ms\n",
    "{stamp} INFO worker-{small} - picked job {token} from queue invoices, {number} bytes\n",
    "{stamp} DEBUG cache - hit {token} age={small} size={number}\n",
    "{stamp} WARN pool - {small} of 64 connections in use, oldest {number} ms, client 10.1.{small}.7\n",
    "{stamp} INFO scheduler - shard {small} moved to node-{small} epoch {number} ticket {token}\n",
)


DAYS = 16  # the log is so many days long, each with tokens of its own


def write_log(path: Path, size: int, seed: int = 7) -> int:
    """A service's log of about `size` bytes: the fault after two thirds, then echoes. Returns its line.

    One day is made and written for each day with its own date and its own beginning of every token.
    """
    rng = random.Random(seed)
    day: list[str] = []
    made = 0
    while made < size // DAYS:
        second = len(day) // 200
        stamp = f"2024-05-\x01 {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        values = {"number": rng.randrange(10**6), "small": rng.randrange(64)}
        form = LINES[rng.randrange(len(LINES))] if rng.random() > 0.05 else ECHO
        day.append(form.format(stamp=stamp, token=f"\x02{rng.getrandbits(56):014x}", **values))
        made += len(day[-1])
    calm = "".join(line for line in day if "ERROR" not in line)
    written = fault = 0
    with path.open("w", encoding="utf-8") as out:
        for number in range(DAYS):
            if number == DAYS * 2 // 3:
                fault = written + 1
                out.write(FAULT.format(stamp=f"2024-05-{number + 1:02d} 00:00:00"))
                written += FAULT.count("\n")
            text = "".join(day) if fault else calm
            out.write(text.replace("\x01", f"{number + 1:02d}").replace("\x02", f"{number:02x}"))
            written += text.count("\n")
    return fault


RUN = "import sys; from broker.cli import main; sys.exit(main())"


def whole(args: argparse.Namespace) -> None:
    """Processor seconds and peak memory of the command on one log."""
    with tempfile.TemporaryDirectory(prefix="agentloop-bench-") as folder:
        path, fault = args.log, 0
        if path is None:
            path = Path(folder) / "service.log"
            fault = write_log(path, args.megabytes * 1_000_000)
        command = [sys.executable, "-c", RUN, "compress", "What is the root failure?", str(path)]
        command += ["--task", "summarize_logs", "--format", "json", "--output", f"{folder}/pack.json"]
        started = time.perf_counter()
        child = subprocess.Popen(command, env={**os.environ, "AGENTLOOP_CACHE": "off"})
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - started
        megabytes = path.stat().st_size / 1e6
        first = json.loads(Path(folder, "pack.json").read_bytes())["payload"]["evidence"][0]
        ref = first["source_refs"][0]
        print(f"{megabytes:.0f} MB: {used.ru_utime + used.ru_stime:.1f} s of processor time, {wall:.1f} s, "
              f"peak {used.ru_maxrss / 1024:.0f} MB, exit {child.returncode}")  # fmt: skip
        print(
            f"first: {first['kind']} at line {ref['line_start']}"
            + (f", the fault's is {fault}" if fault else "")
        )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    scored = commands.add_parser("quality")
    scored.add_argument("golden", type=Path)
    scored.add_argument("--half", choices=("all", "even", "odd"), default="all")
    scored.add_argument("--budget", type=int, default=2000)
    scored.add_argument("--detail", action="store_true")
    scored.set_defaults(run=quality)
    timed = commands.add_parser("speed")
    timed.add_argument("log", type=Path)
    timed.set_defaults(run=speed)
    run = commands.add_parser("whole")
    run.add_argument("--megabytes", type=int, default=1000)
    run.add_argument("--log", type=Path)
    run.set_defaults(run=whole)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    sys.exit(main())
