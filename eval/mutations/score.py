"""Score cases: `python -m eval.mutations.score CASE… [--history]`; a CASE is a folder, or one of such.

Each case is one request of `debug_with_local_context` with the test log and the repository, and nothing
else. It counts when `details.likely_causes` names the mutated function, by file and qualified name. With
`--history` the repository is the one whose last commit brought the fault.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentloop import compress_sync, make_request
from agentloop.request import TaskType

QUESTION = "Why does the test run fail?"
Z95 = 1.959964  # two-sided 95 % of the normal distribution


@dataclass(frozen=True, slots=True)
class Scored:
    """One case: the rank of the mutated function among the causes, 0 when it is not named."""

    id: str
    package: str
    function: str
    kind: str
    rank: int
    first: str
    seconds: float


def main(argv: list[str] | None = None) -> int:
    """Score the cases; prints a line for each and the shares with 95 % Wilson intervals."""
    parser = argparse.ArgumentParser(prog="python -m eval.mutations.score", description=__doc__)
    parser.add_argument("cases", type=Path, nargs="+", metavar="CASE")
    parser.add_argument("--history", action="store_true", help="with the fault's commit in the history")
    args = parser.parse_args(argv)
    scored = []
    for folder in _folders(args.cases):
        one = score(folder, history=args.history)
        scored.append(one)
        sys.stdout.write(
            f"{one.id:24} rank {one.rank}  {one.seconds:5.1f} s  {one.kind:10} {one.function}"
            f"{'' if one.rank == 1 else '  (first: ' + one.first + ')'}\n"
        )
        sys.stdout.flush()
    if not scored:
        sys.stderr.write("No case.json in the folders given.\n")
        return 2
    sys.stdout.write("\n".join(table(scored)) + "\n")
    return 0


def score(folder: Path, *, history: bool = False) -> Scored:
    """Ask for the causes of a case's failures.

    Raises:
        OSError: the folder is no case.
        agentloop.errors.AgentloopError: the request failed.
    """
    case: dict[str, Any] = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    inputs = [folder / "test.log", folder / ("history" if history else "repo")]
    request = make_request(QUESTION, inputs, task=TaskType.DEBUG, task_params={"mode": "single_shot"})
    start = time.process_time()
    payload = compress_sync(request).released["payload"]
    seconds = time.process_time() - start
    causes: Sequence[Mapping[str, Any]] = payload["details"]["likely_causes"]
    named = [(cause["path"], cause["symbol"]) for cause in causes]
    wanted = (case["file"], case["function"])
    rank = named.index(wanted) + 1 if wanted in named else 0
    return Scored(
        case["id"],
        case["package"].partition("==")[0],
        case["function"],
        case["kind"],
        rank,
        named[0][1] if named else "none",
        seconds,
    )


def table(scored: Sequence[Scored]) -> Iterator[str]:
    """For each package and for all of them: cases, top-1, top-3, top-5."""
    yield f"{'package':20} cases  top-1  top-3  top-5"
    packages = sorted({s.package for s in scored})
    for name in packages:
        ranks = [s.rank for s in scored if s.package == name]
        yield f"{name:20} {len(ranks):5}  " + "  ".join(f"{_within(ranks, n):5}" for n in (1, 3, 5))
    ranks = [s.rank for s in scored]
    for n in (1, 3, 5):
        hits = _within(ranks, n)
        low, high = wilson(hits, len(ranks))
        yield f"top-{n}: {hits} of {len(ranks)} = {hits / len(ranks):.3f} [{low:.3f}, {high:.3f}]"


def wilson(hits: int, count: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share (Wilson 1927)."""
    share = hits / count
    scale = 1 + Z95**2 / count
    middle = (share + Z95**2 / (2 * count)) / scale
    half = Z95 * math.sqrt(share * (1 - share) / count + Z95**2 / (4 * count**2)) / scale
    return max(0.0, middle - half), min(1.0, middle + half)


def _within(ranks: Sequence[int], n: int) -> int:
    return sum(0 < rank <= n for rank in ranks)


def _folders(given: Sequence[Path]) -> Iterator[Path]:
    for path in given:
        if (path / "case.json").is_file():
            yield path
        else:
            yield from sorted(p.parent for p in path.glob("*/case.json"))


if __name__ == "__main__":
    sys.exit(main())
