"""Stage 3, the in-memory index of one request: BM25, identifier-aware analysis, symbols."""
