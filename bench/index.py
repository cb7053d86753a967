"""Index build and query speed: `python bench/index.py [--chunks 53000] [PATH...]`, one JSON object.

The text is that of PATH... (by default Python's own library and the installed packages), cut into chunks
of 1,600 characters. Times are wall seconds, the best of `--repeat` runs, with processor seconds beside
them: on a busy machine the ratio of those is the one to read. `plain` is tantivy's default tokenizer.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import tantivy

from agentloop.chunks import Chunks
from agentloop.index import FieldWeights, LexicalIndex, words
from agentloop.request import Classification
from agentloop.retrieval.question import read
from agentloop.retrieval.terms import build
from agentloop.types import Chunk, Corpus, FileKind, Memory, SourceFile

CHUNK_CHARS = 1_600
SUFFIXES = {".py", ".pyi", ".md", ".rst", ".txt", ".js", ".c", ".h", ".html"}
QUESTIONS = (
    "how does the async http client session work",
    "connection pooling and TCP connector",
    "select_for_update of arguments",
    "how are path parameters extracted and type-converted",
    "parse configuration file sections",
    "where is the retry limit of a failed upload set",
    "EncodedFile",
    "random number generator seed",
)


def load(paths: list[Path], most: int) -> tuple[Corpus, Chunks]:
    """A corpus of at most `most` chunks, and its chunks."""
    files: list[SourceFile] = []
    chunks = Chunks()
    found = ((r, p) for r in paths for p in sorted(r.rglob("*")) if p.suffix in SUFFIXES and p.is_file())
    for root, path in found:
        data = path.read_bytes()
        if not data or len(data) > 2_000_000 or path.is_symlink():
            continue
        number = len(files)
        files.append(
            SourceFile(
                number, "in1", str(path.relative_to(root)), FileKind.CODE, "python", "text/plain",
                len(data), "", Classification.PUBLIC, Memory(data),
            )
        )  # fmt: skip
        for start in range(0, len(data), CHUNK_CHARS):
            chunks.append(Chunk(number, start, min(len(data), start + CHUNK_CHARS), 1, 1))
            if len(chunks) == most:
                return Corpus((), tuple(files), ()), chunks
    return Corpus((), tuple(files), ()), chunks


def plain(texts: list[str], tokenizer: str = "default", analyzer: tantivy.TextAnalyzer | None = None) -> None:
    """tantivy with one field and nothing else."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("body", tokenizer_name=tokenizer)
    index = tantivy.Index(builder.build())
    if analyzer is not None:
        index.register_tokenizer(tokenizer, analyzer)
    writer = index.writer(128_000_000)
    for text in texts:
        document = tantivy.Document()
        document.add_text("body", text)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()


def stemmed(texts: list[str]) -> None:
    """The alternative: stems at indexing time, in Rust."""
    analyzer = (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(100))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.stemmer("english"))
        .build()
    )
    plain(texts, "stemmed", analyzer)


def camel_by_table(blobs: list[bytes]) -> None:
    """Ours: camelCase parts of each chunk, by a byte table and searches for changes of case."""
    parts = words.CamelParts()
    for blob in blobs:
        parts.of(blob)


def camel_by_regex(blobs: list[bytes]) -> None:
    """The alternative: one regular expression a chunk."""
    pattern = re.compile(rb"\b(?:[A-Z]+[a-z0-9]+|[a-z0-9]+)(?:[A-Z]+[a-z0-9]*)+")
    for blob in blobs:
        pattern.findall(blob)


def camel_by_set(blobs: list[bytes]) -> None:
    """The alternative: every distinct word of a chunk, filtered afterwards."""
    table = bytes(c if chr(c).isalnum() and c < 128 else 32 for c in range(256))
    for blob in blobs:
        set(blob.translate(table).split())


def timed(works: Sequence[Callable[[], object]], repeat: int) -> list[dict[str, float]]:
    """Best wall and processor seconds of each work; they take turns, so that a busy spell hits all."""
    best = [(float("inf"), float("inf"))] * len(works)
    for _ in range(repeat):
        for at, work in enumerate(works):
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            spent = time.perf_counter() - wall, time.process_time() - cpu
            best[at] = min(best[at][0], spent[0]), min(best[at][1], spent[1])
    return [{"seconds": round(wall, 2), "cpu_seconds": round(cpu, 2)} for wall, cpu in best]


def query_seconds(index: LexicalIndex) -> Iterator[tuple[float, float]]:
    """Wall and processor seconds of each question as retrieval asks it, forms looked up anew."""
    for _ in range(5):
        for question in QUESTIONS:
            index.forget_variants()
            wall, cpu = time.perf_counter(), time.thread_time()
            query = build(read(question), index, ("english",))
            index.search(query.terms, 400, FieldWeights(1.0, 1.0, 2.0))
            yield time.perf_counter() - wall, time.thread_time() - cpu


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--chunks", type=int, default=53_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    roots = options.paths or [Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))]
    corpus, chunks = load(roots, options.chunks)
    blobs = [corpus.files[c.file].content.read(c.byte_start, c.byte_end) for c in chunks]
    texts = [blob.decode("utf-8", "replace") for blob in blobs]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    base, ours = timed([lambda: plain(texts), lambda: LexicalIndex(corpus, chunks)], options.repeat)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    others: dict[str, Callable[[], object]] = {
        "stems_while_indexing": lambda: stemmed(texts),
        "camel_by_table": lambda: camel_by_table(blobs),
        "camel_by_regex": lambda: camel_by_regex(blobs),
        "camel_by_set": lambda: camel_by_set(blobs),
    }
    walls, cpus = map(sorted, zip(*query_seconds(LexicalIndex(corpus, chunks)), strict=True))
    report = {
        "chunks": len(chunks),
        "megabytes": round(sum(map(len, blobs)) / 1e6, 1),
        "plain": base,
        "index": ours,
        "ratio": round(ours["seconds"] / base["seconds"], 2),
        "cpu_ratio": round(ours["cpu_seconds"] / base["cpu_seconds"], 2),
        "peak_growth_mb": round((after - before) / 1024),
        "query_ms_p50": round(1e3 * statistics.median(walls), 2),
        "query_ms_p95": round(1e3 * walls[int(0.95 * len(walls))], 2),
        "query_cpu_ms_p50": round(1e3 * statistics.median(cpus), 2),
        "alternatives": dict(zip(others, timed(list(others.values()), 1), strict=True)),
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
