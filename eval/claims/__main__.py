"""`python -m eval.claims`: false claims that the support check rejects, and true ones that it keeps."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from agentloop.loop.support import Source, check
from eval.claims.docstrings import HELD_OUT, Example, examples

WRITTEN = Path(__file__).parent / "written.jsonl"


def written() -> list[Example]:
    """The claims that people wrote over short passages; those of another passage are `wrong span`."""
    rows = [json.loads(line) for line in WRITTEN.read_text("utf-8").splitlines()]
    by_id = {row["id"]: row for row in rows}
    made: list[Example] = []
    for row in rows:
        passage = row["source"]
        made += [Example("true", claim, passage, "") for claim in row["true"]]
        made += [
            Example(kind, row[kind], passage, "") for kind in ("negated", "swapped", "number") if row[kind]
        ]
        made += [Example("wrong span", claim, passage, "") for claim in by_id[row["span"]]["true"]]
    return made


def judge(made: Sequence[Example]) -> dict[str, tuple[int, int]]:
    """By kind: how many were judged rightly, and how many there are. `false` sums all but `true`."""
    right: dict[str, int] = {}
    total: dict[str, int] = {}
    for example in made:
        supported = check(example.claim, [Source("c1", example.passage, example.label)]).supported
        kinds = ["true"] if example.kind == "true" else [example.kind, "false"]
        for kind in kinds:
            total[kind] = total.get(kind, 0) + 1
            right[kind] = right.get(kind, 0) + (supported == (example.kind == "true"))
    return {kind: (right[kind], total[kind]) for kind in sorted(total)}


def _sets() -> list[tuple[str, list[Example]]]:
    return [("written", written()), ("docstrings", examples()), ("held out", examples(HELD_OUT))]


def main() -> int:
    """Print a table for each set."""
    for name, made in _sets():
        sys.stdout.write(f"{name}: {len(made)} claims\n")
        for kind, (right, total) in judge(made).items():
            verb = "kept" if kind == "true" else "rejected"
            sys.stdout.write(f"  {kind:12} {right:5} of {total:5} {verb} ({right / total:.1%})\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
