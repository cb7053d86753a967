"""`agentloop compress`: a question and files in, an evidence pack out, in this process."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from broker.commands import EXIT_NO_PACK, EXIT_OK, EXIT_USAGE, Subparsers

if TYPE_CHECKING:
    from agentloop.errors import Stage
    from agentloop.request import CompressRequest
    from broker.commands.kept import Answer

TASKS = ("rag_compress", "debug_with_local_context", "summarize_logs", "inspect_repo", "propose_patch")
MODES = ("agentic", "single_shot", "completion")
EXAMPLES = """\
examples:
  agentloop compress "How does the retry policy back off?" ~/src/project
  agentloop compress "Why did the build fail?" build.log repo/ --task debug_with_local_context
  agentloop compress "Find the root failure" ci.log --baseline passing.log --task summarize_logs
  agentloop compress "Where is the fee rounded?" src/ --format json --budget 1500 > pack.json
  agentloop compress --request request.json
"""


def add_parser(commands: Subparsers) -> None:
    """Declare the sub-command's arguments."""
    parser = commands.add_parser(
        "compress",
        help="answer a question about local files with an evidence pack",
        description="Answer a question about local files with a pack of verified evidence.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_request_arguments(parser)
    add = parser.add_argument
    add("--record", metavar="FILE", help="write the model's exchange, for --model replay:FILE")
    add("--format", choices=("text", "json"), help="text on a terminal, else json")
    add("--output", metavar="FILE", help="write the pack there instead of stdout")
    add("--artifacts", metavar="DIR", help="also write the local artifacts of the pack there")
    parser.set_defaults(run=run)


def add_request_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what makes a request: `compress` runs it here, `submit` hands it to a broker."""
    add = parser.add_argument
    add("query", nargs="?", metavar="QUERY", help="the question")
    add(
        "paths", nargs="*", metavar="PATH", help="files, folders, repositories, logs, or - for standard input"
    )
    add("--task", choices=TASKS, help="what to make of the inputs (rag_compress)")
    add("--mode", choices=MODES, help="how evidence is found (agentic)")
    add("--budget", type=int, metavar="TOKENS", help="final_evidence_pack_budget (4000)")
    add("--constraint", action="append", default=[], metavar="KEY=JSON", help="a member of constraints")
    add("--param", action="append", default=[], metavar="KEY=JSON", help="a member of task_params")
    add("--max-tool-calls", type=int, metavar="N", help="calls that the tool loop may make (6)")
    add("--baseline", action="append", default=[], metavar="PATH", help="a passing run to compare with")
    add("--model", metavar="PROFILE", help="model profile, or replay:FILE (the built-in planner)")
    add("--request", metavar="FILE", help="a whole request as JSON, - for standard input")


def run(args: argparse.Namespace) -> int:
    """Make the request, run it, print the pack."""
    from agentloop.errors import AgentloopError
    from broker.commands.errors import report

    as_json = args.format == "json" or (args.format is None and not (sys.stdout.isatty() and not args.output))
    for flag, path, is_folder in (("--output", args.output, False), ("--artifacts", args.artifacts, True)):
        wrong = _unwritable(path, is_folder) if path else ""
        if wrong:  # before the work, not after it
            print(f"agentloop: {flag} {path}: {wrong}", file=sys.stderr)
            return EXIT_USAGE
    try:
        return _deliver(_answer(args), args, as_json)
    except AgentloopError as error:
        return report(error, readable=not as_json and sys.stderr.isatty())


def _unwritable(path: str, is_folder: bool) -> str:
    """Why a file can't be written at `path`, or things into a folder there; "" where they can."""
    target = Path(path)
    if is_folder:
        there = next((place for place in (target, *target.parents) if os.path.lexists(place)), Path())
        if not there.is_dir():
            return "it is a file; name a folder." if there == target else f"{there} is a file, no folder."
        return "" if os.access(there, os.W_OK | os.X_OK) else f"you may not write into {there}."
    if target.is_dir():
        return "it is a folder; name a file."
    if not target.parent.is_dir():
        return "its folder does not exist; make it first."
    place = target if target.exists() else target.parent
    return "" if os.access(place, os.W_OK) else f"you may not write {'it' if place == target else 'there'}."


def _answer(args: argparse.Namespace) -> Answer:
    # What this process makes lives to its end, from its modules on: the cycle collector would look at all of
    # it again and again, for about a tenth of the time.
    gc.set_threshold(100_000, 50, 100)
    from agentloop.tokens import load_beside

    load_beside()  # first, so that the ranks are loaded while everything else is
    from broker.commands.environment import compress_environment
    from broker.commands.kept import answered

    request = request_of(args)
    model = args.model or request.execution_profile.model_profile
    progress = _Progress() if sys.stderr.isatty() else None
    try:
        with compress_environment(model=model, record=args.record, progress=progress) as env:
            return answered(request, env, model or "", cached=not args.record)
    finally:
        if progress is not None:
            progress.clear()


def request_of(args: argparse.Namespace) -> CompressRequest:
    """The request that the arguments of `add_request_arguments` make.

    Raises:
        AgentloopError: REQUEST_INVALID or INPUT_DISCOVERY_FAILED, naming what is off.
    """
    from agentloop.api import make_request
    from agentloop.errors import AgentloopError, ErrorCode, Stage
    from agentloop.request import TaskType

    if args.request:
        return _request_file(args)
    if args.query is None or not (args.paths or args.baseline):
        raise AgentloopError(
            ErrorCode.REQUEST_INVALID,
            "compress needs a QUERY and at least one PATH (or --request FILE); see compress --help.",
            Stage.REQUEST,
        )
    params = _members(args.param, "--param")
    constraints = _members(args.constraint, "--constraint")
    _put(params, "mode", args.mode, "--mode")
    _put(params, "max_tool_calls", args.max_tool_calls, "--max-tool-calls")
    _put(constraints, "final_evidence_pack_budget", args.budget, "--budget")
    return make_request(
        args.query,
        args.paths,
        task=TaskType(args.task or TaskType.RAG_COMPRESS),
        baselines=args.baseline,
        task_params=params,
        constraints=constraints,
        execution_profile={"model_profile": args.model} if args.model else {},
    )


def _request_file(args: argparse.Namespace) -> CompressRequest:
    from agentloop.errors import AgentloopError, ErrorCode, Stage
    from agentloop.reasons import unreadable
    from agentloop.request import parse_request

    beside = ["QUERY"] if args.query is not None else []
    beside += [
        f"--{name.replace('_', '-')}"
        for name in ("task", "mode", "budget", "constraint", "param", "max_tool_calls", "baseline")
        if getattr(args, name) not in (None, [])
    ]
    if beside:
        raise AgentloopError(
            ErrorCode.REQUEST_INVALID,
            f"--request holds the whole request: give no {', '.join(beside)} beside it.",
            Stage.REQUEST,
        )
    try:
        if args.request == "-":
            text = sys.stdin.buffer.read().decode("utf-8")
        else:
            with open(args.request, encoding="utf-8") as file:
                text = file.read()
        data = json.loads(text)
    except (OSError, ValueError, RecursionError) as exc:
        raise AgentloopError(
            ErrorCode.REQUEST_INVALID,
            f"The request file {args.request} can't be used: {unreadable(exc)}.",
            Stage.REQUEST,
        ) from None
    request = parse_request(data)
    if args.model:
        profile = request.execution_profile.model_copy(update={"model_profile": args.model})
        request = request.model_copy(update={"execution_profile": profile})
    return request


def _put(members: dict[str, Any], key: str, value: Any, flag: str) -> None:
    """Set a member from its own flag, unless `KEY=JSON` says something else."""
    from agentloop.errors import AgentloopError, ErrorCode, Stage

    if value is None:
        return
    if members.setdefault(key, value) != value:
        raise AgentloopError(
            ErrorCode.REQUEST_INVALID,
            f"{flag} {value} and {key}={json.dumps(members[key])} disagree; give one of them.",
            Stage.REQUEST,
        )


def _members(pairs: list[str], flag: str) -> dict[str, Any]:
    """`KEY=JSON` pairs as a dict; a value that is not JSON is taken as the string it is."""
    from agentloop.errors import AgentloopError, ErrorCode, Stage

    members: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise AgentloopError(
                ErrorCode.REQUEST_INVALID, f"{flag} takes KEY=JSON, not {pair!r}.", Stage.REQUEST
            )
        try:
            members[key] = json.loads(value)
        except ValueError:
            members[key] = value
    return members


def _deliver(answer: Answer, args: argparse.Namespace, as_json: bool) -> int:
    """Print the pack, or write it; the exit status."""
    from broker.commands.environment import keep_artifacts

    keep_artifacts(answer, args.artifacts)
    if not args.output:
        _write(answer, sys.stdout, as_json)
        return EXIT_OK
    try:
        with open(args.output, "w", encoding="utf-8") as file:
            _write(answer, file, as_json)
    except OSError as exc:
        from agentloop.reasons import unwritable

        print(f"agentloop: --output {args.output}: {unwritable(exc)}.", file=sys.stderr)
        return EXIT_NO_PACK
    return EXIT_OK


def _write(answer: Answer, out: TextIO, as_json: bool) -> None:
    from agentloop.pack import canonical
    from broker.commands.view import show

    if as_json:
        out.write(canonical(answer.released) + "\n")
    else:
        show(answer.released, out)


class _Progress:
    """One line on stderr, rewritten as the work goes on and never back, gone at the end."""

    def __init__(self) -> None:
        self._done = -1.0

    def __call__(self, stage: Stage, done: float) -> None:
        if done > self._done:
            self._done = done
            self._show("" if done >= 1 else f"{done:4.0%} {str(stage).replace('_', ' ')}")

    def clear(self) -> None:
        """Take the line away, where one was shown."""
        if self._done >= 0:
            self._show("")

    def _show(self, line: str) -> None:
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()
