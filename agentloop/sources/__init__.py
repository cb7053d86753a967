"""Stage 1, discovery: safe open, walk, ignore rules, manifest, records, documents, git objects."""
