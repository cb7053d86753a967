"""Conversations at scale: a synthetic export, its index against plain tantivy, time and memory.

    python bench/records.py [--windows 36000] [--messages 60000] [--seed 0] [--json FILE]
    python bench/records.py --write FILE --messages N     only write the export

The generator is seeded: words of a made-up language whose frequencies fall as in real text (Zipf), put into
sentences and messages of a ChatGPT export. Wanted: windows indexed in at most 1.5 times what plain tantivy
takes for the same text in the same run, 60,000 messages in at most 3 s, memory at most three times the text.
Each lane runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VOCABULARY = 30_000
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "ol", "is")]
MESSAGES_A_CONVERSATION = 12
MESSAGE_CHARS = 330  # 60,000 messages are 20 million characters, the cap of a records source
WINDOW_MESSAGE_CHARS = 1600
HUGE_CAP = 200_000_000


def vocabulary(chance: random.Random) -> list[str]:
    """Distinct made-up words, the frequent ones shorter."""
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        size = 1 + min(4, len(words) * 5 // VOCABULARY) + (chance.random() < 0.3)
        words["".join(chance.choice(SYLLABLES) for _ in range(size))] = None
    return list(words)


def texts(count: int, chars: int, seed: int) -> Iterator[str]:
    """`count` texts of about `chars` characters."""
    chance = random.Random(seed)
    words = vocabulary(chance)
    falling = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(len(words))))
    for _ in range(count):
        size, sentences = 0, []
        while size < chars:
            chosen = chance.choices(words, cum_weights=falling, k=chance.randint(5, 16))
            sentences.append(" ".join(chosen).capitalize() + ".")
            size += len(sentences[-1]) + 1
        yield " ".join(sentences)[:chars]


def export(path: Path, messages: int, chars: int, seed: int) -> int:
    """Write an export with so many messages; returns the characters of text in it."""
    total = 0
    source = texts(messages, chars, seed)
    with path.open("w", encoding="utf-8") as out:
        out.write("[")
        for number, first in enumerate(range(0, messages, MESSAGES_A_CONVERSATION)):
            count = min(MESSAGES_A_CONVERSATION, messages - first)
            parts = [next(source) for _ in range(count)]
            total += sum(len(part) for part in parts)
            out.write(("," if number else "") + json.dumps(_conversation(number, parts)))
        out.write("]\n")
    return total


def _conversation(number: int, parts: list[str]) -> dict[str, Any]:
    ids = [f"c{number}-{at}" for at in range(len(parts) + 1)]
    mapping: dict[str, Any] = {ids[0]: {"id": ids[0], "message": None, "parent": None, "children": [ids[1]]}}
    started = 1_700_000_000 + number * 5000
    for at, text in enumerate(parts, 1):
        message = {
            "id": ids[at],
            "author": {"role": "user" if at % 2 else "assistant"},
            "create_time": started + at * 60,
            "content": {"content_type": "text", "parts": [text]},
        }
        children = ids[at + 1 : at + 2]
        mapping[ids[at]] = {"id": ids[at], "message": message, "parent": ids[at - 1], "children": children}
    return {
        "title": parts[0][:40],
        "create_time": started,
        "update_time": started + len(parts) * 60,
        "mapping": mapping,
        "current_node": ids[-1],
        "conversation_id": f"c{number}",
    }


def engine(path: Path) -> dict[str, float]:
    """Read, split and index an export with the engine; seconds of each stage, and what was held."""
    from agentloop import make_request
    from agentloop.budget import Ledger
    from agentloop.chunking import chunk_corpus
    from agentloop.clock import SystemClock
    from agentloop.config import Caps, Policy
    from agentloop.index.lexical import LexicalIndex
    from agentloop.sources import discover

    before = _peak_mb()
    caps = Caps(max_record_chars=HUGE_CAP)  # the file is larger than max_file_bytes: read where it lies
    ledger = Ledger(SystemClock())
    started, cpu = time.perf_counter(), time.process_time()
    corpus = discover(make_request("what was said?", [path]), caps, Policy(), ledger)
    read, read_peak = time.perf_counter(), _peak_mb() - before
    chunks = chunk_corpus(corpus, ledger, caps)
    split = time.perf_counter()
    LexicalIndex(corpus, chunks)
    indexed = time.perf_counter()
    cpu = time.process_time() - cpu
    peak = _peak_mb() - before
    windows = [corpus.text(chunk) for chunk in chunks]
    return {
        "discover": read - started,
        "chunk": split - read,
        "index": indexed - split,
        "total": indexed - started,
        "cpu": cpu,
        "chunks": len(chunks),
        "text_mb": sum(len(w) for w in windows) / 1e6,
        "read_peak_mb": read_peak,
        "peak_mb": peak,
        "plain_tantivy": _plain(windows),
    }


def _plain(windows: list[str]) -> float:
    """Seconds of tantivy's default tokenizer over the same windows, in the same process."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=False)
    index = tantivy.Index(builder.build())
    started = time.perf_counter()
    writer = index.writer(128_000_000)
    for window in windows:
        writer.add_document(tantivy.Document(text=window))
    writer.commit()
    index.reload()
    return time.perf_counter() - started


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def lane(path: Path) -> dict[str, float]:
    """`engine` in a fresh process."""
    command = [sys.executable, __file__, "--engine", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print a table, and write the figures as JSON where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--windows", type=int, default=36_000)
    parser.add_argument("--messages", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--engine", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.engine:
        print(json.dumps(engine(args.engine)))
        return
    if args.write:
        print(export(args.write, args.messages, MESSAGE_CHARS, args.seed), "characters of text")
        return
    rows = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, count, chars in (
            (f"{args.windows} windows", args.windows, WINDOW_MESSAGE_CHARS),
            (f"{args.messages} messages", args.messages, MESSAGE_CHARS),
        ):
            path = Path(scratch) / "conversations.json"
            export(path, count, chars, args.seed)
            rows[name] = lane(path)
    _table(rows)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


def _table(rows: dict[str, dict[str, float]]) -> None:
    """Wall seconds of the stages, CPU seconds of all; memory over the text after reading and at the end."""
    names = ("discover", "chunk", "index", "total", "cpu", "plain_tantivy")
    head = "".join(f"{name:>14}" for name in names)
    print(f"{'':<16}{head}{'index/plain':>13}{'MB text':>9}{'read/text':>11}{'peak/text':>11}")
    for name, row in rows.items():
        figures = "".join(f"{row[n]:14.2f}" for n in names)
        ratio = row["index"] / row["plain_tantivy"]
        read, peak = row["read_peak_mb"] / row["text_mb"], row["peak_mb"] / row["text_mb"]
        print(f"{name:<16}{figures}{ratio:13.2f}{row['text_mb']:9.0f}{read:11.2f}{peak:11.2f}")


if __name__ == "__main__":
    main()
