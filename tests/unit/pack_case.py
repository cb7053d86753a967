"""Real files through discovery and chunking to drafts and a pack; the ranking is by shared words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentloop.budget import Ledger
from agentloop.chunking import chunk_corpus
from agentloop.clock import SystemClock
from agentloop.compress import BuiltPack, build_pack, draft_claims
from agentloop.compress.terms import profile
from agentloop.config import Caps, Policy
from agentloop.index.symbols import SymbolParser
from agentloop.request import parse_request
from agentloop.retrieval.dedup import collapse
from agentloop.sources import discover
from agentloop.types import Candidate, Draft, Ranking
from agentloop.verify import verify_released


class PackCase:
    """One request over files that are written to `root`."""

    def __init__(
        self,
        root: Path,
        files: Mapping[str, str | bytes],
        question: str,
        *,
        policy: Policy | None = None,
        classification: str | None = None,
        kind: str = "directory",
        **request: Any,
    ) -> None:
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        ref = {"type": kind, "uri": str(root / name if kind == "records" else root)}
        if classification:
            ref["classification"] = classification
        self.root = root
        self.request = parse_request({"query": question, "input_refs": [ref], **request})
        self.policy = policy or Policy()
        self.caps = Caps()
        self.ledger = Ledger(SystemClock())
        self.corpus = discover(self.request, self.caps, self.policy, self.ledger)
        self.chunks = chunk_corpus(self.corpus, self.ledger, self.caps)
        self.ranking = self._rank()
        self.drafts = self._draft()

    def _rank(self) -> Ranking:
        texts = [self.corpus.text(chunk) for chunk in self.chunks]
        question = profile(self.request.question, texts)
        scored = [(question.weight(question.held(text)), -n) for n, text in enumerate(texts)]
        best = max(scored, default=(0.0, 0))[0] or 1.0
        found = [
            Candidate(-n, score / best, {"bm25": rank}, terms=tuple(sorted(question.held(texts[-n]))))
            for rank, (score, n) in enumerate(sorted(scored, reverse=True), 1)
            if score > 0
        ]
        kept = collapse(found, self.corpus, self.chunks)
        counts = len(self.chunks), len(found), len(found)
        return Ranking(tuple(kept), *counts, 500, ("bm25",), tuple(question.weights), 0.9, 1.0)

    def _draft(self) -> list[Draft]:
        parser = SymbolParser(self.caps, self.ledger)
        try:
            return draft_claims(self.ranking, self.corpus, self.chunks, self.request, parser, self.ledger)
        finally:
            parser.close()

    def build(self, drafts: list[Draft] | None = None) -> BuiltPack:
        """The pack, unverified."""
        made = self.drafts if drafts is None else drafts
        return build_pack(made, self.ranking, self.corpus, self.request, self.policy, self.ledger)

    def pack(self) -> dict[str, Any]:
        """The released pack, verified."""
        built = self.build()
        self.verify(built)
        return built.released

    def verify(self, built: BuiltPack) -> None:
        """Verification before release."""
        verify_released(built, self.corpus, self.request, self.policy, self.caps)


def claims(pack: dict[str, Any]) -> list[str]:
    """The claims of a pack in order."""
    return [item["claim"] for item in pack["payload"]["evidence"]]
