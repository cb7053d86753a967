"""Hashes of inputs, and the manifest of what discovery found."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from agentloop.types import Corpus, InputInfo, SourceFile

HEX = len("sha256:")


def corpus_hash(files: Iterable[SourceFile]) -> str:
    """The hash of a folder: sha256 over the sorted lines `sha256 size path\\n` of its included files.

    `sha256` is 64 hex digits without a prefix, `size` is in bytes, `path` are the raw bytes of the name.
    An archive counts once, as the file that it is.
    """
    lines = {
        f"{file.ref_hash[HEX:]} {file.size if file.archive is None else file.archive.size} ".encode()
        + os.fsencode(file.ref_path)
        + b"\n"
        for file in files
    }
    return "sha256:" + sha256(b"".join(sorted(lines))).hexdigest()


def entries_hash(entries: Iterable[Mapping[str, Any]]) -> str:
    """As `corpus_hash`, of the `files` of manifests: a folder that was read in parts."""
    files = (entry.get("archive", entry) for entry in entries)
    lines = {
        f"{file['content_hash'][HEX:]} {file['size_bytes']} ".encode() + os.fsencode(file["path"]) + b"\n"
        for file in files
    }
    return "sha256:" + sha256(b"".join(sorted(lines))).hexdigest()


def build_manifest(corpus: Corpus, files: Sequence[SourceFile] | None = None) -> dict[str, Any]:
    """The specification's InputManifest: inputs, included files, exclusions with their reasons.

    It holds paths but no content; it stays on this machine.

    Args:
        files: those that are listed, all by default.
    """
    whole = sha256("".join(f"{info.content_hash}\n" for info in corpus.inputs).encode()).hexdigest()
    inputs = {info.input_id: info for info in corpus.inputs}
    return {
        "manifest_id": f"manifest_{whole[:16]}",
        "input_refs": [info.input_id for info in corpus.inputs],
        "corpus_hash": "sha256:" + whole,
        "inputs": [
            {
                "input_id": info.input_id,
                "type": str(info.type),
                "role": str(info.role),
                "content_hash": info.content_hash,
                "classification": str(info.classification),
                **({"commit": info.commit} if info.commit else {}),
                **({"tree": info.tree} if info.tree else {}),
            }
            for info in corpus.inputs
        ],
        "files": [
            file_entry(file, inputs[file.input_id]) for file in (corpus.files if files is None else files)
        ],
        "excluded": [
            {
                "input_id": left.input_id,
                "path": left.path,
                "reason": str(left.reason),
                **({"detail": left.detail} if left.detail else {}),
                **({"is_dir": True} if left.is_dir else {}),
            }
            for left in corpus.excluded
        ],
        "notes": list(corpus.notes),
    }


def file_entry(file: SourceFile, info: InputInfo) -> dict[str, Any]:
    """What a manifest tells of a file of an input."""
    entry: dict[str, Any] = {
        "input_id": file.input_id,
        "path": file.path,
        "content_hash": file.content_hash,
        "size_bytes": file.size,
        "kind": str(file.kind),
        "language": file.language,
        "mime": file.mime,
        "classification": str(file.classification),
        "included": "found in the folder" if info.is_dir else "named",
    }
    if file.commit or info.commit:
        entry["commit"] = file.commit or info.commit
    if file.archive is not None:
        held = file.archive
        entry["archive"] = {"path": held.path, "content_hash": held.content_hash, "size_bytes": held.size}
    if file.traits:
        entry["traits"] = sorted(map(str, file.traits))
    if file.derived is not None:
        entry["extractor"] = f"{file.derived.extractor}@{file.derived.version}"
    if file.kind == "log":
        entry["log_stream"] = f"{file.input_id}:{file.content_hash[: HEX + 16]}"
    return entry
