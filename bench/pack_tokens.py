"""Tokens of packs: an item and its parts, the envelope, and how many items a budget holds.

    python bench/pack_tokens.py PATH [QUESTION...]

Asks each question (three of its own where none is given) of PATH with budgets of 2,000, 4,000 and 8,000
tokens and prints the means. Parts are counted alone, so that they add up to a little more than the item.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

from agentloop import compress_sync, tokens
from agentloop.api import make_request
from agentloop.pack import canonical

BUDGETS = (2000, 4000, 8000)
REST = ("id", "kind", "relevance", "confidence", "redaction", "tokens", "source_tokens", "flags", "collapsed")
QUESTIONS = (
    "How are errors reported?",
    "Where is the configuration read?",
    "What limits the size of a file?",
)


def size(value: Any) -> int:
    """Tokens of a JSON value in canonical form."""
    return tokens.count(canonical(value))


def parts(item: dict[str, Any]) -> dict[str, int]:
    """Tokens of the parts of an item."""
    ref = item["source_refs"][0]
    return {
        "item": size(item),
        "claim": size({"claim": item["claim"]}),
        "first ref": size(ref),
        "path": size({"path": ref.get("path", "")}),
        "hashes": size({"content_hash": ref["content_hash"], "chunk_hash": ref["chunk_hash"]}),
        "derived": size({"derived": ref["derived"]}) if "derived" in ref else 0,
        "other refs": sum(size(other) for other in item["source_refs"][1:]),
        "rest": size({k: item[k] for k in REST if k in item}),
    }


def main() -> None:
    """Print one table a budget."""
    path, *asked = sys.argv[1:]
    for budget in BUDGETS:
        rows: list[dict[str, int]] = []
        counts, envelopes, provenance = [], [], []
        for question in asked or QUESTIONS:
            request = make_request(question, [path], constraints={"final_evidence_pack_budget": budget})
            pack = compress_sync(request).released
            items = pack["payload"]["evidence"]
            rows += [parts(item) for item in items]
            counts.append(len(items))
            total = pack["payload"]["budget"]["final_pack_tokens"]
            envelopes.append(total - sum(size(item) for item in items))
            provenance.append(size(pack["provenance"]))
        means = [f"{key} {statistics.mean(r[key] for r in rows):.0f}" for key in rows[0]]
        print(
            f"budget {budget}: {statistics.mean(counts):.1f} items; "
            f"envelope {statistics.mean(envelopes):.0f}, provenance {statistics.mean(provenance):.0f}; "
            + ", ".join(means)
        )


if __name__ == "__main__":
    main()
