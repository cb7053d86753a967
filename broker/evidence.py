"""Expanding a ref of a pack: the cited source as it is now, bounded, hash-checked, screened by policy."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

from agentloop.config import Policy
from agentloop.redact import Redactor
from agentloop.redact.controls import neutralise
from agentloop.request import Classification, CompressRequest, Confidentiality
from agentloop.sources.opening import Refused, open_file, open_parent
from broker.errors import not_found
from broker.views import EvidenceText, ReadEvidence

MAX_TEXT = 8_000  # characters: about 2,000 tokens, half of the default pack
MAX_FILE = 64 << 20


def expand(
    pack: Mapping[str, Any], request: Mapping[str, Any], asked: ReadEvidence, policy: Policy
) -> EvidenceText:
    """The text behind a ref. `pack` is the local artifact, whose hashes are whole.

    Raises:
        BrokerError: NOT_FOUND, the pack has no such evidence id or ref.
    """
    item = next((e for e in pack["payload"]["evidence"] if e["id"] == asked.evidence_id), None)
    if item is None or asked.ref >= len(item["source_refs"]):
        raise not_found()
    ref = item["source_refs"][asked.ref]
    parsed = CompressRequest.model_validate(dict(request))
    base = EvidenceText(
        evidence_id=asked.evidence_id,
        ref=asked.ref,
        path=ref.get("path") if policy.allow_paths else None,
        line_start=ref["line_start"],
        line_end=ref["line_end"],
        stale=False,
    )
    if "path" not in ref:
        return base.model_copy(update={"withheld": "policy"})  # the pack was made without paths
    data = _bytes(parsed, ref)
    if data is None or not _same(data, str(ref["content_hash"])):
        return base.model_copy(update={"stale": True, "withheld": "stale"})
    level = Classification(pack["payload"]["input_scope"]["classification"])
    withheld = _withheld(level, parsed, policy, ref)
    if withheld:
        return base.model_copy(update={"withheld": withheld})
    first, last, text = _lines(data, ref, asked.context_lines)
    clean = neutralise(Redactor(phi=level is Classification.PHI).clean(text).text)
    return base.model_copy(
        update={
            "line_start": first,
            "line_end": last,
            "text": clean[:MAX_TEXT],
            "truncated": len(clean) > MAX_TEXT,
        }
    )


def _withheld(level: Classification, request: CompressRequest, policy: Policy, ref: Mapping[str, Any]) -> str:
    """Why the text may not leave; empty when it may."""
    if level.protected:
        return f"classification {level}"
    if request.constraints.confidentiality is Confidentiality.LOCAL_ONLY:
        return "confidentiality local_only"
    if not policy.allow_excerpts:
        return "policy"
    return "derived text" if ref.get("derived") else ""


def _bytes(request: CompressRequest, ref: Mapping[str, Any]) -> bytes | None:
    """The whole file that a ref names, opened without following links; None where that can't be done."""
    number = int(str(ref["input_id"]).removeprefix("in")) - 1
    root = request.input_refs[number].uri
    path = str(ref["path"])
    whole = os.path.join(root, path) if os.path.isdir(root) else root
    if ".." in path.split("/") or path.startswith("/"):
        return None
    if ref.get("commit"):
        return _committed(os.path.abspath(root), str(ref["commit"]), path)
    try:
        parent = open_parent(whole, root)
    except Refused:
        return None
    try:
        descriptor, status = open_file(os.path.basename(whole), parent)
    except Refused:
        return None
    finally:
        os.close(parent)
    with os.fdopen(descriptor, "rb") as file:
        return file.read() if status.st_size <= MAX_FILE else None


def _committed(root: str, commit: str, path: str) -> bytes | None:
    """A file as a commit has it, read as objects."""
    from agentloop.sources.git import blob_at, open_store

    with open_store(root) as store:
        if isinstance(store, str):
            return None
        try:
            return blob_at(store, commit, path, MAX_FILE)
        except (KeyError, ValueError):
            return None


def _same(data: bytes, content_hash: str) -> bool:
    digest = content_hash.removeprefix("sha256:")
    return bool(digest) and hashlib.sha256(data).hexdigest().startswith(digest)


def _lines(data: bytes, ref: Mapping[str, Any], context: int) -> tuple[int, int, str]:
    """The cited lines with `context` lines on each side, as (first, last, text)."""
    lines = data.split(b"\n")
    first = max(1, ref["line_start"] - context)
    last = min(len(lines), ref["line_end"] + context)
    text = b"\n".join(lines[first - 1 : last])[: MAX_TEXT * 4]
    return first, last, text.decode("utf-8", "replace")
