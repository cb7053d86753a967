"""agentloop: a question about local files in, a pack of verified evidence out."""

__version__ = "0.1.0"
