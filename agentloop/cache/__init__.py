"""The cache: its protocol, the key of every layer, and a content-addressed store on disk.

A key is text, exactly as the specification prints it. A value is bytes. The store keeps an entry file
a key, which names the SHA-256 of its value, and an object file a value; both are published by rename,
and a value that no longer matches its hash is a miss. Several processes may share one store.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

PRIVATE_DIR = 0o700
STAGES = "stages"  # the folder of chunks and indexes: see agentloop/checkpoint.py
DEFAULT_MAX_BYTES = 2 << 30
EVICT_TO = 0.8  # evict down to this share of the bound, so that a full store doesn't evict at each write


def text_hash(*parts: str) -> str:
    """SHA-256 of the parts with their lengths, as 32 hex digits: the `…_hash` members of keys."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:32]


_sorted = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode


def value_hash(value: Any) -> str:
    """Hash of a JSON value, independent of the order of its members."""
    return text_hash(_sorted(value))


def _part(value: str) -> str:
    """A key part without the separator: paths and names may hold colons."""
    return value.replace("%", "%25").replace(":", "%3A").replace("\n", "%0A")


def _key(layer: str, *parts: str | int) -> str:
    return ":".join([layer, "v1", *(_part(str(part)) for part in parts)])


def _digest(content_hash: str) -> str:
    return content_hash.removeprefix("sha256:")


def file_hash_key(namespace: str, path: str, mtime_ns: int, size: int) -> str:
    """`file_hash:v1:{namespace}:{path}:{mtime}:{size}`; the value also names inode and ctime."""
    return _key("file_hash", namespace, path, mtime_ns, size)


def manifest_key(namespace: str, kind: str, root: str, rules_hash: str) -> str:
    """Directory and repository manifests: `manifest:v1:{namespace}:{kind}:{root}:{rules_hash}`."""
    return _key("manifest", namespace, kind, root, rules_hash)


def chunks_key(namespace: str, corpus_hash: str, chunker: str, include_rules_hash: str) -> str:
    """`chunks:v1:{namespace}:{corpus_hash}:{chunker}:{include_rules_hash}`."""
    return _key("chunks", namespace, _digest(corpus_hash), chunker, include_rules_hash)


def file_chunks_key(namespace: str, content_hash: str, kind: str, language: str, chunker: str) -> str:
    """Chunks of one file, so that one changed file is chunked alone."""
    return _key("file_chunks", namespace, _digest(content_hash), kind, language, chunker)


def parse_key(namespace: str, content_hash: str, language: str, parser: str) -> str:
    """Parse output of one file: `parse:v1:{namespace}:{content_hash}:{language}:{parser}`."""
    return _key("parse", namespace, _digest(content_hash), language, parser)


def index_key(
    namespace: str, corpus_hash: str, index_type: str, strategy_version: str, chunk_manifest_hash: str
) -> str:
    """`index:v1:{namespace}:{corpus_hash}:{index_type}:{strategy_version}:{chunk_manifest_hash}`."""
    return _key("index", namespace, _digest(corpus_hash), index_type, strategy_version, chunk_manifest_hash)


def embedding_key(namespace: str, chunk_hash: str, model: str, dimension: int, normalization: str) -> str:
    """`embedding:v1:{namespace}:{chunk_hash}:{embedding_model}:{embedding_dimension}:{normalization}`."""
    return _key("embedding", namespace, _digest(chunk_hash), model, dimension, normalization)


def retrieval_key(
    namespace: str,
    *,
    corpus_hash: str,
    query_hash: str,
    strategy_set_hash: str,
    retrieval_budget: int,
    index_versions_hash: str,
) -> str:
    """`retrieval:v1:{namespace}:{corpus_hash}:{query_hash}:{strategy_set_hash}:{budget}:{index_versions}`."""
    return _key(
        "retrieval",
        namespace,
        _digest(corpus_hash),
        query_hash,
        strategy_set_hash,
        retrieval_budget,
        index_versions_hash,
    )


def rerank_key(namespace: str, retrieval_hash: str, reranker: str, version: str, top_k: int) -> str:
    """`rerank:v1:{namespace}:{retrieval_hash}:{reranker}:{reranker_version}:{top_k}`."""
    return _key("rerank", namespace, retrieval_hash, reranker, version, top_k)


def dedup_key(namespace: str, rerank_hash: str, version: str) -> str:
    """Deduplicated evidence sets: `dedup:v1:{namespace}:{rerank_hash}:{deduplicator_version}`."""
    return _key("dedup", namespace, rerank_hash, version)


def evidence_pack_key(
    namespace: str,
    *,
    rerank_hash: str,
    compressor: str,
    template_version: str,
    policy_mode: str,
    final_budget: int,
    schema: str,
) -> str:
    """`evidence_pack:v1:{namespace}:{rerank_hash}:{compressor}:{template}:{policy_mode}:{budget}:{schema}`."""
    return _key(
        "evidence_pack",
        namespace,
        rerank_hash,
        compressor,
        template_version,
        policy_mode,
        final_budget,
        schema,
    )


def model_output_key(
    namespace: str,
    *,
    model: str,
    model_version: str,
    prompt_template: str,
    input_hash: str,
    output_schema: str,
    policy_mode: str,
) -> str:
    """`model_output:v1:{namespace}:{model}:{version}:{template}:{input_hash}:{schema}:{policy_mode}`."""
    return _key(
        "model_output",
        namespace,
        model,
        model_version,
        prompt_template,
        input_hash,
        output_schema,
        policy_mode,
    )


class Cache(Protocol):
    """What the engine asks of a cache. A cache never raises: trouble is a miss, or a value not kept."""

    def get(self, key: str) -> bytes | None:
        """The value of a key, None where there is none or it is damaged."""
        ...

    def put(self, key: str, value: bytes) -> bool:
        """Keep a value; False when it could not be kept (no room, no permission)."""
        ...

    def single_flight(self, key: str) -> contextlib.AbstractContextManager[None]:
        """Only one process computes the value of `key` at a time; look again with `get` inside."""
        ...


class NoCache:
    """The cache that is off (`AGENTLOOP_CACHE=off`)."""

    def get(self, key: str) -> bytes | None:
        """Always a miss."""
        return None

    def put(self, key: str, value: bytes) -> bool:
        """Keeps nothing."""
        return False

    @contextlib.contextmanager
    def single_flight(self, key: str) -> Iterator[None]:
        """No waiting: nothing is shared."""
        yield


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Entries and bytes of one layer."""

    entries: int
    size_bytes: int


class FileCache:
    """A content-addressed store in a private folder, bounded in bytes, safe under concurrent writers.

    Layout: `entries/LAYER/KK/KEYHASH` (JSON: key, value hash, size) and `objects/HH/HASH` (the value).
    An entry's mtime is its last use; eviction drops the least recently used.
    """

    def __init__(self, root: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._written = 0  # since the last look at the store's size
        for name in ("entries", "objects", "locks"):
            (root / name).mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)

    @property
    def root(self) -> Path:
        """The store's folder."""
        return self._root

    def _entry_path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        return self._root / "entries" / key.split(":", 1)[0] / name[:2] / name

    def _object_path(self, digest: str) -> Path:
        return self._root / "objects" / digest[:2] / digest

    def get(self, key: str) -> bytes | None:
        """The value of a key, None where there is none or its bytes no longer match their hash."""
        entry_path = self._entry_path(key)
        try:
            entry = json.loads(entry_path.read_bytes())
            if entry["key"] != key:
                return None
            value = self._object_path(entry["sha256"]).read_bytes()
            os.utime(entry_path)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if hashlib.sha256(value).hexdigest() != entry["sha256"]:
            with contextlib.suppress(OSError):
                self._object_path(entry["sha256"]).unlink()
            return None
        return value

    def put(self, key: str, value: bytes) -> bool:
        """Keep a value; False when the disk has no room or the folder can't be written."""
        digest = hashlib.sha256(value).hexdigest()
        object_path, entry_path = self._object_path(digest), self._entry_path(key)
        entry = json.dumps({"key": key, "sha256": digest, "size": len(value)}).encode()
        try:
            if not object_path.exists():
                self._publish(object_path, value)
                self._written += len(value)
            self._publish(entry_path, entry)
        except OSError as exc:
            if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                self.evict()
            return False
        if self._written > self._max_bytes // 50:
            self.evict()
        return True

    def _publish(self, path: Path, data: bytes) -> None:
        """Write beside the target and rename. No fsync: a lost value is a miss, a torn one fails its hash."""
        path.parent.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.rename(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    @contextlib.contextmanager
    def single_flight(self, key: str) -> Iterator[None]:
        """Hold the key's lock file; others of the same key wait. The kernel frees it if the holder dies."""
        name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:3]
        try:
            descriptor = os.open(self._root / "locks" / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            yield
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _entries(self) -> Iterator[tuple[str, Path]]:
        layers = sorted((self._root / "entries").iterdir())
        for layer in layers:
            for path in sorted(layer.glob("??/*")):
                if not path.name.startswith("."):
                    yield layer.name, path

    def stats(self) -> dict[str, CacheStats]:
        """Entries and bytes by layer; values shared between keys count at each."""
        found: dict[str, list[int]] = {}
        for layer, path in self._entries():
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                found.setdefault(layer, []).append(int(json.loads(path.read_bytes())["size"]))
        for place in (self._root / STAGES).glob("*/*"):  # chunks and index of one corpus
            files = [path for path in place.rglob("*") if path.is_file()]
            found.setdefault(STAGES, []).append(sum(path.stat().st_size for path in files))
        return {layer: CacheStats(len(sizes), sum(sizes)) for layer, sizes in found.items()}

    def clear(self, keep: Callable[[str], bool] = lambda key: False) -> int:
        """Remove all entries but those whose key `keep` accepts; returns how many went."""
        gone = 0
        for _, path in list(self._entries()):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                if keep(str(json.loads(path.read_bytes())["key"])):
                    continue
            with contextlib.suppress(OSError):
                path.unlink()
                gone += 1
        shutil.rmtree(self._root / STAGES, ignore_errors=True)
        self._sweep()
        return gone

    def _sweep(self) -> None:
        """Remove objects that no entry names."""
        named = set()
        for _, path in self._entries():
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                named.add(json.loads(path.read_bytes())["sha256"])
        for path in (self._root / "objects").glob("??/*"):
            if path.name not in named and not path.name.startswith("."):
                with contextlib.suppress(OSError):
                    path.unlink()

    def evict(self) -> None:
        """Drop the least recently used entries until the store is well below its bound."""
        self._written = 0
        with self.single_flight("evict"):
            uses: list[tuple[float, int, Path]] = []
            for _, path in self._entries():
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    size = int(json.loads(path.read_bytes())["size"])
                    uses.append((path.stat().st_mtime, size, path))
            total = sum(size for _, size, _ in uses)
            if total <= self._max_bytes:
                return
            for _, size, path in sorted(uses):
                if total <= self._max_bytes * EVICT_TO:
                    break
                with contextlib.suppress(OSError):
                    path.unlink()
                total -= size
            self._sweep()
