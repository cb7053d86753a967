"""The content-addressed cache: keys as the specification prints them, damage, eviction, writers at once."""

from __future__ import annotations

import errno
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from agentloop import cache
from agentloop.cache import FileCache, NoCache


def test_keys_have_the_specifications_parts_in_its_order() -> None:
    assert cache.file_hash_key("ns", "a/b.py", 17, 3) == "file_hash:v1:ns:a/b.py:17:3"
    assert cache.chunks_key("ns", "sha256:ab", "c@1", "r") == "chunks:v1:ns:ab:c@1:r"
    assert cache.index_key("ns", "ab", "bm25", "t@1", "m") == "index:v1:ns:ab:bm25:t@1:m"
    assert cache.embedding_key("ns", "ch", "e5", 384, "l2") == "embedding:v1:ns:ch:e5:384:l2"
    retrieval = cache.retrieval_key(
        "ns",
        corpus_hash="c",
        query_hash="q",
        strategy_set_hash="s",
        retrieval_budget=64000,
        index_versions_hash="i",
    )
    assert retrieval == "retrieval:v1:ns:c:q:s:64000:i"
    assert cache.rerank_key("ns", "rh", "rules", "1", 40) == "rerank:v1:ns:rh:rules:1:40"
    pack = cache.evidence_pack_key(
        "ns",
        rerank_hash="r",
        compressor="c",
        template_version="t",
        policy_mode="p",
        final_budget=4000,
        schema="s",
    )
    assert pack == "evidence_pack:v1:ns:r:c:t:p:4000:s"
    output = cache.model_output_key(
        "ns",
        model="m",
        model_version="v",
        prompt_template="t",
        input_hash="i",
        output_schema="s",
        policy_mode="p",
    )
    assert output == "model_output:v1:ns:m:v:t:i:s:p"


def test_no_part_can_pass_for_two(tmp_path: Path) -> None:
    assert cache.chunks_key("a:b", "c", "d", "e") != cache.chunks_key("a", "b:c", "d", "e")
    assert cache.file_hash_key("n", "x:1", 2, 3) != cache.file_hash_key("n", "x", 1, 2)
    assert cache.text_hash("ab", "c") != cache.text_hash("a", "bc")


def test_values_come_back_and_damaged_ones_are_misses(tmp_path: Path) -> None:
    store = FileCache(tmp_path)
    assert store.get("chunks:v1:x") is None
    assert store.put("chunks:v1:x", b"value")
    assert store.put("chunks:v1:y", b"value")
    objects = [p for p in (tmp_path / "objects").rglob("*") if p.is_file()]
    assert len(objects) == 1  # the same content is held once
    assert store.get("chunks:v1:x") == b"value"
    objects[0].write_bytes(b"other")
    assert store.get("chunks:v1:x") is None
    assert store.put("chunks:v1:x", b"value")
    assert store.get("chunks:v1:y") == b"value"
    entry = next(p for p in (tmp_path / "entries").rglob("*") if p.is_file())
    entry.write_text("{")
    assert len([k for k in "xy" if store.get(f"chunks:v1:{k}") is None]) == 1


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    store = FileCache(tmp_path, max_bytes=10_000)
    for number in range(10):
        store.put(f"parse:v1:{number}", bytes([number]) * 2000)
        for path in (tmp_path / "entries").rglob("*"):
            if path.is_file():
                os.utime(path, (path.stat().st_mtime - 10,) * 2)
        store.get("parse:v1:0")
    store.evict()
    assert store.get("parse:v1:0") is not None
    assert store.get("parse:v1:1") is None
    assert sum(s.size_bytes for s in store.stats().values()) <= 10_000
    assert store.clear() > 0
    assert store.stats() == {}
    assert not [p for p in (tmp_path / "objects").rglob("*") if p.is_file()]


@pytest.mark.req("A6")
def test_a_write_without_room_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileCache(tmp_path)
    store.put("index:v1:a", b"kept")

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr("agentloop.cache.os.rename", full)
        assert store.put("index:v1:b", b"new") is False
    assert store.get("index:v1:a") == b"kept"
    assert store.get("index:v1:b") is None
    assert store.put("index:v1:b", b"new")
    assert not list(tmp_path.rglob(".new-*"))


def _compute(folder: str, counts: Any) -> None:
    store = FileCache(Path(folder))
    with store.single_flight("index:v1:k"):
        if store.get("index:v1:k") is None:
            with counts.get_lock():
                counts.value += 1
            store.put("index:v1:k", b"made")


def test_many_processes_compute_a_value_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    counts = context.Value("i", 0)
    workers = [context.Process(target=_compute, args=(str(tmp_path), counts)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert counts.value == 1
    assert FileCache(tmp_path).get("index:v1:k") == b"made"


def test_no_cache_keeps_nothing() -> None:
    off = NoCache()
    assert off.put("a", b"b") is False
    assert off.get("a") is None
    with off.single_flight("a"):
        pass
