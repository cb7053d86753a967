"""A cold `agentloop compress` on a whole source tree, against the floor of reading, hashing and indexing it.

    python bench/cold.py [TREE] [--question TEXT] [--runs 3] [--json FILE]

TREE is a folder or a `.tar.gz`, by default Python's own library; the figures of docs/benchmarks.md are for
the sdist of Django 5.1.4 (`pip download django==5.1.4 --no-deps --no-binary :all:`).

Each run starts fresh processes with the cache off: first the floor (read every file, sha256, plain tantivy
over windows of its text) without and with catalogues of translations, which the product indexes too, then
`single_shot`, then `agentic` with the built-in planner. On a busy machine compare processor seconds. Wanted:
single shot at most four times the floor, peak memory at most 600 MB, agentic at most 0.5 s more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

QUESTION = "How does select_for_update handle of= arguments?"
CATALOGUES = {".po", ".mo"}  # translations: neither code nor prose
WINDOW_CHARS = 1600


@dataclass(frozen=True)
class Run:
    """One process with its children: wall and processor seconds, peak resident memory in MB."""

    seconds: float
    cpu: float
    megabytes: float


def floor(root: Path, skipped: set[str]) -> None:
    """Read and hash every file; index windows of what is text with tantivy's default tokenizer.

    `skipped` are suffixes of files that are not indexed.
    """
    import hashlib

    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=False)
    index = tantivy.Index(builder.build())
    writer = index.writer(128_000_000)
    for folder, names, files in os.walk(root):
        names.sort()
        for name in sorted(files):
            data = Path(folder, name).read_bytes()
            hashlib.sha256(data).digest()
            if b"\0" in data[:8192] or Path(name).suffix in skipped:
                continue
            text = data.decode("utf-8", "replace")
            for start in range(0, len(text), WINDOW_CHARS):
                writer.add_document(tantivy.Document(text=text[start : start + WINDOW_CHARS]))
    writer.commit()
    index.reload()
    index.searcher().search(index.parse_query("select update", ["text"]), 10)


def timed(command: list[str]) -> Run:
    """Run a command to its end; raises where it fails."""
    environment = {**os.environ, "AGENTLOOP_CACHE": "off"}
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}")
    return Run(time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def compress(root: Path, question: str, mode: str) -> list[str]:
    """The command line of one request."""
    python = [sys.executable, "-m", "broker.cli"]
    return [*python, "compress", question, str(root), "--mode", mode, "--format", "json"]


def measure(root: Path, question: str, runs: int) -> dict[str, list[Run]]:
    """All commands, `runs` times in turn, so that a busy moment hits all alike."""
    commands = {
        "floor": [sys.executable, __file__, "--floor", str(root)],
        "with .po": [sys.executable, __file__, "--floor", "--catalogues", str(root)],
        "single_shot": compress(root, question, "single_shot"),
        "agentic": compress(root, question, "agentic"),
    }
    found: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            found[name].append(timed(command))
    return found


def main() -> None:
    """Print a table, and write the figures as JSON where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    stdlib = Path(sysconfig.get_path("stdlib"))
    parser.add_argument("tree", type=Path, metavar="TREE", nargs="?", default=stdlib)
    parser.add_argument("--question", default=QUESTION)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--floor", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--catalogues", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.floor:
        floor(args.tree, set() if args.catalogues else CATALOGUES)
        return
    with tempfile.TemporaryDirectory() as scratch:
        root = args.tree
        if root.is_file():
            with tarfile.open(root) as archive:
                archive.extractall(scratch, filter="data")
            root = next(p for p in Path(scratch).iterdir() if p.is_dir())
        files = sum(len(names) for _, _, names in os.walk(root))
        found = measure(root, args.question, args.runs)
    least = {name: min(run.seconds for run in runs) for name, runs in found.items()}
    print(f"{files} files; {args.runs} runs; wall and processor seconds, peak memory of the process")
    print(f"{'':<12} {'best':>7} {'median':>7} {'x floor':>8} {'cpu':>7} {'x floor':>8} {'MB':>6}")
    for name, runs in found.items():
        median = statistics.median(run.seconds for run in runs)
        peak = max(run.megabytes for run in runs)
        cpu, cpu_floor = (min(run.cpu for run in found[n]) for n in (name, "floor"))
        wall = f"{least[name]:7.2f} {median:7.2f} {least[name] / least['floor']:8.2f}"
        print(f"{name:<12} {wall} {cpu:7.2f} {cpu / cpu_floor:8.2f} {peak:6.0f}")
    extra = least["agentic"] - least["single_shot"]
    print(f"agentic adds {extra:+.2f} s")
    if args.json:
        rows = {name: [asdict(run) for run in runs] for name, runs in found.items()}
        args.json.write_text(json.dumps({"files": files, "runs": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
