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
from collections.abc import Callable, Iterator
from pathlib import Path

import tantivy

from agentloop.index import FieldWeights, LexicalIndex, Term, words
from agentloop.request import Classification
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


def load(paths: list[Path], most: int) -> tuple[Corpus, list[Chunk]]:
    """A corpus of at most `most` chunks, and its chunks."""
    files: list[SourceFile] = []
    chunks: list[Chunk] = []
    found = (p for root in paths for p in sorted(root.rglob("*")) if p.suffix in SUFFIXES and p.is_file())
    for path in found:
        data = path.read_bytes()
        if not data or len(data) > 2_000_000 or path.is_symlink():
            continue
        number = len(files)
        files.append(
            SourceFile(
                number, "in1", str(path.relative_to(path.anchor)), FileKind.CODE, "python", "text/plain",
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


def timed(work: Callable[[], object], repeat: int) -> dict[str, float]:
    """Best wall and processor seconds of some runs."""
    walls, cpus = [], []
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {"seconds": round(min(walls), 2), "cpu_seconds": round(min(cpus), 2)}


def query_seconds(index: LexicalIndex) -> Iterator[float]:
    """Seconds of each question, forms of its words included."""
    for _ in range(5):
        for question in QUESTIONS:
            index.forget_variants()
            started = time.perf_counter()
            asked = [term for word in words.words(question) for term in words.terms(word)]
            terms = [
                Term(((word, 1.0), *((form, 1.0) for form, _ in index.variants(word, "english"))))
                for word in asked
            ]
            index.search(terms, 400, FieldWeights(1.0, 1.0, 2.0))
            yield time.perf_counter() - started


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
    base = timed(lambda: plain(texts), options.repeat)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ours = timed(lambda: LexicalIndex(corpus, chunks), options.repeat)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    queries = sorted(query_seconds(LexicalIndex(corpus, chunks)))
    report = {
        "chunks": len(chunks),
        "megabytes": round(sum(map(len, blobs)) / 1e6, 1),
        "plain": base,
        "index": ours,
        "ratio": round(ours["seconds"] / base["seconds"], 2),
        "cpu_ratio": round(ours["cpu_seconds"] / base["cpu_seconds"], 2),
        "peak_growth_mb": round((after - before) / 1024),
        "query_ms_p50": round(1e3 * statistics.median(queries), 2),
        "query_ms_p95": round(1e3 * queries[int(0.95 * len(queries))], 2),
        "alternatives": {
            "stems_while_indexing": timed(lambda: stemmed(texts), 1),
            "camel_by_table": timed(lambda: camel_by_table(blobs), 1),
            "camel_by_regex": timed(lambda: camel_by_regex(blobs), 1),
            "camel_by_set": timed(lambda: camel_by_set(blobs), 1),
        },
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
