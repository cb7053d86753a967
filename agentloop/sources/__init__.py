"""Stage 1: what a request's inputs hold, read safely and hashed."""

from agentloop.sources.discover import discover
from agentloop.sources.extractors import extract
from agentloop.sources.hashing import hash_path
from agentloop.sources.manifest import build_manifest

__all__ = ["build_manifest", "discover", "extract", "hash_path"]
