"""Make cases: `python -m eval.mutations.make --out DIR [--packages NAME==VERSION …] [--count N] [--seed S]`.

A case is a folder: `repo/` (the package's source with one fault in it), `test.log` (what its own tests
printed), `case.json` (the mutated function), and `history/`, the same tree as a git repository whose
last commit brought the fault. Needs network access to a package index while cases are made, never after.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from eval.mutations.mutate import KINDS, Mutation, mutations

PACKAGES = (
    "pyrsistent==0.20.0",
    "more-itertools==10.7.0",
    "sqlparse==0.5.1",
    "h11==0.16.0",
    "toolz==1.0.0",
    "cachetools==6.1.0",
)
TEST_SECONDS = 120
LOG_LINES = 40_000  # a longer log comes from a fault that breaks everything: of no interest


@dataclass(frozen=True, slots=True)
class Case:
    """What a case holds, for the scorer."""

    id: str
    package: str
    file: str
    function: str
    line: int
    kind: str
    failed: int
    seed: int


def main(argv: list[str] | None = None) -> int:
    """Make the cases; prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--packages", nargs="+", default=PACKAGES, metavar="NAME==VERSION")
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--count", type=int, default=10, help="cases a package (10)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    for package in args.packages:
        with tempfile.TemporaryDirectory() as tmp:
            _package(package, args, Path(tmp))
    return 0


def _package(package: str, args: argparse.Namespace, tmp: Path) -> None:
    tree = _fetch(package, tmp)
    python = _environment(package, tmp)
    clean, passed = _test(tree, python)
    known = re.findall(r"^(?:FAILED|ERROR) (\S+)", clean, re.MULTILINE)
    deselect = [f"--deselect={test}" for test in known]
    if known and not passed:
        clean, passed = _test(tree, python, *deselect)
    if not passed:
        sys.stderr.write(f"{package}: its own tests fail unchanged, left out\n{clean[-600:]}\n")
        return
    rng = random.Random(f"{args.seed}:{package}")  # noqa: S311
    pool = _pool(tree, tuple(args.kinds))
    rng.shuffle(pool)
    made, used = 0, set[str]()
    for file, mutation in pool:
        if made == args.count:
            break
        if f"{file}:{mutation.function}" in used:
            continue
        case = _case(
            package, tree, python, file=file, mutation=mutation, args=args, number=made, deselect=deselect
        )
        if case:
            used.add(f"{file}:{mutation.function}")
            made += 1
            sys.stdout.write(f"{case.id} {case.file} {case.function} {case.kind}: {case.failed} failed\n")


def _fetch(package: str, tmp: Path) -> Path:
    """The unpacked sdist."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
    subprocess.run([*pip, "--no-binary", ":all:", "-d", tmp, package], check=True)
    (archive,) = tmp.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp / "sdist", filter="data")
    (tree,) = (tmp / "sdist").iterdir()
    return tree


def _environment(package: str, tmp: Path) -> Path:
    """A Python with pytest and what the package needs; the package itself comes from the tree."""
    venv.create(tmp / "venv", with_pip=True)
    python = tmp / "venv" / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "pytest", "pretend", "hypothesis", package], check=True
    )
    subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", package.partition("==")[0]], check=True)
    return python


def _test(tree: Path, python: Path, *options: str) -> tuple[str, bool]:
    """What the package's tests print, and whether all passed."""
    source = tree / "src" if (tree / "src").is_dir() else tree
    argv = [
        str(python),
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-q",
        "--color=no",
        "-W",
        "ignore",
        *options,
    ]
    env = {
        "PYTHONPATH": str(source),
        "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
    }
    try:
        done = subprocess.run(
            argv, cwd=tree, env=env, capture_output=True, text=True, timeout=TEST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "timed out", False
    return done.stdout.replace(str(tree), "/build"), done.returncode == 0


def _pool(tree: Path, kinds: tuple[str, ...]) -> list[tuple[str, Mutation]]:
    """Every mutation of the package's own modules, in order."""
    found = []
    for path in sorted(tree.rglob("*.py")):
        name = path.relative_to(tree).as_posix()
        parts = set(path.relative_to(tree).parts[:-1])
        if parts & {"tests", "test", "docs", "examples", "bench", "misc", "fuzz", "tasks"} or "/" not in name:
            continue
        found += [(name, m) for m in mutations(path.read_bytes(), kinds)]
    return found


def _case(
    package: str,
    tree: Path,
    python: Path,
    *,
    file: str,
    mutation: Mutation,
    args: argparse.Namespace,
    number: int,
    deselect: Sequence[str],
) -> Case | None:
    """Run the tests with the fault in; a case when some fail and the run is of a usual size."""
    original = (tree / file).read_bytes()
    (tree / file).write_bytes(mutation.apply(original))
    try:
        log, passed = _test(tree, python, *deselect)
        failed = log.count("\nFAILED ")
        if passed or failed == 0 or "error" in log.splitlines()[-1] or log.count("\n") > LOG_LINES:
            return None
        name = package.partition("==")[0]
        case = Case(
            f"{name}-{number:02d}",
            package,
            file,
            mutation.function,
            mutation.line,
            mutation.kind,
            failed,
            args.seed,
        )
        _write(case, tree, original, log, args.out / case.id)
        return case
    finally:
        (tree / file).write_bytes(original)


def _write(case: Case, tree: Path, original: bytes, log: str, out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(tree, out / "repo")
    (out / "test.log").write_text(log)
    (out / "case.json").write_text(json.dumps(asdict(case), indent=1))
    history = out / "history"
    shutil.copytree(tree, history)
    mutated = (history / case.file).read_bytes()
    (history / case.file).write_bytes(original)
    _git(history, "init", "-q")
    _commit(history, "Import")
    (history / case.file).write_bytes(mutated)
    _commit(history, f"Simplify {Path(case.file).stem}")


def _commit(tree: Path, message: str) -> None:
    _git(tree, "add", "-A", "-f")
    _git(tree, "-c", "user.name=dev", "-c", "user.email=dev@example.org", "commit", "-q", "-m", message)


def _git(tree: Path, *argv: str) -> None:
    subprocess.run(["git", "-C", tree, *argv], check=True, capture_output=True)


if __name__ == "__main__":
    sys.exit(main())
