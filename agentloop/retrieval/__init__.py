"""Stages 4 to 6: strategies, fusion, reranking, deduplication with provenance."""
