"""How fast real files are cut and parsed, and what known blow-ups cost.

    python bench/parse.py chunks FOLDER [--repeat N]     chunk_corpus over a folder, best of N
    python bench/parse.py symbols FOLDER...              parse rate by language, slowest file
    python bench/parse.py blowups                        inputs that keep tree-sitter busy

`chunks` prints wall and processor seconds, `symbols` the worker's processor time, `blowups` wall seconds.
`blowups` shows what the bound of a file (`Caps.parse_seconds`) makes of small inputs; `--unbounded` parses
them without it too, for up to two minutes each.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import time
from collections import defaultdict

from agentloop.budget import Ledger
from agentloop.chunking import chunk_corpus
from agentloop.clock import SystemClock
from agentloop.config import Caps, Policy
from agentloop.index.symbols import SymbolParser
from agentloop.index.symbols.process import ParseFailed, ParseProcess
from agentloop.index.symbols.tags import TAGS
from agentloop.request import Classification, parse_request
from agentloop.sources import discover
from agentloop.types import Corpus, FileKind, Memory, SourceFile

BLOW_UPS = {
    "kotlin ?.b<C>(d)!!": ("kotlin", b"val x = a" + b"?.b<C>(d)!!" * 12_000),
    "swift ?.b<C>(d)!!": ("swift", b"let x = a" + b"?.b<C>(d)!!" * 12_000),
    "typescript ?.b<C>(d)!": ("typescript", b"let x = a" + b"?.b<C>(d)!" * 12_000),
    "kotlin half-written": ("kotlin", b"class A {\n" + b"    val x = foo<Bar>(if (a < b) listOf(\n" * 9_000),
    "c braces": ("c", b"int f(void)\n" + b"{" * 16_384 + b"}" * 16_384 + b"\nint g(void)\n{\n}\n"),
    "javascript parentheses": ("javascript", b"const k = " + b"(" * 20_000 + b"1" + b")" * 20_000 + b";\n"),
}


def corpus_of(folder: str) -> Corpus:
    """Discovery of a folder, as a request does it."""
    inputs = [{"type": "directory", "uri": folder}]
    request = parse_request({"task_type": "rag_compress", "query": "bench", "input_refs": inputs})
    return discover(request, Caps(), Policy(), Ledger(SystemClock()))


def chunks(folder: str, repeat: int) -> None:
    """Best time of `repeat` runs of the chunker."""
    corpus = corpus_of(folder)
    wall = processor = float("inf")
    count = 0
    for _ in range(repeat):
        started, spent = time.perf_counter(), time.process_time()
        count = len(chunk_corpus(corpus, Ledger(SystemClock()), Caps()))
        wall = min(wall, time.perf_counter() - started)
        processor = min(processor, time.process_time() - spent)
    size = sum(file.size for file in corpus.files) / 1e6
    print(f"{len(corpus.files)} files, {size:.1f} MB, {count} chunks: {wall:.3f} s", end="")
    print(f", {processor:.3f} s of processor")


def symbols(folders: list[str]) -> None:
    """Parse every file of code that has a grammar's table; one line a language."""
    files: dict[str, list[SourceFile]] = defaultdict(list)
    for folder in folders:
        for file in corpus_of(folder).files:
            if file.kind is FileKind.CODE and file.language in TAGS:
                files[file.language].append(file)
    print("| language | files | MB | definitions | MB/s of processor | slowest file, wall | degraded |")
    print("|---|---|---|---|---|---|---|")
    for language, group in sorted(files.items()):
        ledger = Ledger(SystemClock())
        parser = SymbolParser(Caps(), ledger)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        found, slowest = 0, (0.0, 0)
        parser.symbols(source(b"\n", language))  # unpack and load the grammar outside the clock
        for file in group:
            started = time.perf_counter()
            found += len(parser.symbols(file))
            slowest = max(slowest, (time.perf_counter() - started, file.size))
        parser.close()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        size = sum(file.size for file in group) / 1e6
        rate = size / (after.ru_utime - spent.ru_utime + after.ru_stime - spent.ru_stime)
        print(f"| {language} | {len(group)} | {size:.1f} | {found} | {rate:.1f} ", end="")
        print(f"| {slowest[0]:.2f} s, {slowest[1] // 1000} kB | {len(ledger.warnings)} |")


def source(data: bytes, language: str) -> SourceFile:
    """A file of code in memory."""
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    memory = Memory(data)
    return SourceFile(
        0, "in1", "x", FileKind.CODE, language, "", len(data), digest, Classification.PUBLIC, memory
    )


def blowups(*, unbounded: bool) -> None:
    """What each input costs with the bound, and without it."""
    for name, (language, data) in BLOW_UPS.items():
        ledger = Ledger(SystemClock())
        parser = SymbolParser(Caps(), ledger)
        parser.symbols(source(b"\n", language))
        started = time.perf_counter()
        parser.symbols(source(data, language))
        print(f"{name}: {len(data) // 1000} kB, {time.perf_counter() - started:.2f} s, ", end="")
        parser.close()
        print("outline" if ledger.warnings else "parsed", end="")
        print(f", unbounded {alone(data, language)}" if unbounded else "")


def alone(data: bytes, language: str) -> str:
    """The time of one parse with two minutes of processor time."""
    process = ParseProcess()
    started = time.perf_counter()
    try:
        process.ask(data, language, 120.0)
    except ParseFailed as failure:
        return str(failure)
    process.close()
    return f"{time.perf_counter() - started:.1f} s"


def main() -> None:
    """Read the arguments and run one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["chunks", "symbols", "blowups"])
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--unbounded", action="store_true")
    arguments = parser.parse_args()
    if arguments.what == "chunks":
        chunks(arguments.folders[0], arguments.repeat)
    elif arguments.what == "symbols":
        symbols(arguments.folders)
    else:
        blowups(unbounded=arguments.unbounded)


if __name__ == "__main__":
    main()
