"""An independent check of whole packs: do the refs re-hash, and do claims say what the text says?

It shares no code with the engine's own verification: bytes are read from the corpus files again.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.golden import Lane
from eval.material import Material

WORD = re.compile(r"[^\W_]{3,}")
ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
SUPPORTED_SHARE = 0.6  # of a claim's distinct words of three letters or more


@dataclass(frozen=True, slots=True)
class Checked:
    """Counts of one pack."""

    refs: int
    refs_ok: int
    supported: int


class Originals:
    """The corpus files by input and path, read once."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self._held: dict[tuple[str, str], tuple[bytes, str] | None] = {}

    def get(self, input_id: str, path: str) -> tuple[bytes, str] | None:
        """Bytes and `sha256:` hash of a file; None where it isn't there."""
        key = (input_id, path)
        if key not in self._held:
            place = self._place(input_id, path)
            if place is None or not place.is_file():
                self._held[key] = None
            else:
                data = place.read_bytes()
                self._held[key] = (data, f"sha256:{hashlib.sha256(data).hexdigest()}")
        return self._held[key]

    def _place(self, input_id: str, path: str) -> Path | None:
        material = self.material
        if input_id == "in2":
            return material.baseline
        if material.lane is Lane.FILES:
            return material.path / path
        return material.path


def check_pack(released: dict[str, Any], originals: Originals) -> Checked:
    """Check every source ref of a released pack, and each claim against its referenced text."""
    refs = refs_ok = supported = 0
    for item in released["payload"]["evidence"]:
        texts = [item["source_refs"][0].get("path", "")]
        for ref in item["source_refs"]:
            refs += 1
            held = originals.get(ref["input_id"], ref.get("path", ""))
            if held is None:
                continue
            data, digest = held
            refs_ok += _holds(ref, data, digest)
            texts.append(_text(data[ref["byte_start"] : ref["byte_end"]]))
        supported += share_of_words(item["claim"], "\n".join(texts)) >= SUPPORTED_SHARE
    return Checked(refs, refs_ok, supported)


def _holds(ref: dict[str, Any], data: bytes, digest: str) -> bool:
    """Hashes of file and span agree, and the lines are those of the span's bytes."""
    start, end = int(ref["byte_start"]), int(ref["byte_end"])
    if not 0 <= start <= end <= len(data):
        return False
    span = hashlib.sha256(data[start:end]).hexdigest()
    first = data.count(b"\n", 0, start) + 1
    last = data.count(b"\n", 0, max(start, end - 1)) + 1
    return (
        digest.startswith(ref["content_hash"])
        and f"sha256:{span}".startswith(ref["chunk_hash"])
        and (ref["line_start"], ref["line_end"]) == (first, last)
    )


def _text(data: bytes) -> str:
    """The span as text; characters that JSON escaped are put back, for what was derived from JSON."""
    text = data.decode("utf-8", "replace")
    return ESCAPED.sub(lambda m: chr(int(m[1], 16)), text) if "\\u" in text else text


def share_of_words(claim: str, text: str) -> float:
    """Share of the claim's distinct words (three letters or more, case folded) that stand in `text`."""
    words = {w.casefold() for w in WORD.findall(claim)}
    if not words:
        return 1.0
    held = text.casefold()
    return sum(word in held for word in words) / len(words)
