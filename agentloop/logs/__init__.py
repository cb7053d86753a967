"""What a log says: timestamps, severity, templates, traces, phases, the root failure."""

from agentloop.logs.segment import segment

__all__ = ["segment"]
