"""Token counting. The tokenizer is named in every pack.

toktok-rs counts as tiktoken does for o200k_base and carries its ranks: no download. Special-token
text such as `<|endoftext|>` in an input counts as the ordinary text that it is.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import toktok

TOKENIZER = "o200k_base"


_loading = threading.Lock()


def load() -> None:
    """Load the ranks, which the first count would do; the interpreter's lock is free meanwhile."""
    with _loading:  # else two threads that count first would both load them
        toktok.batch_count([], TOKENIZER)


def count(text: str) -> int:
    """Number of o200k_base tokens of `text`; lone surrogates count as U+FFFD."""
    return count_all([text])[0]


def count_all(texts: Sequence[str]) -> list[int]:
    """Number of o200k_base tokens of each text, in order."""
    clean = [t if t.isascii() else t.encode("utf-8", "replace").decode("utf-8") for t in texts]
    load()
    counts: list[int] = toktok.batch_count(clean, TOKENIZER)
    return counts
