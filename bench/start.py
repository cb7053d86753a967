"""Start-up: wall seconds of `agentloop --help` and of other commands that do no work.

    python bench/start.py [--runs 10] [--json FILE]

Wanted: a median of at most 0.3 s for `--help`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = (("--help",), ("--version",), ("compress", "--help"), ("eval", "--help"))
HEAVY = (
    "openai",
    "aiohttp",
    "mcp",
    "tree_sitter",
    "matplotlib",
    "dulwich",
    "detect_secrets",
    "rich",
    "numpy",
)


def seconds(arguments: tuple[str, ...]) -> float:
    """Wall seconds of one run of the command in a fresh process."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "broker.cli", *arguments]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def heavy_imports() -> list[str]:
    """Heavy packages that `--help` imports; there should be none."""
    probe = "import sys, broker.cli as c; c.build_parser(); print([m for m in %r if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", probe % (HEAVY,)], capture_output=True, text=True, check=True
    )
    found: list[str] = json.loads(done.stdout.replace("'", '"'))
    return found


def main() -> None:
    """Print a table, and write the figures as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    floor = statistics.median(_bare() for _ in range(args.runs))
    rows = {"python -c pass": floor}
    for command in COMMANDS:
        rows[f"agentloop {' '.join(command)}"] = statistics.median(seconds(command) for _ in range(args.runs))
    print(f"{'command':<28} median seconds")
    for name, value in rows.items():
        print(f"{name:<28} {value:14.3f}")
    heavy = heavy_imports()
    print(f"heavy imports of --help: {', '.join(heavy) or 'none'}")
    if args.json:
        args.json.write_text(json.dumps({"seconds": rows, "heavy": heavy}, indent=1) + "\n")


def _bare() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
