"""How fast real files are cut and parsed, and what known blow-ups cost.

    python bench/parse.py chunks FOLDER [--repeat N]     chunk_corpus over a folder, best of N
    python bench/parse.py symbols FOLDER...              parse rate by language, slowest file
    python bench/parse.py blowups                        inputs that keep tree-sitter busy

`chunks` prints wall and processor seconds; the others print wall seconds of this process and its worker.
`blowups` shows what the bound of a file (`Caps.parse_seconds`) makes of small inputs; `--unbounded` parses
them without it too, for up to two minutes each.
"""

from __future__ import annotations

import argparse
import hashlib
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
    print(
        f"{len(corpus.files)} files, {size:.1f} MB, {count} chunks: {wall:.3f} s, {processor:.3f} s of processor"
    )


def symbols(folders: list[str]) -> None:
    """Parse every file of code that has a grammar's table; one line a language."""
    print("| language | files | MB | definitions | MB/s | slowest file | degraded |")
    print("|---|---|---|---|---|---|---|")
    for folder in folders:
        ledger = Ledger(SystemClock())
        parser = SymbolParser(Caps(), ledger)
        totals: dict[str, list[tuple[float, int, int]]] = defaultdict(list)
        for file in corpus_of(folder).files:
            if file.kind is FileKind.CODE and file.language in TAGS:
                if not totals[file.language]:  # unpack and load the grammar outside the clock
                    parser.symbols(source(b"\n", file.language))
                started = time.perf_counter()
                found = len(parser.symbols(file))
                totals[file.language].append((time.perf_counter() - started, file.size, found))
        parser.close()
        for language, rows in sorted(totals.items()):
            seconds, size, found = (sum(row[at] for row in rows) for at in range(3))
            rate = size / 1e6 / seconds
            slowest = max(rows)
            degraded = sum(f".{language}" in message for _, message, _ in ledger.warnings)
            print(
                f"| {language} | {len(rows)} | {size / 1e6:.1f} | {found} | {rate:.1f} "
                f"| {slowest[0]:.2f} s, {slowest[1] // 1000} kB | {degraded} |"
            )
        for _, message, _ in ledger.warnings:
            print("warning:", message)


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
