"""Stages 4 to 6: strategies, fusion, reranking, deduplication with provenance."""

from agentloop.retrieval.newest import newest
from agentloop.retrieval.session import RetrievalSession

__all__ = ["RetrievalSession", "newest"]
