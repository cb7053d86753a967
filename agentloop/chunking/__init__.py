"""Stage 2, chunking: code, logs, prose, diffs and records, with exact byte and line spans."""
